"""What stores do while they are tortured: one table for every part."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torture.broker_transactions import transact_at_broker
from torture.durable_broker import produce_durably
from torture.world import World


def begin(world: World, **settings: Any) -> None:
    world.open()
    world.create(**settings)


def append_and_sync(world: World) -> None:
    begin(world)
    for _ in range(3):
        world.append(2)
        world.flush()
    world.close()


def group_commit(world: World) -> None:
    begin(world)
    world.commit_in_group(count=3)
    world.close()


def flush_messages(world: World) -> None:
    begin(world, flush_messages=3)
    for _ in range(8):
        world.append(1)
        log = world.log()
        if log is not None:
            world.say("flushed", ("t", 0), log.recovery_point)
    world.close()


def append_unsynced(world: World) -> None:
    begin(world)
    world.append(4)
    world.extend(8)
    world.append(2, 200)
    world.checkpoint()
    world.append(1)
    world.close()


def roll(world: World) -> None:
    begin(world)
    world.append(2)
    world.flush()
    world.append(2, 100)
    world.roll()
    world.append(2)
    world.flush()
    world.append(4, 500)
    world.close()


def roll_in_background(world: World) -> None:
    """Rolled segments are synced and the recovery point is written; the active one waits."""
    begin(world)
    world.append(3, 100)
    world.roll()
    world.append(2)
    world.flush_rolled()
    world.append(1)
    world.checkpoint()
    world.append(4, 500)  # rolls by size
    world.checkpoint()
    world.flush_rolled()
    world.checkpoint()
    world.append(1)
    world.truncate(2)
    world.append(1)
    world.roll()
    world.flush_rolled()
    world.append(1)
    world.close()


def prewritten(world: World) -> None:
    """Equal-sized batches over zeros: whatever stands behind the end looks like what came before.

    Rolled, truncated, closed and opened again while the file reaches beyond the end.
    """
    begin(world, preallocate=True)
    for _ in range(3):
        world.append(1)
        world.flush()
    world.append(3)
    world.roll()
    world.append(2)
    world.flush()
    world.append(2)
    world.truncate(6)
    world.append(1)
    world.checkpoint()
    world.append(2)
    world.close()
    world.open()
    world.append(1)
    world.flush()
    world.append(3, 400)  # another segment, by its size
    world.flush()
    world.append(1)
    world.close()


def checkpoint(world: World) -> None:
    begin(world, partitions=2)
    for _ in range(2):
        world.append(2)
        world.append(1, tp=("t", 1))
        world.flush()
        world.checkpoint()
    world.append(1)
    world.checkpoint()
    world.close()


def close_and_open(world: World) -> None:
    begin(world)
    world.append(2)
    world.close()
    world.open()
    world.append(2)
    world.close()
    world.open()
    world.close()


def retention(world: World) -> None:
    begin(world, retention_bytes=900)
    for _ in range(4):  # two segments go at once
        world.append(3, 100)
        world.roll()
    world.append(1)
    world.flush()
    world.retain()
    world.append(1)
    world.close()


def delete_records(world: World) -> None:
    begin(world)
    for _ in range(2):
        world.append(3, 100)
        world.roll()
    world.append(2)
    world.delete_records(4)
    world.append(1)
    world.checkpoint()
    world.delete_records(-1)
    world.append(1)
    world.flush()
    world.close()


def truncate(world: World) -> None:
    begin(world)
    world.append(4)
    world.flush()
    world.roll()
    world.append(3, 60)
    world.checkpoint()
    world.truncate(6)
    world.append(1)
    world.truncate(2)
    world.append(2, 60)
    world.flush()
    world.close()


def topic_create(world: World) -> None:
    world.open()
    world.create("t", 2)
    world.append(1)
    world.create("u", 1)
    world.append(1, tp=("u", 0))
    world.flush(("u", 0))
    world.close()


def topic_delete(world: World) -> None:
    world.open()
    world.create("t", 1)
    world.create("u", 1)
    world.append(1)
    world.append(2, tp=("u", 0))
    world.flush(("u", 0))
    world.checkpoint()
    world.delete("t")
    world.append(1, tp=("u", 0))
    world.close()


def offsets_commit(world: World) -> None:
    begin(world)
    world.create("__consumer_offsets")  # of one partition: Kafka's fifty would only take longer
    world.append(4)
    world.flush()
    world.commit(1)
    world.commit(3)
    world.close()


def compaction(world: World) -> None:
    begin(world, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    for _ in range(3):
        world.append(4, 60, keys=3)
        world.roll()
    world.append(1, keys=3)
    world.flush()
    world.compact()
    world.append(3, keys=3)
    world.roll()
    world.append(1, keys=3)
    world.compact()
    world.append(1, keys=3)
    world.close()


def recompress(world: World) -> None:
    """Segments that shrink, and then grow so that one becomes several."""
    begin(world)
    for _ in range(2):
        world.append(3, 300)
        world.roll()
    world.append(1)
    world.flush()
    world.recompress("zstd")
    world.append(2)
    world.recompress("none", roll=True)
    world.append(1)
    world.close()


def reindex(world: World) -> None:
    begin(world)
    for _ in range(2):
        world.append(3, 200)
        world.roll()
    world.append(2)
    world.flush()
    world.reindex(0)
    world.append(1)
    world.flush()
    world.reindex(400)
    world.append(1)
    world.close()


def transactions(world: World) -> None:
    """Over two partitions and an offset of a group, as an application that copies does it."""
    begin(world, partitions=2)
    for name in ("__transaction_state", "__consumer_offsets"):
        world.create(name)
    both = [("t", 0), ("t", 1)]
    world.append(1)
    world.transact(both, commit=True, roll=True, offsets=True)
    world.append(1, tp=("t", 1))
    world.transact(both, commit=False, offsets=True)
    world.roll(("t", 1))
    world.transact(both, commit=True, offsets=True)
    world.append(1)
    world.close()


def truncated_transactions(world: World) -> None:
    """Truncations that remove the marker of a transaction, and none of its records.

    The coordinator's last decision is about another transaction each time.
    """
    begin(world, partitions=2)
    world.create("__transaction_state")
    first, second = ("t", 0), ("t", 1)
    world.append(1)
    for commit in (True, False):
        world.transact([first], commit=commit, roll=True)
        world.transact([second], commit=True)
        log = world.log()
        if log is not None:
            world.truncate(log.end_offset - 1)
    world.transact([first], commit=True)
    world.append(1)
    world.close()


def move(world: World) -> None:
    world.spread(2)
    world.open()
    world.create("t", 2)
    for tp in (("t", 0), ("t", 1)):
        world.append(2, 100, tp=tp)
        world.flush(tp)
    world.roll()
    world.append(2, 100)
    world.move(1)
    world.append(1)
    world.move(0, ("t", 1))
    world.append(1, tp=("t", 1))
    world.move(0)
    world.append(1)
    world.close()


def seal(world: World) -> None:
    begin(world)
    for _ in range(2):
        world.append(2, 100)
        world.roll()
    world.append(1)
    world.seal()
    world.flush()
    world.seal()
    world.append(1)
    world.close()


def publication(world: World) -> None:
    begin(world, partitions=2, batch_compression="none")
    both = [("t", 0), ("t", 1)]
    world.append(1)
    world.publish(both, "one", (2, 4, 1))
    world.append(2)
    world.roll(("t", 1))
    world.publish(both[::-1], "two", (1, 4))
    world.append(1, tp=("t", 1))
    world.close()


def durable_broker(world: World) -> None:
    """Across a roll, and again after the store is reopened."""
    begin(world, partitions=2)
    produce_durably(world, 2, 4)
    world.append(1)
    world.roll()
    produce_durably(world, 2, 2, 500)
    world.close()
    world.open()
    produce_durably(world, 2, 2)
    world.close()


def broker_transactions(world: World) -> None:
    """A broker's: two are committed, one is aborted, and the last stays open."""
    begin(world, partitions=2, segment_bytes=1 << 20)
    for name in ("__transaction_state", "__consumer_offsets"):
        world.create(name, segment_bytes=1 << 20)
    transact_at_broker(world, (True, False, True, None))
    world.close()


class Scenario(NamedTuple):
    """``at_broker``: a broker opens each state, too."""

    run: Callable[[World], None]
    at_broker: bool = False


SCENARIOS: dict[str, Scenario] = {
    "append, sync each": Scenario(append_and_sync),
    "group commit": Scenario(group_commit),
    "flush.messages": Scenario(flush_messages),
    "append, no sync": Scenario(append_unsynced),
    "roll": Scenario(roll),
    "roll in the background": Scenario(roll_in_background),
    "prewritten": Scenario(prewritten),
    "checkpoint": Scenario(checkpoint),
    "close and open": Scenario(close_and_open),
    "retention": Scenario(retention),
    "delete records": Scenario(delete_records),
    "truncate": Scenario(truncate),
    "topic create": Scenario(topic_create),
    "topic delete": Scenario(topic_delete),
    "offsets commit": Scenario(offsets_commit),
    "compaction": Scenario(compaction),
    "recompress": Scenario(recompress),
    "reindex": Scenario(reindex),
    "transactions": Scenario(transactions),
    "move": Scenario(move),
    "seal": Scenario(seal),
    "publication": Scenario(publication),
}

# Only crashes of these are explored: a broker's clients do not continue after each failing call,
# and where a marker cannot be written again, the producer's next transaction decides.
SERVED: dict[str, Scenario] = {
    "truncated transactions": Scenario(truncated_transactions),
    "durable broker": Scenario(durable_broker),
    "broker's transactions": Scenario(broker_transactions, at_broker=True),
}
