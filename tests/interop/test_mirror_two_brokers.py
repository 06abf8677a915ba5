"""A topic with leaders on two brokers is mirrored while one dies, comes back, and all changes."""

import gc
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

import kstore
from interop.compare_with_kafka import batches_of
from interop.node import Node, two_nodes
from kstore import Store
from kstore.errors import SourceChangedError
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror import copy as engine
from kstore.mirror.source import KafkaSource
from support.stores import QUIET

PARTITIONS = range(4)
PATIENCE = 100.0  # seconds; on a busy machine a broker takes long to come back


@pytest.fixture
def two(kafka: str, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Of the clients that fill the topic, sockets of refused connections stay open."""
    try:
        with two_nodes(kafka, tmp_path) as nodes:
            yield nodes
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


class Following:
    """A mirror that runs in a thread until it is stopped, or fails."""

    def __init__(self, nodes: tuple[Node, Node], store: Store) -> None:
        self._stop = threading.Event()
        self.error: BaseException | None = None
        servers = [node.address for node in nodes]
        self._source = KafkaSource(servers, "t", patience=PATIENCE)
        self._mirror = Mirror(store, self._source)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._mirror.run(follow=True, stop=self._stop.is_set)
        except Exception as error:
            self.error = error

    def end(self) -> MirrorReport:
        self._stop.set()
        self.ended()
        return self._mirror.report()

    def ended(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._source.close()


def wait_until(holds: Callable[[], bool], following: Following | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert following is None or following.error is None, following.error
        assert time.monotonic() < deadline
        time.sleep(0.1)


def send(node: Node, partitions: list[int], count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=node.address, acks="all")
    sent = [
        producer.send("t", b"%d-%d" % (number, n), key=b"k", partition=number)
        for number in partitions
        for n in range(count)
    ]
    for future in sent:
        future.get(60)
    producer.close()


def ends(store: Store) -> list[int]:
    return [log.end_offset for log in store["t"]]


@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # of refused ones
def test_leaders_on_two_brokers(
    two: tuple[Node, Node],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1, "kafka")  # what it logs holds on to its sockets
    monkeypatch.setattr(engine, "_PATIENCE", PATIENCE)
    first, second = two
    admin = KafkaAdminClient(bootstrap_servers=first.address)
    made = {"t": {"num_partitions": len(PARTITIONS), "replication_factor": 1}}
    wait_until(lambda: len(admin.describe_cluster()["brokers"]) == 2)
    admin.create_topics(made)
    wait_until(lambda: sum(len(list(node.log_dir.glob("t-*"))) for node in two) == len(PARTITIONS))
    theirs = sorted(int(path.name[2:]) for path in second.log_dir.glob("t-*"))
    ours = sorted(set(PARTITIONS) - set(theirs))
    assert theirs
    assert ours  # each leads some
    send(first, list(PARTITIONS), 50)

    with kstore.open(tmp_path / "copy", config=QUIET) as store:
        following = Following(two, store)
        wait_until(lambda: "t" in store and ends(store) == [50] * 4, following)

        # One broker dies: the other's partitions are mirrored; when it is back, all are.
        second.kill()
        send(first, ours, 30)
        wait_until(lambda: all(store["t"][number].end_offset == 80 for number in ours), following)
        assert all(store["t"][number].end_offset == 50 for number in theirs)
        second.start()
        send(first, theirs, 30)
        wait_until(lambda: ends(store) == [80] * 4, following)
        assert sum(each.bytes for each in following.end().partitions) > 0
        for number in PARTITIONS:
            node = second if number in theirs else first
            name = f"t-{number}"
            copied = [data for _, data in batches_of(Path(store["t"][number].path))]
            assert copied == [data for _, data in batches_of(node.log_dir / name)], name

        # Records are deleted before they were copied, on both.
        send(first, list(PARTITIONS), 40)
        admin.delete_records({TopicPartition("t", number): 100 for number in (ours[0], theirs[0])})
        with KafkaSource(first.address, "t", patience=PATIENCE) as source:
            report = Mirror(store, source).run()
        assert ends(store) == [120] * 4
        for each in report.partitions:
            overtaken = each.partition in (ours[0], theirs[0])
            assert any("80 to 99 before they were copied" in n for n in each.notes) == overtaken
            assert store["t"][each.partition].start_offset == (100 if overtaken else 0)

        # The topic is created again beneath a running mirror: refused, and nothing is touched.
        following = Following(two, store)
        send(first, [ours[0]], 1)
        wait_until(lambda: store["t"][ours[0]].end_offset == 121, following)
        before = [list(log) for log in store["t"]]
        admin.delete_topics(["t"])
        wait_until(lambda: "t" not in admin.list_topics())
        admin.create_topics(made)
        following.ended()
        assert isinstance(following.error, SourceChangedError), following.error
        assert [list(log) for log in store["t"]] == before
    admin.close()
