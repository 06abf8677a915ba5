"""A client's batch at a leader: what its checks cost beyond its CRC and its write.

Logs are in page cache, new in every round and deleted afterwards. A round is a few hundred
batches, so that nothing is written back meanwhile.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time_ns

from engine.contests.log_append import append_batches
from engine.data.batches import build_batch
from engine.data.fresh import copies
from kstore._native.format.crc import crc32c
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.data.raw_files import raw_file

ROUND = 16_000_000  # bytes
FLOOR = "CRC and write"
FIRST = 1e-6  # seconds that the checks of 150 records of 100 bytes may take
EACH = 6e-9  # seconds per record for any other shape
PRODUCER_ID = (1 << 62) + 7
CRC_START = 21
PREFIX = 16  # bytes of a batch that a log rewrites
HEADERS = [("trace", b"0123456789abcdef")]

# name: records, bytes of a value, bytes of a key or None, whether they have a header
SHAPES: dict[str, tuple[int, int, int | None, bool]] = {
    "150 records of 100 bytes": (150, 100, None, False),
    "1000 records of 100 bytes": (1000, 100, None, False),
    "1000 records of 10 bytes": (1000, 10, None, False),
    "150 records of 100 bytes, keys": (150, 100, 16, False),
    "150 records of 100 bytes, keys and a header": (150, 100, 16, True),
    "150 records of 1000 bytes": (150, 1000, None, False),
}


def shaped(name: str, sequence: int | None = None) -> bytes:
    """A batch as a client sends it; with a sequence number, as an idempotent producer does."""
    records, value_size, key_size, has_header = SHAPES[name]
    return build_batch(
        records,
        value_size,
        key_size=key_size,
        headers=HEADERS if has_header else [],
        timestamp=time_ns() // 1_000_000,
        period=7,
        producer=None if sequence is None else (PRODUCER_ID, sequence),
        leader_epoch=-1,
    )


def sum_and_write(directory: Path, batches: Sequence[bytes], allowed: dict[str, float]) -> Timed:
    """CRC-32C and one writev(2) per batch, without the first; also the same with allowances."""
    first, *rest = ((memoryview(batch), memoryview(batch)[CRC_START:]) for batch in batches)
    with raw_file(directory, sum(map(len, batches))) as fd:
        writev = os.writev
        writev(fd, (first[0],))
        started = perf_counter()
        for batch, covered in rest:
            crc32c(covered)
            writev(fd, (batch[:PREFIX], batch[PREFIX:]))
        seconds = perf_counter() - started
    each = seconds / len(rest)
    also = {name: each + more for name, more in allowed.items()}
    return Timed(each, result=len(batches), also=also)


def checked(name: str, directory: Path) -> Contest:
    records = SHAPES[name][0]
    batch = shaped(name)
    batches = copies(batch, scaled(ROUND // len(batch), 20))
    allowance = FIRST if name == next(iter(SHAPES)) else records * EACH
    more = f"and {allowance * 1e6:.3g} us"
    raw = partial(sum_and_write, directory, batches, {more: allowance})
    ours = partial(append_batches, directory, batches, records, "leader")

    def after_raw(call: Callable[[], Timed]) -> Timed:
        """Run after the same writes: recently freed pages make new ones cheaper to get."""
        raw()
        return call()

    return Contest(
        name=f"append as a leader, {name}, {len(batch)} bytes",
        calls={"kstore": partial(after_raw, ours), FLOOR: partial(after_raw, raw)},
        amount=len(batch),
        bars=(("kstore", f"{FLOOR} {more}", 1.0), ("kstore", FLOOR, None)),
        ceiling=FLOOR,
        rounds=15,
    )


def idempotent(name: str, directory: Path) -> Contest:
    records = SHAPES[name][0]
    size = len(shaped(name))
    count = scaled(ROUND // size, 20)
    plain = partial(append_batches, directory, copies(shaped(name), count), records, "leader")
    sent = [shaped(name, n * records) for n in range(count)]
    limit = "plain and 1 us"

    def with_allowance() -> Timed:
        timed = plain()
        return Timed(timed.seconds + FIRST, result=timed.result)

    return Contest(
        name=f"append an idempotent producer's batch, {name}",
        calls={
            "idempotent": partial(append_batches, directory, sent, records, "leader"),
            "plain": plain,
            limit: with_allowance,
        },
        amount=size,
        bars=(("idempotent", limit, 1.0), ("idempotent", "plain", None)),
        targets=frozenset([limit]),
        rounds=15,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        directory = Path(path)
        for name in SHAPES:
            yield checked(name, directory)
        yield idempotent("150 records of 100 bytes", directory)
