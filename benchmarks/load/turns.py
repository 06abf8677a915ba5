"""The longest gap between two turns of the broker's event loop during background work.

    PYTHONPATH=benchmarks:src python -m load.turns [SECONDS]

One process serves a directory of a killed writer, which needs recovery, while other threads
compact, apply retention and append. A periodic timer of the loop measures how late it is called.
The first line of output is the baseline without other work.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

import peers.kafka  # finds tests/interop

# isort: split

import kstore
from kstore.broker.loop import Loop
from load.starts import GB, make_killed

assert peers.kafka.VERSION
PERIOD = 0.0005  # seconds between calls of the timer
SWITCH_SECONDS = 0.0005  # as in `kstore serve`
SEGMENT = {"segment.bytes": 8_000_000}


class Turns:
    """Runs a timer on a loop every half millisecond and records how late each call is."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._due = 0.0
        self.late: list[float] = []
        loop.call_soon_threadsafe(self._again)

    def _turn(self) -> None:
        self.late.append(time.monotonic() - self._due)
        self._again()

    def _again(self) -> None:
        self._due = time.monotonic() + PERIOD
        self._loop.call_later(PERIOD, self._turn)

    def take(self) -> list[float]:
        found, self.late = sorted(self.late), []
        return found


def _churn(topic: kstore.Topic, stop: threading.Event) -> None:
    """Append with small segments, compact, and apply retention, until ``stop``."""
    number = 0
    while not stop.is_set():
        for log in topic:
            pairs = [(b"%06d" % ((number + n) % 5000), b"v" * 100) for n in range(1000)]
            log.extend(pairs)
            number += 1000
        if number % 50_000 == 0:
            topic.compact()
            topic.apply_retention()


def _line(name: str, late: list[float]) -> str:
    """Microseconds: median, 99th and 99.9th of a hundred, longest."""
    at = [late[min(len(late) - 1, int(len(late) * share))] * 1e6 for share in (0.5, 0.99, 0.999)]
    text = ", ".join(f"{value:,.0f}" for value in (*at, late[-1] * 1e6))
    return f"{name}: {len(late):,} turns, late by us (p50, p99, p99.9, longest): {text}"


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory(prefix="kstore-turns-") as directory:
        root = Path(directory) / "data"
        make_killed(root, GB)
        with kstore.serve(root, port=0) as broker:
            turns = Turns(broker._loop)
            time.sleep(min(2.0, seconds))
            print(_line("during the recovery of 1 GB and after it", turns.take()))
            config = {"cleanup.policy": "compact,delete", "retention.bytes": 20_000_000} | SEGMENT
            topic = broker.store.create_topic("churned", partitions=2, config=config)
            time.sleep(0.5)
            turns.take()
            time.sleep(min(2.0, seconds))
            print(_line("idle", turns.take()))
            stop = threading.Event()
            thread = threading.Thread(target=_churn, args=(topic, stop))
            thread.start()
            time.sleep(seconds)
            stop.set()
            thread.join()
            print(_line("while a thread appends, compacts and applies retention", turns.take()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
