"""Produces to a broker whose acknowledgements are durable, on the disk of a :class:`World`."""

from collections import deque
from typing import NamedTuple
from unittest.mock import patch

import kstore
from kstore._native.append.encode import BatchBuffer
from kstore.protocol.api_keys import ApiKey
from support.wire_client import Connection, encode, frame
from torture.witness import TopicPartition
from torture.world import START_OF_TIME, World

_VERSION = 8
_SETTINGS = {"kstore.acks.durable": "true"}


class Sent(NamedTuple):
    """A batch that waits for its answer; ``values`` is empty for a repeated batch."""

    tp: TopicPartition
    base: int
    values: list[bytes]
    end: int


def produce_durably(world: World, partitions: int, rounds: int, size: int = 40) -> None:
    """Send batches of two records to each partition, and repeat the last of each round, all in
    flight.

    Every answer, also that to the repeated batch, means that all below the batch's end is on disk.
    """
    store = world.store
    assert store is not None
    small = patch("kstore.store.space_reserve.MOST_BYTES", 4096)  # each state has it
    with small, kstore.Broker(store, port=0, settings=_SETTINGS) as broker:
        connection = Connection(broker.bootstrap_servers)
        ends = {("t", number): world.witness.log(("t", number)).end for number in range(partitions)}
        first, producer = dict(ends), 1 + max(ends.values())  # an id that no earlier call has
        for _ in range(rounds):
            sent: deque[Sent] = deque()
            for tp, base in ends.items():
                values = world._values(tp, base, 2, size)
                ends[tp] = base + len(values)
                _send(connection, tp, producer, base - first[tp], values)
                sent.append(Sent(tp, base, values, ends[tp]))
            _send(connection, tp, producer, base - first[tp], values)
            sent.append(Sent(tp, base, [], ends[tp]))
            while sent:
                _take(world, connection, sent.popleft())
        connection.close()


def _send(
    connection: Connection, tp: TopicPartition, producer: int, sequence: int, values: list[bytes]
) -> None:
    buffer = BatchBuffer()
    buffer.set_producer(producer, 0, sequence)
    for value in values:
        buffer.put(value, None, None, START_OF_TIME + sequence)
    records = buffer.to_bytes(0, -1)
    topics = [{"name": tp[0], "partition_data": [{"index": tp[1], "records": records}]}]
    fields = {"acks": 1, "timeout_ms": 30_000, "topic_data": topics}
    connection.send(
        frame(ApiKey.PRODUCE, _VERSION, sequence, encode(ApiKey.PRODUCE, _VERSION, fields))
    )


def _take(world: World, connection: Connection, sent: Sent) -> None:
    answer = connection.answer(ApiKey.PRODUCE, _VERSION)
    found = answer.responses[0].partition_responses[0]
    assert (found.error_code, found.base_offset) == (0, sent.base), found
    if sent.values:
        world._in(sent.tp, sent.values)
    world.say("flushed", sent.tp, sent.end)
