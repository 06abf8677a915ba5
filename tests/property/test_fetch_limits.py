"""The limits of a Fetch, against a reader of plain lists of batches that follows Kafka's rules."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.broker.handlers.fetch import FetchHandlers
from kstore.protocol.messages.fetch import FetchRequest
from kstore.store.store import Store
from support.handler_tester import HandlerTester

PARTITIONS = 3
sizes = st.lists(st.integers(0, 300), max_size=5)  # bytes of the value of each batch
limits = st.integers(0, 1200)


def expected(batches, wanted, max_bytes):
    """What each partition of a request gets: (partition, offset, limit) in order.

    The first partition with records gets its first batch whatever the limits are; a later one
    gets nothing where its first batch does not fit. Offsets count batches of one record.
    """
    out = []
    is_first = True
    for partition, offset, limit in wanted:
        left = batches[partition][offset:]
        size = min(limit, max_bytes)
        if not left or (not is_first and len(left[0]) > size):
            out.append(b"")
            continue
        if is_first:
            size = max(size, len(left[0]))
        out.append(b"".join(left)[:size])
        max_bytes = max(0, max_bytes - len(out[-1]))
        is_first = False
    return out


def batches_of(log):
    out = []
    for offset in range(log.end_offset):
        found = log.read(offset, 1)
        out.append(bytes(found)[: found.first_batch_size])
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.lists(sizes, min_size=PARTITIONS, max_size=PARTITIONS),
    st.permutations(range(PARTITIONS)),
    st.lists(st.tuples(limits, st.integers(0, 5)), min_size=PARTITIONS, max_size=PARTITIONS),
    limits,
    st.sampled_from((4, 7, 11)),
)
def test_limits_are_kafkas(values, order, positions, max_bytes, version):
    with (
        tempfile.TemporaryDirectory() as directory,
        Store(directory) as store,
        HandlerTester(store, FetchHandlers) as broker,
    ):
        topic = broker.create("t", PARTITIONS)
        for partition, each in enumerate(values):
            for size in each:
                topic[partition].append(bytes(size))
        wanted = [
            (partition, min(offset, topic[partition].end_offset), limit)
            for partition, (limit, offset) in zip(order, positions, strict=True)
        ]
        message = FetchRequest(
            max_bytes=max_bytes,
            topics=[
                FetchRequest.Topics(
                    "t",
                    partitions=[
                        FetchRequest.Topics.Partitions(
                            partition=partition, fetch_offset=offset, partition_max_bytes=limit
                        )
                        for partition, offset, limit in wanted
                    ],
                )
            ],
        )
        answers = broker.ask(message, version).responses[0].partitions
        batches = [batches_of(log) for log in topic]
        assert [each.error_code for each in answers] == [0] * PARTITIONS
        assert [bytes(each.records) for each in answers] == expected(batches, wanted, max_bytes)
