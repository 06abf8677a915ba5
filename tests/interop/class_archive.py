"""Archives of the classes that Kafka loads: its brokers and tools start with less work.

Java's class data sharing: a broker starts with 1.3 s of processor time instead of 2.3, a tool with
0.37 instead of 0.48, and the interop tests start hundreds of them. An archive is for one Java and
one version's jars. ``make interop-jars`` makes it once; without it, everything starts more slowly.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from interop.kafka_jars import JVM, VERSIONS, archive_path, java_command, libs
from interop.node import Node

_TOOLS = "org.apache.kafka.tools."
_NO_BROKER = ("--bootstrap-server", "127.0.0.1:1")
# They load their classes, find no broker and end.
_LOADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (f"{_TOOLS}TopicCommand", (*_NO_BROKER, "--list")),
    (f"{_TOOLS}consumer.group.ConsumerGroupCommand", (*_NO_BROKER, "--list", "--timeout", "500")),
    (f"{_TOOLS}consumer.ConsoleConsumer", (*_NO_BROKER, "--topic", "t", "--timeout-ms", "500")),
    (f"{_TOOLS}GetOffsetShell", (*_NO_BROKER, "--topic", "t")),
    ("kafka.tools.DumpLogSegments", ("--files", "/dev/null")),
)
_SECONDS = 5  # of a tool that waits for a broker


def make(version: str) -> None:
    """Make a version's archive, unless it exists."""
    target = archive_path(version)
    if target.exists():
        return
    with tempfile.TemporaryDirectory(prefix="kstore-classes-", dir=target.parent) as scratch:
        classes = _broker_classes(version, Path(scratch))
        for number, (main, words) in enumerate(_LOADERS):
            classes |= _tool_classes(version, main, words, Path(scratch) / f"{number}.list")
        every, part = Path(scratch) / "classes", Path(scratch) / "archive"
        every.write_text("".join(f"{name}\n" for name in sorted(classes)))
        jvm = ["-Xshare:dump", f"-XX:SharedClassListFile={every}", f"-XX:SharedArchiveFile={part}"]
        done = subprocess.run(
            ["java", *JVM, *jvm, "-cp", f"{libs(version)}/*"], capture_output=True, timeout=120
        )
        if done.returncode == 0 and part.exists():
            part.rename(target)
        else:
            print(f"no archive of Kafka {version}'s classes: {done.stderr[-500:]!r}")


def _broker_classes(version: str, scratch: Path) -> set[str]:
    found = scratch / "broker.list"
    node = Node(version, scratch)
    node.jvm = (*JVM, f"-XX:DumpLoadedClassList={found}")
    try:
        node.start()
        node.stop()
    finally:
        node.kill()
    return set(found.read_text().splitlines())


def _tool_classes(version: str, main: str, words: tuple[str, ...], found: Path) -> set[str]:
    command = java_command(version, main, *words, jvm=(*JVM, f"-XX:DumpLoadedClassList={found}"))
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
    return set(found.read_text().splitlines()) if found.exists() else set()


if __name__ == "__main__":
    for each in sys.argv[1:] or VERSIONS:
        make(each)
