"""What importing kstore adds to the start of a bare interpreter."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.child_process import run_python
from kstore.bench.contest import Contest, Timed

MORE = 0.010  # seconds that the import may take
HEAVY = ("numpy", "numba", "asyncio", "pyarrow")  # modules that the import must not load
IMPORT = f"import sys, kstore; sys.exit(not sys.modules.keys().isdisjoint({HEAVY}))"
OURS, BARE, WANTED = "import kstore", "bare Python", "and 10 ms"


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        output = Path(path) / "output"

        def started(program: str, more: float = 0.0) -> Timed:
            timed = run_python(["-c", program], output)
            also = {WANTED: timed.seconds + more} if more else {}
            return Timed(timed.seconds, timed.result, also)

        yield Contest(
            name="start Python and import kstore",
            calls={OURS: partial(started, IMPORT), BARE: partial(started, "pass", MORE)},
            bars=((OURS, f"{BARE} {WANTED}", 1.0), (OURS, BARE, None)),
            ceiling=BARE,
            rounds=41,
        )
