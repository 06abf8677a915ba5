"""Producers: what idempotence costs, and how long a transaction's commit takes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import producer as work
from kstore.bench.contest import Contest, scaled

SYNCS = 3  # of a commit: its records, the decision, its markers
ACKS: dict[str, int | str] = {"page cache": 1, "on disk": "all"}


def sending(name: str, directory: Path) -> Contest:
    sent = partial(work.sent, directory, scaled(100_000, 100), ACKS[name])
    return Contest(
        name=f"a producer's records of 100 bytes, {name}",
        calls={
            "plain": partial(sent, idempotent=False),
            "idempotent": partial(sent, idempotent=True),
        },
        amount=1,
        unit="records",
        bars=(("idempotent", "plain", None),),
        ceiling="plain",
    )


def committing(name: str, directory: Path, records: int) -> Contest:
    count = scaled(100 if ACKS[name] == "all" else 1000, 5)
    calls: dict[str, Callable[[], object]] = {
        "kstore": partial(work.committed, directory, count, ACKS[name], records)
    }
    bars: tuple[tuple[str, str, float | None], ...] = ()
    floor = f"{SYNCS} synced writes"
    if ACKS[name] == "all":
        calls[floor] = partial(work.synced_writes, directory, count, SYNCS)
        bars = (("kstore", floor, None),)
    return Contest(
        name=f"transactions of {records}, {name}",
        calls=calls,
        amount=1,
        unit="commits",
        bars=bars,
        ceiling=floor if ACKS[name] == "all" else "kstore",
        expected=count * records,
        unchecked=frozenset(calls) - {"kstore"},
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        for name in ACKS:
            yield sending(name, Path(path))
            for records in (1, 100):
                yield committing(name, Path(path), records)
