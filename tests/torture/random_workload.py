"""Work without a plan: what is done to a store, and in which order, is drawn from a number.

The scenarios of the table are short and fixed, so that each of their moments can be tried. These
are for deaths at moments that no scenario has: dozens of operations in any order,
over several openings.
"""

from collections.abc import Callable
from random import Random

from torture.witness import TopicPartition
from torture.world import World

Operation = Callable[[World, Random], object]
Weights = dict[Operation, int]

SETTINGS = {
    "segment_bytes": (600, 1500, 5000),
    "index_interval_bytes": (0, 200, 4096),
    "segment_index_bytes": (24, 240, 4096),
    "batch_compression": ("none", "none", "lz4", "zstd"),
}


def wander(world: World, number: int) -> None:
    """Some dozens of operations, the same ones for the same number."""
    random = Random(number)
    begin, operations = random.choice(KINDS)
    begin(world, {name: random.choice(values) for name, values in SETTINGS.items()}, random)
    for _ in range(random.randrange(10, 60)):
        (operation,) = random.choices(list(operations), weights=list(operations.values()))
        operation(world, random)
    if random.random() < 0.7:
        world.close()


def _reopen(world: World, random: Random) -> None:
    world.close()
    world.open()


def _end(world: World, tp: TopicPartition = ("t", 0)) -> int:
    return world.witness.log(tp).end


# --- a plain log ----------------------------------------------------------------------------------


def _begin_plain(world: World, settings: dict[str, object], random: Random) -> None:
    world.open()
    if random.random() < 0.3:
        settings["retention_bytes"] = random.choice((300, 2000))
    if random.random() < 0.2:
        settings["flush_messages"] = random.choice((1, 5))
    world.create(**settings)


def _truncate(world: World, random: Random) -> None:
    """To where a batch begins: within one, the log would end between there and here."""
    log = world.log()
    if log is None:
        return
    start = log.start_offset if random.random() < 0.8 else 0
    offset = random.randrange(start, log.end_offset + 1)
    found = log.read(max(offset, log.start_offset), 1)
    if found is not None and offset >= log.start_offset:
        offset = int.from_bytes(bytes(found)[:8], "big")
    world.truncate(offset)


PLAIN: Weights = {
    lambda world, random: world.append(random.randrange(1, 5), random.choice((0, 40, 400))): 6,
    lambda world, random: world.extend(random.randrange(1, 40), random.choice((1, 30))): 4,
    lambda world, random: world.flush(): 3,
    lambda world, random: world.roll(): 2,
    lambda world, random: world.checkpoint(): 2,
    _truncate: 1,
    lambda world, random: world.delete_records(random.randrange(_end(world) + 1)): 1,
    lambda world, random: world.retain(): 1,
    lambda world, random: world.seal(): 1,
    lambda world, random: world.commit_in_group(count=2): 1,
    _reopen: 2,
}


# --- a compacted one ------------------------------------------------------------------------------


def _begin_compacted(world: World, settings: dict[str, object], random: Random) -> None:
    world.open()
    settings["delete_retention_ms"] = random.choice((0, 86_400_000))
    world.create(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, **settings)


COMPACTED: Weights = {
    lambda world, random: world.append(
        random.randrange(1, 6), random.choice((5, 60)), keys=random.choice((1, 3, 7))
    ): 6,
    lambda world, random: world.roll(): 4,
    lambda world, random: world.flush(): 2,
    lambda world, random: world.checkpoint(): 1,
    lambda world, random: world.compact(): 3,
    lambda world, random: world.seal(): 1,
    _reopen: 2,
}


# --- transactions ---------------------------------------------------------------------------------

BOTH: list[TopicPartition] = [("t", 0), ("t", 1)]


def _begin_transactions(world: World, settings: dict[str, object], random: Random) -> None:
    world.open()
    world.create("t", 2, **settings)
    world.create("__transaction_state")
    world.create("__consumer_offsets")


def _transact(world: World, random: Random) -> None:
    topic_partitions = random.choice((BOTH, BOTH[:1], BOTH[1:], BOTH[::-1]))
    commit, roll, offsets = (random.random() < chance for chance in (0.6, 0.3, 0.5))
    world.transact(topic_partitions, commit=commit, roll=roll, offsets=offsets)


TRANSACTIONS: Weights = {
    _transact: 5,
    lambda world, random: world.append(1, tp=random.choice(BOTH)): 3,
    lambda world, random: world.roll(random.choice(BOTH)): 2,
    lambda world, random: world.flush(random.choice(BOTH)): 2,
    lambda world, random: world.checkpoint(): 1,
    _reopen: 2,
}


# --- topics, groups and log directories -----------------------------------------------------------


def _begin_moves(world: World, settings: dict[str, object], random: Random) -> None:
    world.spread(random.choice((2, 3)))
    world.open()
    world.create("t", 2, **settings)


MOVES: Weights = {
    lambda world, random: world.append(random.randrange(1, 4), 60, random.choice(BOTH)): 5,
    lambda world, random: world.extend(random.randrange(1, 20), 30, random.choice(BOTH)): 2,
    lambda world, random: world.roll(random.choice(BOTH)): 2,
    lambda world, random: world.flush(random.choice(BOTH)): 2,
    lambda world, random: world.checkpoint(): 1,
    lambda world, random: world.move(random.randrange(world.witness.dirs), random.choice(BOTH)): 3,
    _reopen: 1,
}


def _begin_topics(world: World, settings: dict[str, object], random: Random) -> None:
    world.open()
    world.create("t", **settings)
    world.create("__consumer_offsets")


def _topic(world: World, random: Random) -> None:
    """Another one is made and written to, or one of those is deleted."""
    made = [name for name, (state, *_) in world.witness.topics.items() if state == "live"]
    others = [name for name in made if name.startswith("u")]
    if others and random.random() < 0.5:
        world.delete(random.choice(others))
        return
    name = f"u{len(world.witness.topics)}"
    world.create(name)
    world.append(2, tp=(name, 0))


def _further(world: World, random: Random) -> int:
    """An offset for the group to commit: the witness knows its bounds only while it grows."""
    _, high, _ = world.witness.committed.get("g", (0, 0, 0))
    return random.randrange(high, _end(world) + 1)


TOPICS: Weights = {
    _topic: 4,
    lambda world, random: world.append(random.randrange(1, 4)): 4,
    lambda world, random: world.commit(_further(world, random)): 3,
    lambda world, random: world.flush(): 1,
    lambda world, random: world.checkpoint(): 1,
    _reopen: 2,
}

KINDS: tuple[tuple[Callable[[World, dict[str, object], Random], None], Weights], ...] = (
    (_begin_plain, PLAIN),
    (_begin_compacted, COMPACTED),
    (_begin_transactions, TRANSACTIONS),
    (_begin_moves, MOVES),
    (_begin_topics, TOPICS),
)
