"""Real Kafka's jars, fetched from Maven Central once and kept, and its tools run over them.

The jars of a version live in ``$KSTORE_KAFKA_LIBS/<version>`` (default
``~/.cache/kstore/kafka-<version>``). Where Java or Maven is missing the tests fail by name in CI
(``CI=true``) and with ``KSTORE_INTEROP=require``; elsewhere they are skipped with that sentence.
With ``KSTORE_CLASS_ARCHIVES=use`` Kafka starts with the archives of :mod:`interop.class_archive`.
"""

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSIONS = ("3.9.2", "4.3.0")
OLD_VERSIONS = ("0.8.2.2", "0.10.2.2", "0.11.0.3", "2.8.2")  # with ZooKeeper; `make interop-all`
# Programs on Kafka's clients, and clients alone: a name, whose pom-NAME.xml lists the jars, and the
# version.
STREAMS, CONNECT = "streams-4.3.0", "connect-4.3.0"
OLD_CLIENTS = ("clients-0.10.2.2", "clients-1.1.1", "clients-2.0.1")
# Spark's own Kafka connector, for `make spark-all`, and the versions of Spark that it works in.
CONNECTOR, CONNECTOR_SPARK = "spark-connector-4.2.0", "4.2."
CONNECTOR_JARS = "spark-sql-kafka-0-10_*.jar"
# One small JVM that starts quickly: the tools run for a second or two each.
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# What the tools read and print is UTF-8 whatever the locale says (the names changed with Java 19).
UTF_8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
INSTALL = "install openjdk-17-jdk-headless and maven"


def required() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get("KSTORE_INTEROP") == "require"


def unavailable(sentence: str) -> None:
    """Fail where interop is required, else skip and say why."""
    import pytest  # here, because a benchmark fetches the jars without it

    if required():
        pytest.fail(f"interop: {sentence}", pytrace=False)
    pytest.skip(sentence)


def _directory(version: str) -> Path:
    root = os.environ.get("KSTORE_KAFKA_LIBS")
    if root:
        return Path(root) / version
    name = f"kafka-{version}" if _is_kafka(version) else version
    return Path.home() / ".cache" / "kstore" / name


def _is_kafka(version: str) -> bool:
    """A broker and its tools, not a program with a name."""
    return version[0].isdigit()


def _complete(directory: Path, version: str) -> bool:
    """Maven copied everything: the directory then gets its final name."""
    if version == CONNECTOR:
        jars = CONNECTOR_JARS
    else:
        jars = f"kafka_*-{version}.jar" if _is_kafka(version) else "kafka-clients-*.jar"
    return any(directory.glob(jars))


def _download(version: str, target: Path, attempts: int = 3) -> str | None:
    """Fetch a version's jars; None when they are, else why not."""
    part = target.with_name(target.name + ".part")
    number = version.rpartition("-")[2]
    if version == CONNECTOR:
        pom = HERE / "pom-spark.xml"
    elif _is_kafka(version):
        pom = HERE / ("pom-old.xml" if version in OLD_VERSIONS else "pom.xml")
    else:
        pom = HERE / f"pom-{version.partition('-')[0]}.xml"
    scala = "2.11" if version.startswith("0.") else "2.13"
    command = ["mvn", "-q", "-B", "-f", str(pom), f"-Dkafka.version={number}"]
    command += [f"-Dscala.version={scala}"]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    output = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(5 * attempt)
        shutil.rmtree(part, ignore_errors=True)
        done = subprocess.run(
            [*command, f"-DoutputDirectory={part}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        if done.returncode == 0 and _complete(part, version):
            os.replace(part, target)
            return None
        output = done.stdout[-2000:]
    return f"Maven could not fetch the jars of {version} in {attempts} attempts:\n{output}"


@cache
def prepare(version: str) -> tuple[Path, str | None]:
    """The directory of a version's jars, and why they are missing (None: they are not)."""
    target = _directory(version)
    if shutil.which("java") is None:
        return target, f"java is missing: {INSTALL}"
    if _complete(target, version):
        return target, None
    if shutil.which("mvn") is None:
        return target, f"maven is missing and {target} holds no jars: {INSTALL}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f".{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want them at once
        if _complete(target, version):
            return target, None
        shutil.rmtree(target, ignore_errors=True)
        return target, _download(version, target)


def libs(version: str) -> Path:
    """The directory that holds the jars; skips or fails the test where there is none."""
    directory, reason = prepare(version)
    if reason:
        unavailable(reason)
    return directory


def archive_path(version: str) -> Path:
    """Where the archive of a version's classes is kept, by the Java that made it."""
    java = Path(shutil.which("java") or "java").resolve()
    made = java.stat().st_mtime_ns if java.exists() else 0
    of_java = hashlib.sha256(f"{java} {made}".encode()).hexdigest()[:12]
    directory = _directory(version)
    return directory.with_name(f"{directory.name}.{of_java}.jsa")


@cache
def _archive(version: str) -> Path | None:
    """The archive to use, if it was made; none for measurements: Kafka's own scripts have none."""
    path = archive_path(version)
    is_wanted = os.environ.get("KSTORE_CLASS_ARCHIVES") == "use"
    return path if is_wanted and path.exists() else None


def java_command(
    version: str,
    main: str,
    *arguments: object,
    level: str = "off",
    classes: Path | None = None,
    jvm: Sequence[str] = JVM,
) -> list[str]:
    """The command line of one of Kafka's classes, or of ours in a directory of classes.

    Level is what slf4j-simple lets through: one for all, or NAME=LEVEL of single loggers too.
    """
    default, *single = level.split(",")
    logging = [f"-Dorg.slf4j.simpleLogger.defaultLogLevel={default}"]
    logging += [f"-Dorg.slf4j.simpleLogger.log.{each}" for each in single]
    class_path = f"{libs(version)}/*"  # first: an archive is for a path that begins so
    if classes is not None:
        class_path += f":{classes}"
    archive = _archive(version)
    if archive is not None:
        jvm = [*jvm, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    return ["java", *jvm, *UTF_8, *logging, "-cp", class_path, main, *map(str, arguments)]


@cache
def compiled(version: str, program: str) -> Path:
    """The directory of the classes of one of our Java programs, made for a version's jars."""
    if shutil.which("javac") is None:
        unavailable("the Java compiler is missing: install openjdk-17-jdk-headless")
    classes = Path(tempfile.mkdtemp(prefix=f"kstore-{program}-{version}-"))
    atexit.register(shutil.rmtree, classes, ignore_errors=True)
    source = HERE / "java" / f"{program}.java"
    command = ["javac", "-d", str(classes), "-cp", f"{libs(version)}/*"]
    command += ["-implicit:class", "-sourcepath", str(source.parent), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise ToolError(f"javac {source.name} for {version}: {done.stderr[-3000:]}")
    return classes


class ToolError(AssertionError):
    """One of Kafka's tools failed."""


def run(
    version: str,
    main: str,
    *arguments: object,
    text: bytes = b"",
    timeout: float = 90,
    check: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's tools to its end. Old ones hang without a broker: hence the timeout."""
    done = subprocess.run(
        java_command(version, main, *arguments),
        input=text,
        capture_output=True,
        timeout=timeout,
    )
    if check and done.returncode != 0:
        output = (done.stdout[-2000:] + done.stderr[-2000:]).decode(errors="replace")
        raise ToolError(f"{main} of {version} ended with {done.returncode}: {output}")
    return done


def ask_segments(version: str, lines: list[str], level: str = "off") -> tuple[list[str], str]:
    """The answers of java/Segments.java, one a line, and all that Kafka logged at a level."""
    done = subprocess.run(
        java_command(version, "Segments", classes=compiled(version, "Segments"), level=level),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=150,
    )
    answers = done.stdout.split()
    if done.returncode or len(answers) != len(lines):
        raise ToolError(f"Segments.java: {done.stderr[-3000:]}")
    return answers, done.stderr
