"""kstore storage and Kafka's StorageTool print the same of directories that each formats."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import libs
from interop.kafka_tools_process import KafkaToolsProcess, Printed, kafka_tools
from kstore import cli

VERSION = "3.9.2"
STORAGE = "kafka.tools.StorageTool"
ID, OTHER = "wl29c-eVQmCyOOzKBLyFwA", "KkfQFslATR-nwp1ii66Mkw"
FILE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
"""
VOTERS = "controller.quorum.voters=1@localhost:9093\n"
BOOTSTRAP = "controller.quorum.bootstrap.servers=localhost:9093\n"
VOTER = f"1@localhost:9093:{OTHER}"


@pytest.fixture(scope="module")
def java() -> Iterator[KafkaToolsProcess]:
    libs(VERSION)
    with kafka_tools(VERSION) as running:
        yield running


class Both:
    """Formats directories of the same names, one after another, with each tool."""

    def __init__(
        self, folder: Path, java: KafkaToolsProcess, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._folder, self._java, self._capsys = folder, java, capsys

    def format(self, text: str, *words: str, cluster_id: str = ID) -> tuple[Printed, Printed]:
        """What Kafka's tool and what ours print, without the names of the tools' folders."""
        asked = []
        for side in ("theirs", "ours"):
            path = self._folder / f"{side}.properties"
            path.write_text(text.replace("DIR", str(self._folder / side)))
            asked.append(("format", "-t", cluster_id, "-c", str(path), *words))
        theirs = self._java.run(STORAGE, *asked[0])
        self._capsys.readouterr()
        status = cli.main(["storage", *asked[1]])
        ours = Printed(status, *self._capsys.readouterr())
        return self._plain(theirs, "theirs"), self._plain(ours, "ours")

    def _plain(self, printed: Printed, side: str) -> Printed:
        """With sorted lines, since Kafka's order of directories is that of a hash table, and the
        last line of standard error only: Kafka may have logged before."""
        out, err = (
            text.replace(str(self._folder / side), "DIR").removeprefix("kstore storage: ")
            for text in printed[1:]
        )
        return Printed(
            printed.status, "\n".join(sorted(out.splitlines())), "".join(err.splitlines()[-1:])
        )


@pytest.fixture
def both(tmp_path: Path, java: KafkaToolsProcess, capsys: pytest.CaptureFixture[str]) -> Both:
    return Both(tmp_path, java, capsys)


@pytest.mark.parametrize(
    ("quorum", "words"),
    [
        (VOTERS, ()),
        (VOTERS, ("--release-version", "3.8")),
        (VOTERS, ("-r", "3.7-IV2")),
        (VOTERS, ("-f", "kraft.version=0")),
        (BOOTSTRAP, ("--standalone",)),
        (BOOTSTRAP, ("--no-initial-controllers",)),
        (BOOTSTRAP, ("--initial-controllers", VOTER)),
    ],
)
def test_texts_of_new_directories(both: Both, quorum: str, words: tuple[str, ...]) -> None:
    theirs, ours = both.format(f"{FILE}{quorum}log.dirs=DIR/b,DIR/a\n", *words)
    assert theirs == ours
    assert (theirs.status, len(theirs.out.splitlines())) == (0, 2)


def test_texts_of_formatted_directories(both: Both, tmp_path: Path) -> None:
    one, two = (f"{FILE}{VOTERS}log.dirs={dirs}\n" for dirs in ("DIR/a", "DIR/a,DIR/b"))
    for text, words, status in (
        (one, (), 0), (one, (), 1), (one, ("-g",), 0), (two, (), 1),
        (two, ("--ignore-formatted",), 0), (two, ("-g",), 0),
    ):  # fmt: skip
        theirs, ours = both.format(text, *words)
        assert theirs == ours
        assert theirs.status == status
    theirs, ours = both.format(two, "-g", cluster_id=OTHER)
    assert theirs.status == ours.status == 1
    assert f"Expected {OTHER}, but read {ID}" in ours.err


def test_a_metadata_directory_of_its_own(both: Both) -> None:
    theirs, ours = both.format(f"{FILE}{VOTERS}log.dirs=DIR/a\nmetadata.log.dir=DIR/m\n")
    # kstore has no metadata log.
    assert ours.out in theirs.out.splitlines()
    assert len(theirs.out.splitlines()) == 2
    assert theirs.status == ours.status == 0


@pytest.mark.parametrize("text", ["node.id=1\nlog.dirs=DIR\nbroker.id=1\nzookeeper.connect=a:1\n"])
def test_a_file_of_a_zookeeper_cluster_is_refused(both: Both, text: str) -> None:
    theirs, ours = both.format(text)
    assert theirs == ours
    assert theirs.status == 1


def test_random_ids(java: KafkaToolsProcess, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = java.run(STORAGE, "random-uuid")
    assert cli.main(["storage", "random-uuid"]) == theirs.status == 0
    assert len(capsys.readouterr().out) == len(theirs.out) == 23
