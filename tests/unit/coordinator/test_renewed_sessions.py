"""Heartbeats of KIP-848 without news: where they only renew a session, and where more follows.

Where one does, :class:`Driver` and the random members of ``test_consumer_model.py`` also check that
the general way gives the same answer and no records.
"""

from typing import Any

import pytest

from kstore.coordinator.group.consumer_events import ClassicMetadata
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import ConsumerMember
from kstore.protocol.error_codes import ErrorCode
from unit.coordinator.test_consumer_coordinator import (
    SESSION,
    A,
    Driver,
    topics,
    two_members,
)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    two_members(driver)
    return driver


def parts(driver: Driver) -> tuple[ConsumerGroup, ConsumerMember]:
    group = driver.coordinator.find("g")
    assert group is not None
    return group, group.members["x"]


def test_heartbeat_without_news_renews_the_session(driver: Driver) -> None:
    group, member = parts(driver)
    for _ in range(3):
        driver.pass_time(SESSION * 0.6)
        for name in ("x", "y"):
            assert driver.renew(name, 2)
        assert member.deadline == driver.now + SESSION
    assert list(group.members) == ["x", "y"]
    driver.pass_time(SESSION)
    assert not group.members


def test_member_that_leaves_changes_the_group(driver: Driver) -> None:
    driver.beat("y", -1)
    assert not driver.renew("x", 2)


def test_static_member_is_known_by_its_instance_id() -> None:
    driver = Driver()
    driver.join("x", instance_id="i")
    assert driver.renew("x", 1, "i")
    assert driver.renew("x", 1)
    assert not driver.renew("x", 1, "j")
    driver.beat("x", -2, instance_id="i")
    assert not driver.renew("x", 1, "i")
    driver.join("z", instance_id="i")
    assert not driver.renew("x", 1, "i")
    assert driver.renew("z", 1, "i")


@pytest.mark.parametrize(
    "beat",
    [
        {"member_id": "z"},
        {"epoch": 1},
        {"epoch": 3},
        {"instance_id": "i"},
        {"client_id": "other"},
        {"client_host": "/10.0.0.1"},
    ],
)
def test_another_heartbeat_is_answered_in_general(driver: Driver, beat: dict[str, Any]) -> None:
    _, member = parts(driver)
    driver.now += 1
    before = member.deadline
    assert not driver.renew(**{"member_id": "x", "epoch": 2, **beat})
    assert member.deadline == before
    assert driver.renew("x", 2)


def test_an_unknown_group_is_answered_in_general() -> None:
    assert not Driver().renew("x", 1)


def test_member_that_is_not_settled_is_answered_in_general(driver: Driver) -> None:
    driver.join("z")
    for name, epoch in (("x", 2), ("y", 2), ("z", 3)):
        assert not driver.renew(name, epoch)
    driver.beat("x", 2)
    assert driver.renew("x", 3), "it keeps its two"
    driver.beat("y", 2, owned={A: frozenset({2, 3})})
    assert not driver.renew("y", 2), "it has not said that it gave one up"
    driver.beat("y", 2, owned={A: frozenset({2})})
    assert driver.renew("y", 3)
    assert not driver.renew("z", 3), "it has not got what y gave up"
    assert driver.beat("z", 3).assignment == {A: {3}}
    assert driver.renew("z", 3)


def test_topics_that_change_are_seen(driver: Driver) -> None:
    driver.topics = topics(a=4, b=2)
    assert not driver.renew("x", 2), "another image"
    driver.beat("x", 2)
    assert driver.renew("x", 2), "which has the same topics"
    driver.topics = topics(a=5, b=2)
    assert not driver.renew("x", 2)
    driver.beat("x", 2)
    assert not driver.renew("x", 2), "there is a new epoch"


def test_refused_heartbeat_does_not_hide_new_topics(driver: Driver) -> None:
    driver.topics = topics(a=5, b=2)
    assert driver.beat("x", 7).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert not driver.renew("x", 2)


def test_patterns_are_matched_with_each_image(driver: Driver) -> None:
    group, _ = parts(driver)
    group.patterns_seen = None
    assert not driver.renew("x", 2)


def test_classic_member_becomes_one_of_the_new_protocol(driver: Driver) -> None:
    _, member = parts(driver)
    member.classic = ClassicMetadata(10_000, ())
    assert not driver.renew("x", 2)


def test_shorter_session_needs_a_timer(driver: Driver) -> None:
    driver.coordinator._session_timeout_ms = lambda _: 1_000
    assert not driver.renew("x", 2)
    driver.beat("x", 2)
    assert driver.renew("x", 2)
    group, _ = parts(driver)
    driver.pass_time(1)
    assert list(group.members) == ["y"]
