"""What members cost the coordinator, counted in calls: the same in a small and a large group."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from kstore.coordinator.group.classic_events import JoinAnswer
from support.group_driver import Driver

INTERVAL = 3  # seconds between two heartbeats of a member


def calls_of(work: Callable[[], object]) -> int:
    """How many Python and C functions it calls."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def group_of(size: int) -> tuple[Driver, list[JoinAnswer]]:
    driver = Driver(group_initial_rebalance_delay_ms=1000)
    for number in range(size):
        driver.join(f"j{number}", session_timeout_ms=45_000, rebalance_timeout_ms=300_000)
    driver.pass_time(3)
    joined = [driver.answers[f"j{number}"] for number in range(size)]
    for each in joined:
        driver.sync(f"s{each.member_id}", each, [each.member_id] if each.members else ())
    assert driver.state == "Stable"
    return driver, joined


def calls_of_a_minute(size: int) -> float:
    """Calls for each heartbeat of a minute, in which every session timer is reached."""
    driver, joined = group_of(size)

    def run() -> None:
        for _ in range(60 // INTERVAL):
            for each in joined:
                assert driver.beat(each) == 0
            driver.pass_time(INTERVAL)

    return calls_of(run) / (size * 60 / INTERVAL)


def test_heartbeat_costs_the_same_in_a_large_group() -> None:
    small, large = calls_of_a_minute(10), calls_of_a_minute(1_000)
    assert large <= small * 1.05, (small, large)


@pytest.mark.parametrize("is_known", [False, True])
def test_join_costs_the_same_in_a_large_group(is_known: bool) -> None:
    calls = []
    for size in (10, 1_000):
        driver, joined = group_of(size)
        driver.join("first", joined[0].member_id)  # the leader: a rebalance begins
        member_id = joined[1].member_id if is_known else ""
        calls.append(calls_of(lambda: driver.join("next", member_id)))  # noqa: B023
    assert calls[1] <= calls[0] + 20, calls
