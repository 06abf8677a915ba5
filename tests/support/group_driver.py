"""Drives a group coordinator: executes effects immediately, with a clock that the test advances."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from kstore.coordinator.group.classic_coordinator import ClassicCoordinator, GroupLimits
from kstore.coordinator.group.classic_events import (
    GroupSnapshot,
    Join,
    JoinAnswer,
    LeavingMember,
    StoreGroupMetadata,
    Sync,
    SyncAnswer,
)
from kstore.protocol.error_codes import ErrorCode

ONE = (("range", b"one"),)
SESSION, REBALANCE = 10_000, 60_000  # ms


class Driver:
    """Executes effects: stores immediately, and keeps the responses by reply."""

    def __init__(self, **limits: int) -> None:
        ids = count(1)
        limits.setdefault("group_initial_rebalance_delay_ms", 0)
        self.coordinator = ClassicCoordinator(GroupLimits(**limits), lambda: str(next(ids)))
        self.now = 0.0
        self.answers: dict[str, Any] = {}
        self.stored: list[GroupSnapshot] = []
        self.store_error = ErrorCode.NONE
        self.held: list[StoreGroupMetadata] | None = None

    def carry_out(self) -> None:
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, StoreGroupMetadata):
                    self.stored.append(effect.snapshot)
                    if self.held is not None:
                        self.held.append(effect)
                    else:
                        self.coordinator.stored(effect.ticket, self.store_error, self.now)
                else:
                    assert effect.reply not in self.answers, "answered twice"
                    self.answers[str(effect.reply)] = effect

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (when := self.coordinator.next_deadline) is not None and when <= end:
            self.now = max(self.now, when)
            self.coordinator.advance(self.now)
            self.carry_out()
        self.now = end

    def join(self, reply: str, member_id: str = "", **fields: Any) -> JoinAnswer | None:
        values: dict[str, Any] = {
            "group_id": "g",
            "client_id": "c",
            "session_timeout_ms": SESSION,
            "rebalance_timeout_ms": REBALANCE,
            "protocols": ONE,
            "needs_member_id": False,
            **fields,
        }
        self.coordinator.join(Join(member_id=member_id, reply=reply, **values), self.now)
        self.carry_out()
        self.pass_time(0)
        return self.answers.get(reply)

    def sync(
        self, reply: str, joined: JoinAnswer, assignments: Iterable[str] = (), **fields: Any
    ) -> SyncAnswer | None:
        request = Sync(
            **{
                "group_id": "g",
                "generation": joined.generation,
                "member_id": joined.member_id,
                "assignments": {each: each.encode() for each in assignments},
                "reply": reply,
                **fields,
            }
        )
        self.coordinator.sync(request, self.now)
        self.carry_out()
        return self.answers.get(reply)

    def beat(self, joined: JoinAnswer, **fields: Any) -> ErrorCode:
        values: dict[str, Any] = {
            "member_id": joined.member_id,
            "instance_id": None,
            "generation": joined.generation,
            **fields,
        }
        return self.coordinator.heartbeat("g", now=self.now, **values)

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        (error,) = self.coordinator.leave("g", [LeavingMember(member_id, instance_id)], self.now)
        self.carry_out()
        return error

    def commit(self, joined: JoinAnswer | None, **fields: Any) -> ErrorCode:
        values: dict[str, Any] = {"member_id": "", "instance_id": None, "generation": -1}
        if joined is not None:
            values |= {"member_id": joined.member_id, "generation": joined.generation}
        return self.coordinator.check_commit("g", now=self.now, **values | fields)

    @property
    def state(self) -> str:
        return self.coordinator.describe("g").state


def stable(driver: Driver, members: int = 1, **fields: Any) -> list[JoinAnswer]:
    """A Stable group; the first member leads."""
    first = driver.join("s0", **fields)
    assert first is not None
    joined = [first]
    for number in range(1, members):
        driver.join(f"s{number}", **fields)
        for index, each in enumerate(joined[:]):
            reply = f"s{index}r{number}"
            driver.join(reply, each.member_id, **fields)
            joined[index] = driver.answers.get(reply) or each
        last = driver.answers[f"s{number}"]
        joined = [driver.answers.get(f"s{i}r{number}", each) for i, each in enumerate(joined)]
        joined.append(last)
    ids = [each.member_id for each in joined]
    for number, each in enumerate(joined):
        driver.sync(f"y{number}", each, ids if number == 0 else ())
    assert driver.state == "Stable"
    return joined


def error_of(answer: JoinAnswer | SyncAnswer | None) -> ErrorCode | None:
    return None if answer is None else answer.error
