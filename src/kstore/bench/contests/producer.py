"""Producers: what idempotence costs, and how long a transaction's commit takes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import producer as work
from kstore.bench.contest import Contest, scaled

BATCHES = "write of ready batches"
SYNCS = 3  # of a commit: its records, the decision, its markers
ACKS: dict[str, int | str] = {"page cache": 1, "on disk": "all"}


def sending(name: str, directory: Path) -> Contest:
    count = scaled(100_000, 100)
    sent = partial(work.sent, directory, count, ACKS[name])
    return Contest(
        name=f"a producer's records of 100 bytes, {name}",
        calls={
            "plain": partial(sent, idempotent=False),
            "idempotent": partial(sent, idempotent=True),
            BATCHES: partial(work.written, directory, count, ACKS[name]),
        },
        amount=1,
        unit="records",
        bars=(("idempotent", "plain", None), ("plain", BATCHES, None)),
        ceiling=BATCHES,
    )


def committing(name: str, directory: Path, records: int) -> Contest:
    count = scaled(100 if ACKS[name] == "all" else 1000, 5)
    calls: dict[str, Callable[[], object]] = {
        "kstore": partial(work.committed, directory, count, ACKS[name], records)
    }
    floor = f"{SYNCS} {'synced ' if ACKS[name] == 'all' else ''}writes"
    calls[floor] = partial(work.bare_writes, directory, count, SYNCS, ACKS[name])
    return Contest(
        name=f"transactions of {records}, {name}",
        calls=calls,
        amount=1,
        unit="commits",
        bars=(("kstore", floor, None),),
        ceiling=floor,
        expected=count * records,
        unchecked=frozenset(calls) - {"kstore"},
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        for name in ACKS:
            yield sending(name, Path(path))
            for records in (1, 100):
                yield committing(name, Path(path), records)
