"""Members of consumer groups of either protocol: they join, and each has a heartbeat to send."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstore.protocol.headers import encode_response_header
from kstore.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from kstore.protocol.wire import Writer
from load.brokers import PATIENCE, Broker, Topics
from load.frame_connections import FrameConnections, encode

GROUP = 100  # members of a group
TOPIC = "heartbeats"
_FIND, _JOIN, _SYNC, _BEAT = 3, 3, 3, 4  # versions; JoinGroup 3 needs no step for the member id
_CONSUMER_BEAT = 1  # the version of ConsumerGroupHeartbeat
_ROUNDS = 20  # of heartbeats, in which each member gets its partition; a few suffice
_Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


@dataclass(frozen=True)
class Beat:
    """The heartbeat of a member as a frame, and the only right answer, without its size."""

    frame: bytes
    answer: bytes


def classic_members(broker: Broker, members: int) -> list[Beat]:
    """Let members join groups of the classic protocol; the first member of each assigns."""
    names = _group_names(members)
    with FrameConnections(broker.port, members) as connections:
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
    answer = _answer(HeartbeatRequest.API_KEY, _BEAT, HeartbeatResponse())
    return [
        Beat(encode(HeartbeatRequest(name, each.generation_id, each.member_id), _BEAT), answer)
        for name, each in zip(names, joined, strict=True)
    ]


@dataclass
class _Consumer:
    """A member of a group of KIP-848, which reports what it owns."""

    group: str
    member_id: str
    epoch: int = 0
    owned: list[_Owned] = field(default_factory=list)

    def join(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )

    def beat(self, *, owned: list[_Owned] | None) -> ConsumerGroupHeartbeatRequest:
        """None: nothing has changed, as in nearly all heartbeats."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=owned,
        )

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Whether the answer brings an epoch or an assignment that is new."""
        assert answer.error_code == 0, answer
        is_new = answer.member_epoch != self.epoch or answer.assignment is not None
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [
                _Owned(each.topic_id, each.partitions)
                for each in answer.assignment.topic_partitions
            ]
        return is_new


def consumer_members(broker: Broker, members: int) -> list[Beat]:
    """Let members join groups of the consumer protocol (KIP-848), which read one topic with a
    partition for each member of a group, and send heartbeats until each has its partition."""
    names = _group_names(members)
    Topics(broker).create(TOPIC, GROUP)
    consumers = [_Consumer(name, f"member-{number:015}") for number, name in enumerate(names)]
    with FrameConnections(broker.port, members) as connections:
        _find_coordinator(connections, names[0])
        answers = connections.ask([each.join() for each in consumers], _CONSUMER_BEAT)
        for _ in range(_ROUNDS):
            found = [one.take(answer) for one, answer in zip(consumers, answers, strict=True)]
            if not any(found):
                break
            beats = [each.beat(owned=each.owned) for each in consumers]
            answers = connections.ask(beats, _CONSUMER_BEAT)
    _check_assigned(consumers)
    interval_ms = answers[0].heartbeat_interval_ms
    return [
        Beat(
            encode(each.beat(owned=None), _CONSUMER_BEAT),
            _answer(
                ConsumerGroupHeartbeatRequest.API_KEY,
                _CONSUMER_BEAT,
                ConsumerGroupHeartbeatResponse(
                    member_id=each.member_id,
                    member_epoch=each.epoch,
                    heartbeat_interval_ms=interval_ms,
                ),
            ),
        )
        for each in consumers
    ]


def _check_assigned(consumers: list[_Consumer]) -> None:
    """Each member of a group has one partition, none has that of another."""
    by_group: dict[str, list[list[int]]] = {}
    for each in consumers:
        partitions = [number for topic in each.owned for number in topic.partitions]
        by_group.setdefault(each.group, []).append(partitions)
    for group, found in by_group.items():
        assert sorted(found) == [[number] for number in range(GROUP)], f"{group}: {found}"


PROTOCOLS: Mapping[str, Callable[[Broker, int], list[Beat]]] = {
    "classic": classic_members,
    "consumer": consumer_members,
}


def _group_names(members: int) -> list[str]:
    return [f"group-{number // GROUP:04}" for number in range(members)]


def _find_coordinator(connections: FrameConnections, group: str) -> None:
    """Wait until the broker coordinates groups: it creates ``__consumer_offsets`` first."""
    until = time.monotonic() + PATIENCE
    while connections.ask([FindCoordinatorRequest(key=group)], _FIND)[0].error_code:
        assert time.monotonic() < until, "no coordinator"
        time.sleep(0.05)


def _answer(api_key: int, version: int, response: Any) -> bytes:
    writer = Writer()
    encode_response_header(writer, api_key, version, 0)
    response.encode(writer, version)
    return writer.to_bytes()
