"""Mirroring over the network: from a broker of kstore, and from leaders that a test decides."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kstore
import kstore.testing
from kstore import Store
from kstore.errors import SourceChangedError, SourceError, UnknownTopicOrPartitionError
from kstore.mirror import Mirror
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST, Position
from kstore.protocol.messages.fetch import FetchResponse
from kstore.protocol.messages.list_offsets import ListOffsetsResponse
from kstore.protocol.messages.metadata import MetadataResponse
from support.fake_broker import FETCH, LIST_OFFSETS, METADATA, CloseError, FakeBroker, fake_brokers
from support.stores import QUIET

ID, OTHER = b"i" * 16, b"o" * 16


@pytest.fixture
def broker() -> Iterator[kstore.Broker]:
    with kstore.testing.broker({"t": 3}) as running:
        yield running


def batches(store: Store, partition: int = 0) -> bytes:
    log = store["t"][partition]
    return b"".join(bytes(view.all_published()) for view in log.segments.views)


def fill(store: Store) -> None:
    """All kinds of batches: each codec, a transaction that commits and one that aborts."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        store.alter_topic("t", config={"compression.type": codec})
        for partition in range(3):
            store["t"][partition].extend([b"%d" % n * 40 for n in range(200)])
    with store.transaction("committed") as transaction:
        transaction.send("t", b"value", partition=1)
    with suppress(RuntimeError), store.transaction("aborted") as transaction:
        transaction.send("t", b"value", partition=1)
        transaction.flush()
        raise RuntimeError


def test_a_copy_over_the_network_has_the_same_batches(
    broker: kstore.Broker, tmp_path: Path
) -> None:
    fill(broker.store)
    with (
        KafkaSource(broker.bootstrap_servers, "t") as source,
        kstore.open(tmp_path, config=QUIET) as store,
    ):
        report = Mirror(store, source).run()
        assert report.topic_id == broker.store["t"].topic_id
        for partition in range(3):
            assert batches(store, partition) == batches(broker.store, partition)
        aborted = broker.store["t"][1].aborted_transactions(0, 10_000)
        assert aborted
        assert store["t"][1].aborted_transactions(0, 10_000) == aborted

        broker.store["t"][2].extend([b"later"] * 10)
        assert Mirror(store, source).run().bytes > 0
        assert batches(store, 2) == batches(broker.store, 2)


def test_a_batch_larger_than_a_fetch_comes_over(broker: kstore.Broker, tmp_path: Path) -> None:
    broker.store.alter_topic("t", config={"max.message.bytes": 9_000_000})
    broker.store["t"][0].append(b"x" * 6_000_000)
    with (
        KafkaSource([broker.bootstrap_servers], "t") as source,
        kstore.open(tmp_path, config=QUIET) as store,
    ):
        Mirror(store, source).run()
        assert batches(store) == batches(broker.store)


def test_mirror_needs_no_client_library(broker: kstore.Broker, tmp_path: Path) -> None:
    broker.store["t"][0].append(b"value")
    code = (
        "import sys; sys.modules['kafka'] = None\n"
        "from kstore.cli import main\n"
        "raise SystemExit(main(sys.argv[1:]))"
    )
    words = ["mirror", "--bootstrap-server", broker.bootstrap_servers, "--topic", "t"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--log-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "t-0: offsets 0 to 1" in done.stdout


def test_a_topic_that_does_not_exist(broker: kstore.Broker) -> None:
    with (
        KafkaSource(broker.bootstrap_servers, "none") as source,
        pytest.raises(UnknownTopicOrPartitionError, match="no topic 'none'"),
    ):
        source.describe()
    assert "none" not in broker.store


# --- a cluster that changes ---------------------------------------------------------------------


@pytest.fixture
def leader() -> Iterator[FakeBroker]:
    with fake_brokers(1, topic_id=ID) as (broker,):
        yield broker


def offsets(code: int) -> ListOffsetsResponse:
    Topics = ListOffsetsResponse.Topics  # noqa: N806 (a class)
    return ListOffsetsResponse(topics=[Topics("t", [Topics.Partitions(0, code, offset=5)])])


def test_a_topic_created_again_while_its_leader_is_looked_for_is_refused(
    leader: FakeBroker,
) -> None:
    """The offsets are the other topic's: they decide which records are deleted here."""
    with KafkaSource(leader.address, "t", patience=5) as source:
        source.describe()
        codes = iter((6, 0))  # NOT_LEADER_OR_FOLLOWER: the metadata are fetched again
        leader.answers[LIST_OFFSETS] = lambda _: offsets(next(codes))
        assert source.offsets([0], LATEST) == {0: 5}

        metadata = leader.answers[METADATA]

        def created_again(request: Any) -> MetadataResponse:
            answer = metadata(request)
            answer.topics[0].topic_id = OTHER
            return answer

        codes = iter((6, 0))
        leader.answers[METADATA] = created_again
        with pytest.raises(SourceChangedError, match="created again"):
            source.offsets([0], LATEST)


@pytest.mark.parametrize("numbers", [[], [1], [0, 2]])
def test_partitions_that_a_topic_cannot_have_are_refused(
    leader: FakeBroker, numbers: list[int]
) -> None:
    metadata = leader.answers[METADATA]

    def strange(request: Any) -> MetadataResponse:
        Partitions = MetadataResponse.Topics.Partitions  # noqa: N806 (a class)
        answer = metadata(request)
        answer.topics[0].partitions = [Partitions(partition_index=n, leader_id=1) for n in numbers]
        return answer

    with KafkaSource(leader.address, "t", patience=5) as source:
        leader.answers[METADATA] = strange
        with pytest.raises(SourceError, match="not 0 to n"):
            source.describe()


def test_a_temporary_error_is_waited_for_and_another_is_raised(leader: FakeBroker) -> None:
    metadata = leader.answers[METADATA]
    codes = iter((5, 0, 29))

    def answer(request: Any) -> MetadataResponse:
        found = metadata(request)
        found.topics[0].error_code = next(codes)
        return found

    with KafkaSource(leader.address, "t", patience=5) as source:
        leader.answers[METADATA] = answer
        assert source.describe().partition_count == 1
        with pytest.raises(SourceError, match=f"cannot talk to Kafka at {leader.address}"):
            source.describe()


def test_a_leader_s_hint_where_the_copy_diverges_reaches_the_mirror(leader: FakeBroker) -> None:
    Partitions = FetchResponse.Responses.Partitions  # noqa: N806 (a class)
    diverging = Partitions.DivergingEpoch(epoch=3, end_offset=7)
    aborted = [Partitions.AbortedTransactions(producer_id=9, first_offset=2)]
    partition = Partitions(
        partition_index=0,
        high_watermark=20,
        last_stable_offset=15,
        log_start_offset=1,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
    )
    leader.answers[FETCH] = lambda _: FetchResponse(
        responses=[FetchResponse.Responses("t", ID, [partition])]
    )
    with KafkaSource(leader.address, "t", patience=5) as source:
        source.describe()
        room = {"max_bytes": 1000, "partition_max_bytes": 1000}
        assert source.fetch({0: Position(8, 4)}, max_wait_ms=0, **room) == {
            0: (0, 20, 1, b"", 7, 15, [(9, 2)])
        }


def test_the_sentence_of_an_error_has_kafkas_name(leader: FakeBroker) -> None:
    with KafkaSource(leader.address, "t", patience=5) as source:
        assert source.sentence(29).startswith("TopicAuthorizationFailedException: ")


def test_a_leader_that_does_not_answer_is_named_with_its_address(leader: FakeBroker) -> None:
    room = {"max_bytes": 1000, "partition_max_bytes": 1000}

    def close(_: Any) -> Any:
        raise CloseError

    with KafkaSource(leader.address, "t", patience=5) as source:
        assert source.leader_of(0) == "no broker"
        assert source.problem(0) == "no broker leads it"
        source.describe()
        assert source.leader_of(0) == f"broker 1 at {leader.address}"
        leader.answers[FETCH] = close
        assert source.fetch({0: Position(8)}, max_wait_ms=0, **room) == {}
        assert source.problem(0).startswith(
            f"broker 1 at {leader.address}: {leader.address} closed the connection"
        )
        leader.answers[FETCH] = lambda _: FetchResponse()
        assert source.fetch({0: Position(8)}, max_wait_ms=0, **room) == {}
        assert source.problem(0) == f"broker 1 at {leader.address} sends no answer for it"
