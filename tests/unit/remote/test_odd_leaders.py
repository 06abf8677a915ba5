"""Leaders that answer about something else than what they are asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig, TopicPartition
from kstore._native.format.batch_fields import V2_HEADER_SIZE
from kstore.errors import CorruptRecordError, SourceError
from kstore.protocol.messages.delete_records import DeleteRecordsResponse
from kstore.protocol.messages.fetch import FetchResponse
from kstore.protocol.messages.list_offsets import ListOffsetsResponse
from kstore.protocol.messages.produce import ProduceResponse
from kstore.remote.cluster import Cluster
from kstore.remote.consumer import RemoteConsumer
from kstore.remote.remote_log import EARLIEST, RemoteLog
from support.fake_broker import FETCH, LIST_OFFSETS, FakeBroker, fake_brokers
from support.stores import QUIET
from support.waiting import until

PRODUCE, DELETE_RECORDS = 0, 21
ID, OTHER = b"i" * 16, b"o" * 16


class Topics(dict[str, list[RemoteLog]]):
    """As much of a store as a consumer uses."""

    cluster: Cluster


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with fake_brokers(1, topic_id=ID) as (found,):
        found.highest |= {PRODUCE: 9, DELETE_RECORDS: 2}
        yield found


@pytest.fixture
def log(broker: FakeBroker) -> Iterator[RemoteLog]:
    with Cluster(broker.address) as cluster:
        yield RemoteLog(cluster, "t", 0, config=LogConfig())


def fetched(*, topic_id: bytes = ID, partition: int = 0, data: bytes = b"") -> FetchResponse:
    found = FetchResponse.Responses.Partitions(partition_index=partition, records=data)
    return FetchResponse(responses=[FetchResponse.Responses("", topic_id, [found])])


def fetch(log: RemoteLog) -> Any:
    return log.fetch(0, max_bytes=100, max_wait_ms=0, isolation_level=0)


@pytest.mark.parametrize("wrong", [{"topic_id": OTHER}, {"partition": 7}], ids=str)
def test_records_of_another_partition_are_refused(
    broker: FakeBroker, log: RemoteLog, wrong: dict[str, Any]
) -> None:
    broker.answers[FETCH] = lambda _: fetched(data=b"x")
    assert bytes(fetch(log).records) == b"x"
    broker.answers[FETCH] = lambda _: fetched(**wrong)
    with pytest.raises(SourceError, match=r"about (topic 't'|partition 7)"):
        fetch(log)


def test_answers_about_another_partition_are_refused(broker: FakeBroker, log: RemoteLog) -> None:
    Offsets, Produced = ListOffsetsResponse.Topics, ProduceResponse.Responses  # noqa: N806
    Deleted = DeleteRecordsResponse.Topics  # noqa: N806
    broker.answers |= {
        LIST_OFFSETS: lambda _: ListOffsetsResponse(
            topics=[Offsets("t", [Offsets.Partitions(7, offset=5)])]
        ),
        PRODUCE: lambda _: ProduceResponse(
            responses=[Produced("t", partition_responses=[Produced.PartitionResponses(7)])]
        ),
        DELETE_RECORDS: lambda _: DeleteRecordsResponse(
            topics=[Deleted("t", [Deleted.Partitions(7, 5)])]
        ),
    }
    for ask in (
        lambda: log._list_offset(EARLIEST),
        lambda: log.append_as_leader(bytes(V2_HEADER_SIZE)),
        lambda: log.delete_records(5),
    ):
        with pytest.raises(SourceError, match="the response about t-0 is about partition 7"):
            ask()


@pytest.mark.parametrize("acks", [0, 1])
def test_batches_are_sent_in_a_version_that_adds_no_partition_to_a_transaction(
    broker: FakeBroker, log: RemoteLog, acks: int
) -> None:
    broker.highest[PRODUCE] = 13
    log.acks = acks
    Produced = ProduceResponse.Responses  # noqa: N806
    produced = Produced("t", partition_responses=[Produced.PartitionResponses(0)])
    broker.answers[PRODUCE] = lambda _: ProduceResponse(responses=[produced])
    log.append_as_leader(bytes(V2_HEADER_SIZE))
    until(lambda: broker.of(PRODUCE))
    [(version, request)] = broker.of(PRODUCE)
    assert (version, request.topic_data[0].name) == (11, "t")


def test_a_leader_that_repeats_its_batches_ends_the_reading(
    broker: FakeBroker, log: RemoteLog, tmp_path: Path
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        source = store.create_topic("t")[0]
        source.append(b"v")
        data = bytes(source.read(0, 1))
    answers = iter(range(9))

    def repeat(_: Any) -> FetchResponse:
        next(answers)
        return fetched(data=data)

    broker.answers[FETCH] = repeat
    store: Any = Topics({"t": [log]})
    store.cluster = log._cluster
    consumer = RemoteConsumer(store, [("t", 0)], "earliest", "read_uncommitted")
    consumer.seek(TopicPartition("t", 0), 0)
    batches = consumer.batches(5)
    assert [record.value for record in next(batches)] == [b"v"]
    with pytest.raises(CorruptRecordError, match="end before offset 1") as caught:
        next(batches)
    assert caught.value.offset == 1
