"""A stranger's batch on its way in: what its checks cost beyond its CRC and its write."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import admission as work
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.log_append import appended

ROUND = 16_000_000  # bytes
FLOOR = "CRC and write"
FIRST = 1e-6  # seconds that the checks of 150 records of 100 bytes may take
EACH = 6e-9  # seconds a record of any other shape


def checked(name: str, directory: Path) -> Contest:
    records = work.SHAPES[name][0]
    batch = work.shaped(name)
    batches = [batch] * scaled(ROUND // len(batch), 20)
    allowance = FIRST if name == next(iter(work.SHAPES)) else records * EACH
    more = f"and {allowance * 1e6:.3g} us"
    raw = partial(work.summed_and_written, directory, batches, {more: allowance})

    def after_raw(call: Callable[[], Timed]) -> Timed:
        """Whose pages were freed last decides how quickly new ones are had: the same for all."""
        raw()
        return call()

    ours = partial(appended, directory, batches, records, "leader")
    return Contest(
        name=f"append as a leader, {name}, {len(batch)} bytes",
        calls={"kstore": partial(after_raw, ours), FLOOR: partial(after_raw, raw)},
        amount=len(batch),
        bars=(("kstore", f"{FLOOR} {more}", 1.0), ("kstore", FLOOR, None)),
        ceiling=FLOOR,
        rounds=15,
    )


def idempotent(name: str, directory: Path) -> Contest:
    records = work.SHAPES[name][0]
    size = len(work.shaped(name))
    count = scaled(ROUND // size, 20)
    plain = [work.shaped(name)] * count
    sent = [work.shaped(name, n * records) for n in range(count)]
    limit = "plain and 1 us"

    def slower() -> Timed:
        timed = appended(directory, plain, records, "leader")
        return Timed(timed.seconds + FIRST, result=timed.result)

    return Contest(
        name=f"append an idempotent producer's batch, {name}",
        calls={
            "idempotent": partial(appended, directory, sent, records, "leader"),
            "plain": partial(appended, directory, plain, records, "leader"),
            limit: slower,
        },
        amount=size,
        bars=(("idempotent", limit, 1.0), ("idempotent", "plain", None)),
        ceiling="plain",
        targets=frozenset([limit]),
        rounds=15,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        directory = Path(path)
        for name in work.SHAPES:
            yield checked(name, directory)
        yield idempotent("150 records of 100 bytes", directory)
