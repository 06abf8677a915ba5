"""The longest gap between two turns of the broker's event loop during background work.

    PYTHONPATH=benchmarks:src python -m load.turns [SECONDS]

One process serves a directory of a killed writer, which needs recovery; then its cleaner and its
retention work on a topic that another process produces to; then a thread of the broker's own
process appends and compacts without pause. A periodic timer of the loop records how late it is
called, and how much processor time the loop's thread took since the call before. A process that
does nothing runs the same timer meanwhile: what it is late is the machine's share.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
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
PRODUCED_EACH_SECOND = 30  # MB; an unbounded producer would take the cores from what is measured
_IDLE_TIMER = """
import signal, sys, time
late, period = [], float(sys.argv[1])
def end(number, frame):
    print(len(late), *sorted(late)[-1000:])
    sys.exit()
signal.signal(signal.SIGTERM, end)
print(flush=True)
while True:
    due = time.monotonic() + period
    time.sleep(period)
    late.append(time.monotonic() - due)
"""
_PRODUCER = """
import sys, time
from confluent_kafka import Producer
address, topics, speed = sys.argv[1], sys.argv[2].split(","), float(sys.argv[3]) * 1e6
producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.size": 64000})
began, sent = time.monotonic(), 0
print(flush=True)
while True:
    for number in range(1000):
        producer.produce(topics[number % 2], b"v" * 1000, b"%06d" % number)
    producer.flush()
    sent += 1_000_000
    time.sleep(max(0.0, began + sent / speed - time.monotonic()))
"""


class Turns:
    """Runs a timer on a loop every half millisecond and records how late each call is."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._due = 0.0
        self._used = 0.0
        self.late: list[float] = []
        self.busy: list[float] = []
        loop.call_soon_threadsafe(self._again)

    def _turn(self) -> None:
        self.late.append(time.monotonic() - self._due)
        self.busy.append(time.thread_time() - self._used)
        self._again()

    def _again(self) -> None:
        self._used = time.thread_time()
        self._due = time.monotonic() + PERIOD
        self._loop.call_later(PERIOD, self._turn)

    def take(self) -> tuple[list[float], list[float]]:
        """Seconds late and seconds of processor time of each turn since the last call, sorted."""
        found = sorted(self.late), sorted(self.busy)
        self.late, self.busy = [], []
        return found


@contextlib.contextmanager
def measured(name: str, turns: Turns) -> Iterator[None]:
    """Print the turns of the enclosed work, beside a process that only runs the timer."""
    with program(_IDLE_TIMER, PERIOD) as timer:
        turns.take()
        yield
        late, busy = turns.take()
        timer.send_signal(signal.SIGTERM)
        assert timer.stdout is not None
        floor = [float(word) for word in timer.stdout.read().split()[1:]]
    print(f"{name}, {len(late):,} turns, us (p50, p99, p99.9, longest):")
    print(f"  late            {_figures(late)}")
    print(f"  processor time  {_figures(busy)}")
    print(f"  a process without work: longest {floor[-1] * 1e6:,.0f}", flush=True)


def _figures(found: list[float]) -> str:
    at = [found[min(len(found) - 1, int(len(found) * share))] for share in (0.5, 0.99, 0.999)]
    return ", ".join(f"{value * 1e6:,.0f}" for value in (*at, found[-1]))


@contextlib.contextmanager
def program(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process, which has printed a line once it is at work, and is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def _append(topic: kstore.Topic, stop: threading.Event) -> None:
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


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory(prefix="kstore-turns-") as directory:
        root = Path(directory) / "data"
        make_killed(root, GB)
        settings = {"log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 200}
        config = {"cleanup.policy": "compact,delete", "retention.bytes": 40_000_000} | SEGMENT
        config["min.cleanable.dirty.ratio"] = 0.01
        with kstore.serve(root, port=0, settings=settings) as broker:
            turns = Turns(broker._loop)
            with measured("during the recovery of 1 GB and after it", turns):
                time.sleep(min(2.0, seconds))
            with measured("idle", turns):
                time.sleep(min(2.0, seconds))
            for name in ("compact", "delete"):
                broker.store.create_topic(name, config=config | {"cleanup.policy": name})
            arguments = broker.bootstrap_servers, "compact,delete", PRODUCED_EACH_SECOND
            with program(_PRODUCER, *arguments):
                time.sleep(0.5)  # its connection
                with measured("the cleaner and retention, and a producer", turns):
                    time.sleep(seconds)
            compacted, shortened = broker.store["compact"][0], broker.store["delete"][0]
            assert compacted.size < compacted.end_offset * 500, "the cleaner did not work"
            assert shortened.start_offset > 0, "retention did not work"
            topic = broker.store.create_topic("appended", partitions=2, config=config)
            stop = threading.Event()
            thread = threading.Thread(target=_append, args=(topic, stop))
            with measured("a thread that appends, compacts and applies retention", turns):
                thread.start()
                time.sleep(seconds)
                stop.set()
                thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
