"""The processor time of a broker whose 10,000 members send heartbeats every three seconds.

    PYTHONPATH=benchmarks:src python -m load.heartbeats [SECONDS] [MEMBERS] [--protocol consumer]

Groups of 100 members join, each member by its own connection: of the classic protocol (Heartbeat),
or of the consumer protocol of KIP-848 (ConsumerGroupHeartbeat), each with a partition assigned.
Then each sends a heartbeat every three seconds, evenly spread over time: first through 50
connections that the members share, then each through its own, as real consumers do. Every answer is
compared with the bytes of one without an error.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import peers.kafka  # finds tests/interop

# isort: split

from load.brokers import PATIENCE, cpu_seconds, kstore_broker
from load.frame_connections import FrameConnections
from load.group_members import GROUP, PROTOCOLS, Beat

assert peers.kafka.VERSION
MEMBERS = 10_000
PERIOD = 3.0  # seconds; heartbeat.interval.ms
SHARED = 50  # connections
WANTED = 0.3  # of a core
# Classic consumers choose their interval; those of KIP-848 get it from the broker.
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": round(PERIOD * 1000),
    "group.consumer.heartbeat.interval.ms": round(PERIOD * 1000),
}


def _beat(connections: FrameConnections, count: int, beats: list[Beat], seconds: float) -> int:
    """Send heartbeats at their times, for so many seconds; return how many were answered."""
    speed = len(beats) / PERIOD
    total, sent, answered = int(seconds * speed), 0, 0
    awaited: list[deque[bytes]] = [deque() for _ in range(count)]
    started = time.monotonic()
    while answered < total:
        now = time.monotonic() - started
        assert now < seconds + PATIENCE, f"{answered} of {total} heartbeats were answered"
        while sent < total and sent <= now * speed:
            member = sent % len(beats)
            connections.send(member % count, beats[member].frame)
            awaited[member % count].append(beats[member].answer)
            sent += 1
        due = sent / speed if sent < total else now + 1.0
        for number, answer in connections.receive(due - (time.monotonic() - started)):
            assert answer == awaited[number].popleft(), answer
            answered += 1
    return answered


def _measure(root: Path, protocol: str, members: int, shared: int, seconds: float) -> None:
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    broker = kstore_broker(root, [word for each in settings for word in ("--override", each)])
    broker.start()
    try:
        beats = PROTOCOLS[protocol](broker, members)
        with FrameConnections(broker.port, shared) as connections:
            _beat(connections, shared, beats, PERIOD)  # every member once
            before, started = cpu_seconds(broker.pid), time.monotonic()
            answered = _beat(connections, shared, beats, seconds)
            elapsed = time.monotonic() - started
            used = (cpu_seconds(broker.pid) - before) / elapsed
    finally:
        broker.stop()
    print(
        f"{members:,} {protocol} members on {shared:,} connections: "
        f"{answered / elapsed:,.0f} heartbeats/s, "
        f"all {answered:,} answered without an error; {used:.3f} of a core "
        f"({used / (answered / elapsed) * 1e6:.0f} us each; wanted with 10,000: {WANTED})",
        flush=True,
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("members", type=int, nargs="?", default=MEMBERS)
    parser.add_argument("--protocol", choices=PROTOCOLS, default="classic")
    options = parser.parse_args(words)
    members = options.members
    assert members % GROUP == 0, f"groups have {GROUP} members"
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the broker inherits it
    assert most > members + 200, f"{members:,} connections need more than {most:,} descriptors"
    for shared in (min(SHARED, members), members):
        with tempfile.TemporaryDirectory(prefix="kstore-heartbeats-") as directory:
            _measure(Path(directory), options.protocol, members, shared, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
