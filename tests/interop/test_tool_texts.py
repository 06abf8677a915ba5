"""kstore's tools and Kafka's print the same texts and end with the same status.

Each line of `tool_cases` is run by both on one broker. `plain` says what counts as the same.
"""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import libs
from interop.kafka_tools_process import KafkaToolsProcess, Printed, kafka_tools
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from interop.tool_cases import PRODUCER, TOOLS, Tool
from interop.tool_files import FILES
from kstore import cli

VERSION = "3.9.2"
_WARN = "WARN: No action will be performed"  # Kafka prints it before it checks the options
_CLASS = re.compile(r"(?:Exception in thread \"main\" )?(?:[a-z]+[.])+[A-Z]\w*: ")


@pytest.fixture(
    scope="module", params=["kstore", pytest.param(VERSION, marks=pytest.mark.all_versions)]
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KstoreNode | Node]:
    """orders has three partitions and 30 records."""
    libs(VERSION)
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        broker.create_topic("orders", partitions=3, retention_ms=-1)
        broker.produce("orders", [(f"k{n}", f"v{n}") for n in range(30)])
        for topic in ("other", "setx", "sety"):
            broker.create_topic(topic)
        yield broker


@pytest.fixture(scope="module")
def java() -> Iterator[KafkaToolsProcess]:
    libs(VERSION)
    with kafka_tools(VERSION) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def words_of(line: str, files: Path, address: str, side: str) -> list[str]:
    """The words of a line, with the server, and the names of things of a side."""
    server = ["--bootstrap-server", address]
    has_server = False
    words = []
    for word in shlex.split(re.sub(r"{(.*?)}", rf"\g<1>{side}", line)):
        if word in ("@", "-"):
            has_server = True
            words += server if word == "@" else []
        else:
            words.append(word.replace("FILE:", f"{files}/").replace("ADDRESS", address))
    return words if has_server else [*words, *server]


def plain(printed: Printed, side: str) -> Printed:
    """What is compared: the status, the lines of standard output in any order without a trace of
    Java, and the first line of standard error without names of Java's classes and kstore's tools.
    """
    out = re.sub(r"TopicId: \S+", "TopicId: ID", printed.out)
    out = re.sub(r"\b(new|a[.]b|given|set|alice|bob|c)[xy]\b", r"\1", out)
    out = re.sub(r'"size":\d+', '"size":0', out)
    out = re.sub(r"Configs: (.*)", lambda found: "Configs: " + _sorted(found[1]), out)
    lines = [line.rstrip() for line in out.splitlines()]
    kept = [line for n, line in enumerate(lines) if line and not _is_trace(line, lines[:n])]
    err = re.sub(r"\b(set|alice|bob|c)[xy]\b", r"\1", printed.err)
    if ": error:" in re.sub(r" +", " ", err):  # argparse4j: the sentence is the last
        err = re.sub(r"-\n\s*", "-", err)  # a line ends after the hyphens of an option, too
        err = re.sub(r"\s+", " ", err).partition(": error: ")[2]
        err = err.partition(" Did you mean:")[0].strip()
    first = next((line for line in err.splitlines() if line and not line.startswith(_WARN)), "")
    first = _CLASS.sub("", re.sub(r"^kstore [a-z-]+: ", "", first)).rstrip()
    return Printed(printed.status, "\n".join(sorted(kept)), first)


def _sorted(text: str) -> str:
    return ",".join(sorted(text.split(",")))


def _is_trace(line: str, before: list[str]) -> bool:
    """Whether a line is of an exception's trace, whose first repeats the sentence before it."""
    if line.startswith(("\tat ", "\t... ", "Caused by: ")):
        return True
    message = _CLASS.sub("", line)
    return message != line and any(each.endswith(message) for each in before)


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_texts_and_statuses_are_kafkas(
    tool: Tool,
    served: KstoreNode | Node,
    java: KafkaToolsProcess,
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    differing = {}
    for line in (*tool.lines, *tool.different):
        theirs = java.run(tool.main, *words_of(line, files, served.address, "x"))
        capsys.readouterr()
        status = cli.main([tool.name, *words_of(line, files, served.address, "y")])
        ours = Printed(status, *capsys.readouterr())
        if plain(theirs, "x") != plain(ours, "y"):
            differing[line] = f"\n  {plain(theirs, 'x')}\n  {plain(ours, 'y')}"
    unexpected = [f"{line}{both}" for line, both in differing.items() if line not in tool.different]
    assert unexpected == [], "\n".join(unexpected)
    assert [line for line in tool.different if line not in differing] == []


@pytest.mark.parametrize(
    ("options", "sent", "statuses"), [((), 2, (0, 1)), (("--sync",), 1, (1, 1))], ids=["", "sync"]
)
def test_a_line_that_is_too_large(
    options: tuple[str, ...],
    sent: int,
    statuses: tuple[int, int],
    served: KstoreNode | Node,
    java: KafkaToolsProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both send the other lines, or with --sync those before it; kstore's status says so."""
    text = f"one\n{'x' * 2_000_000}\nthree\n"
    topics = [f"lines{len(options)}{side}" for side in "xy"]
    at = ("--bootstrap-server", served.address)
    for topic in topics:
        served.create_topic(topic)
    theirs = java.run(PRODUCER.main, "--topic", topics[0], *options, *at, text=text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    ours = cli.main(["console-producer", "--topic", topics[1], *options, *at])
    assert (theirs.status, ours) == statuses
    assert "line 2: a record takes 2" in capsys.readouterr().err
    for topic in topics:
        cli.main(["get-offsets", "--topic", topic, *at])
        assert capsys.readouterr().out == f"{topic}:0:{sent}\n"


OF_DIRECTORIES = {
    "topics": (
        "--list", "--list --topic nope", "--describe --exclude-internal",
        "--describe --topic orders", "--describe --topic nope",
        "--describe --topic nope --if-exists",
        "--describe --topics-with-overrides", "--describe --under-replicated-partitions",
        "--describe --unavailable-partitions", "--describe --at-min-isr-partitions",
        "--list --partitions 2", "--alter --topic orders", "--create", "--describe --if-exists",
        "--create --topic z --partitions 0", "--create --topic z --replication-factor 0",
    ),
    "get-offsets": (
        "", "--topic orders", "--topic orders --partitions 0 --time 0",
        "--topic orders --partitions 0 --time -3", "--topic orders --time -5", "--topic nope",
        "--topic orders --partitions x",
        "--topic-partitions 'orders:0-2'",
        "--topic-partitions 'orders:x'", "--topic orders --time nope",
    ),
    "console-consumer": (
        "--topic orders --partition 0 --offset 2 --max-messages 2 --property print.key=true",
        "--topic orders --partition 0 --offset nope", "--topic orders --partition x",
    ),
    # Not what changes a directory, which has one writer, nor groups that do not exist.
    "consumer-groups": (
        "--list", "--list --state", "--list --group g", "--list --describe", "--describe",
        "--describe --group g --offsets --members", "--describe --all-groups", "--delete", "",
        "--reset-offsets --group g --topic orders --to-latest --to-earliest", "--nope",
        "--delete-offsets", "--delete --group g --topic orders", "--list --members",
    ),
    "configs": (
        "--describe --entity-type topics --entity-name other", "--describe --topic other",
        "--describe --topic orders --add-config a=b", "--topic orders", "--nope",
        "--alter --topic orders", "--alter --topic orders --add-config retention.ms",
        "--alter --topic orders --add-config a=b --add-config-file FILE:config",
        "--alter --entity-type topics --add-config retention.ms=1",
        "--alter --describe --topic orders", "--describe --topic other --force",
    ),
    "log-dirs": (
        "--nope", "--describe --topic orders", "--describe --topic-list", "--describe extra",
        "--describe --topic-list orders --topic-list other",
    ),
    "delete-records": ("--offset-json-file FILE:offsets-none", "--offset-json-file FILE:missing"),
}  # fmt: skip


@pytest.mark.parametrize("served", ["kstore"], indirect=True)
@pytest.mark.parametrize("name", OF_DIRECTORIES)
def test_a_directory_has_the_texts_of_a_server(
    name: str, served: KstoreNode, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read beside the broker that has it open. A broker writes log starts to disk later."""
    # Not -1, kstore's default: a server, whose default differs, shows that as the topic's own.
    set_it = ["--alter", "--topic", "orders", "--add-config", "retention.ms=86400000"]
    assert cli.main(["configs", "--bootstrap-server", served.address, *set_it]) == 0
    differing = {}
    for line in OF_DIRECTORIES[name]:
        printed = []
        for words in (
            words_of(line, files, served.address, ""),
            [*words_of(f"{line} -", files, "", ""), "--log-dir", str(served.log_dir)],
        ):
            capsys.readouterr()
            status = cli.main([name, *words])
            printed.append(plain(Printed(status, *capsys.readouterr()), ""))
        if printed[0] != printed[1]:
            differing[line] = printed
    assert differing == {}
