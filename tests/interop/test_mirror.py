"""Topics of a real broker are mirrored while it runs; its own files and consumers are the judge."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from interop.clients import Clients, clients
from interop.compare_with_kafka import (
    as_expected,
    assert_same_producers,
    assert_same_records,
    assert_same_transactions,
    batches_of,
)
from interop.node import Node, free_ports, node
from interop.workload import PARTITIONS, prepare, work
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.cli import main
from kstore.errors import SourceChangedError, SourceError, UnknownTopicOrPartitionError
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import Position
from support.stores import QUIET

TOPICS = sorted({name.rpartition("-")[0] for name in PARTITIONS})


@pytest.fixture(scope="module")
def stage(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Clients]]:
    root = tmp_path_factory.mktemp("mirror")
    # It would compact between a copy and a look: test_mirror_compacted has it on.
    with node(kafka, root, log_cleaner_enable="false") as broker, clients(kafka, root) as java:
        java.use(broker)
        yield broker, java


def mirror(node: Node, topic: str, target: Path, **options: object) -> MirrorReport:
    with (
        KafkaSource(node.address, topic, patience=10) as source,
        kstore.open(target, config=QUIET) as store,
    ):
        return Mirror(store, source, **options).run()


def epochs_of(folder: Path) -> list[tuple[int, int]]:
    data = (folder / "leader-epoch-checkpoint").read_bytes()
    return [tuple(entry) for entry in LeaderEpochs.parse(data, folder)]


def assert_same_bytes(theirs: Path, ours: Path, start: int) -> None:
    """Batch by batch, from the one on that holds the log start."""
    expected = [data for batch, data in batches_of(theirs) if batch.last_offset >= start]
    found = [data for _, data in batches_of(ours)]
    assert found == expected, ours.name


def assert_copied(node: Node, java: Clients, target: Path) -> None:
    said = java.look(list(PARTITIONS))
    with kstore.open(target, mode="r") as store:
        for name, partition in said.items():
            topic, _, number = name.rpartition("-")
            log = store[topic][int(number)]
            assert_same_transactions(log, partition)
            if topic == "trimmed":
                # Offsets by time below a log start inside a segment depend on where segments begin,
                # and the broker remembers producers whose records are gone.
                assert log.start_offset == partition.plain.beginning_offset > 0
                assert tuple(map(as_expected, log)) == partition.records
            else:
                assert_same_records(log, partition)
                assert_same_producers(log, partition)
            report = log.verify()
            assert (report.findings, report.warnings) == ([], [])
            assert log.aborted_transactions(0, log.end_offset) is not None
            assert_same_bytes(node.log_dir / name, target / name, log.start_offset)
            assert epochs_of(target / name) == epochs_of(node.log_dir / name), name
            theirs, ours = (path / name / "partition.metadata" for path in (node.log_dir, target))
            assert theirs.read_bytes() == ours.read_bytes()


def test_every_kind_of_batch_comes_over(
    stage: tuple[Node, Clients], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, java = stage
    prepare(java)
    work(java, 1)
    for topic in TOPICS:
        assert mirror(node, topic, tmp_path).created
    assert_copied(node, java, tmp_path)

    node.stop()  # the next records have another leader epoch
    node.start()
    java.use(node)
    work(java, 2)
    arguments = ["--bootstrap-server", node.address, "--log-dir", str(tmp_path)]
    for topic in TOPICS:
        assert main(["mirror", *arguments, "--topic", topic]) == 0
    assert "existed" in capsys.readouterr().out
    assert_copied(node, java, tmp_path)
    assert mirror(node, "codecs", tmp_path).bytes == 0  # nothing is left to do


def test_a_source_that_changed(stage: tuple[Node, Clients], tmp_path: Path) -> None:
    node, java = stage
    java.create_topic("changing", 1)
    with pytest.raises(UnknownTopicOrPartitionError):
        mirror(node, "no-such-topic", tmp_path)
    pairs = [(f"k{n}", "v" * 50) for n in range(30)]
    node.produce("changing", pairs)
    mirror(node, "changing", tmp_path)

    # An unclean election's doing: the log goes back, and on under another epoch.
    node.stop()
    with kstore.open(node.log_dir, config=QUIET) as store:
        store["changing"][0].truncate_to(0)
    node.start()
    java.use(node)
    with pytest.raises(SourceChangedError, match="ends at 0 in the cluster and at 30 here"):
        mirror(node, "changing", tmp_path)
    node.produce("changing", pairs)
    node.produce("changing", pairs)
    with pytest.raises(SourceChangedError, match=r"other records|diverges from the copy"):
        mirror(node, "changing", tmp_path)
    with kstore.open(tmp_path, "r") as store:
        assert store["changing"][0].end_offset == 30

    # The epochs alone show it, too: a leader compares them before it sends anything.
    with KafkaSource(node.address, "changing") as source:
        source.describe()
        options = {"max_wait_ms": 0, "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20}
        assert source.fetch({0: Position(30, 0)}, **options)[0].diverged == 0
        good = source.fetch({0: Position(30)}, **options)[0]
        assert (good.error, good.high_watermark, good.diverged) == (0, 60, None)
        assert good.records


def test_a_cluster_without_an_answer_is_an_error() -> None:
    (port,) = free_ports(1)
    with pytest.raises(SourceError, match=rf"cannot talk to Kafka at 127\.0\.0\.1:{port}: "):
        KafkaSource(f"127.0.0.1:{port}", "t", patience=1)
