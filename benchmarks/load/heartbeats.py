"""The processor time of a broker whose 10,000 members send heartbeats every three seconds.

    PYTHONPATH=benchmarks:src python -m load.heartbeats [SECONDS] [MEMBERS]

Groups of 100 members of the classic protocol join, each member by its own connection. Then each
sends a heartbeat every three seconds, evenly spread over time: first through 50 connections that
the members share, then each through its own, as real consumers do. Every answer is compared with
the bytes of one without an error.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import peers.kafka  # finds tests/interop

# isort: split

from kstore.protocol.headers import encode_response_header
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from kstore.protocol.wire import Writer
from load.brokers import PATIENCE, cpu_seconds, kstore_broker
from load.frame_connections import FrameConnections, encode

assert peers.kafka.VERSION
MEMBERS, GROUP = 10_000, 100
PERIOD = 3.0  # heartbeat.interval.ms
SHARED = 50  # connections
WANTED = 0.3  # of a core
_FIND, _JOIN, _SYNC, _BEAT = 3, 3, 3, 4  # versions; JoinGroup 3 needs no step for the member id


def _join(port: int, members: int) -> list[bytes]:
    """Let members join in groups of 100; return the heartbeat of each as a frame."""
    names = [f"group-{number // GROUP:04}" for number in range(members)]
    with FrameConnections(port, members) as connections:
        _find_coordinator(connections, names[0])
        protocol = JoinGroupRequest.Protocols("range", b"subscription")
        joins = [
            JoinGroupRequest(name, 45_000, 60_000, "", None, "consumer", [protocol])
            for name in names
        ]
        joined = connections.ask(joins, _JOIN)
        assert all(each.error_code == 0 for each in joined), "a member could not join"
        syncs = []
        for name, each in zip(names, joined, strict=True):
            request = SyncGroupRequest(name, each.generation_id, each.member_id)
            if each.leader == each.member_id:
                assert len(each.members) == GROUP, f"{name} has {len(each.members)} members"
                request.assignments = [
                    SyncGroupRequest.Assignments(member.member_id, b"assignment")
                    for member in each.members
                ]
            syncs.append(request)
        for synced in connections.ask(syncs, _SYNC):
            assert (synced.error_code, synced.assignment) == (0, b"assignment"), synced
    return [
        encode(HeartbeatRequest(name, each.generation_id, each.member_id), _BEAT)
        for name, each in zip(names, joined, strict=True)
    ]


def _find_coordinator(connections: FrameConnections, group: str) -> None:
    """Wait until the broker coordinates groups: it creates ``__consumer_offsets`` first."""
    until = time.monotonic() + PATIENCE
    while connections.ask([FindCoordinatorRequest(key=group)], _FIND)[0].error_code:
        assert time.monotonic() < until, "no coordinator"
        time.sleep(0.05)


def _answer_without_error() -> bytes:
    writer = Writer()
    encode_response_header(writer, HeartbeatRequest.API_KEY, _BEAT, 0)
    HeartbeatResponse().encode(writer, _BEAT)
    return writer.to_bytes()


def _beat(connections: FrameConnections, count: int, beats: list[bytes], seconds: float) -> int:
    """Send heartbeats at their times, for so many seconds; return how many were answered."""
    right = _answer_without_error()
    speed = len(beats) / PERIOD
    total, sent, answered = int(seconds * speed), 0, 0
    started = time.monotonic()
    while answered < total:
        now = time.monotonic() - started
        assert now < seconds + PATIENCE, f"{answered} of {total} heartbeats were answered"
        while sent < total and sent <= now * speed:
            member = sent % len(beats)
            connections.send(member % count, beats[member])
            sent += 1
        due = sent / speed if sent < total else now + 1.0
        for _, answer in connections.receive(due - (time.monotonic() - started)):
            assert answer == right, answer
            answered += 1
    return answered


def _measure(root: Path, members: int, shared: int, seconds: float) -> None:
    broker = kstore_broker(root)
    broker.start()
    try:
        beats = _join(broker.port, members)
        with FrameConnections(broker.port, shared) as connections:
            _beat(connections, shared, beats, PERIOD)  # every member once
            before, started = cpu_seconds(broker.pid), time.monotonic()
            answered = _beat(connections, shared, beats, seconds)
            elapsed = time.monotonic() - started
            used = (cpu_seconds(broker.pid) - before) / elapsed
    finally:
        broker.stop()
    print(
        f"{members:,} members on {shared:,} connections: {answered / elapsed:,.0f} heartbeats/s, "
        f"all {answered:,} answered without an error; {used:.3f} of a core "
        f"({used / (answered / elapsed) * 1e6:.0f} us each; wanted with 10,000: {WANTED})",
        flush=True,
    )


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    members = int(sys.argv[2]) if len(sys.argv) > 2 else MEMBERS
    assert members % GROUP == 0, f"groups have {GROUP} members"
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the broker inherits it
    assert most > members + 200, f"{members:,} connections need more than {most:,} descriptors"
    for shared in (min(SHARED, members), members):
        with tempfile.TemporaryDirectory(prefix="kstore-heartbeats-") as directory:
            _measure(Path(directory), members, shared, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
