"""Assigns producer ids and sequence numbers."""

from collections.abc import Iterable
from random import randrange
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.producer_state.snapshot import ProducerEntry

SEQUENCES = 2**31  # sequence numbers of a producer in a partition wrap to 0
LOWEST_PRODUCER_ID = 2**62  # a Kafka cluster assigns ids upwards from 0 and never reaches this


def new_producer_id() -> int:
    """A random producer id, above all ids that a Kafka broker assigns."""
    return LOWEST_PRODUCER_ID + randrange(LOWEST_PRODUCER_ID)


def next_sequence(known: Iterable["ProducerEntry"], producer_id: int, producer_epoch: int) -> int:
    """The sequence number after a producer's last one in a log; 0 if it has none.

    For a producer that does not know whether its last append succeeded: the log ignores a batch
    with a repeated number as a duplicate.
    """
    for entry in known:
        if (entry.producer_id, entry.producer_epoch) == (producer_id, producer_epoch):
            return (entry.last_sequence + 1) % SEQUENCES
    return 0
