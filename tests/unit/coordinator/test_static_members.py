"""Static members: an instance that comes back takes over its assignment without a rebalance."""

import pytest

from kstore.coordinator.group.classic_events import JoinAnswer
from kstore.protocol.error_codes import ErrorCode
from support.group_driver import REBALANCE, SESSION, Driver


def static_group(driver: Driver) -> tuple[JoinAnswer, JoinAnswer]:
    """A Stable group of the instances a, which leads, and b."""
    driver.join("a", instance_id="a")
    driver.join("b", instance_id="b")
    driver.join("a2", driver.answers["a"].member_id, instance_id="a")
    leader, follower = driver.answers["a2"], driver.answers["b"]
    ids = [leader.member_id, follower.member_id]
    driver.sync("sa", leader, ids)
    driver.sync("sb", follower)
    assert driver.state == "Stable"
    return leader, follower


def test_static_member_has_no_step_for_its_id() -> None:
    driver = Driver()
    answer = driver.join("a", instance_id="a", needs_member_id=True)
    assert answer is not None
    assert (answer.error, answer.member_id) == (ErrorCode.NONE, "a-1")


def test_instance_that_comes_back_keeps_the_generation() -> None:
    driver = Driver()
    leader, follower = static_group(driver)
    answer = driver.join("again", instance_id="b")
    assert answer is not None
    assert (answer.error, answer.generation) == (ErrorCode.NONE, leader.generation)
    assert answer.member_id not in (leader.member_id, follower.member_id)
    assert (answer.leader, answer.members) == (leader.member_id, ())
    assert driver.state == "Stable"
    synced = driver.sync("s", answer)
    assert synced is not None
    assert synced.assignment == follower.member_id.encode()  # that of the old id
    assert driver.stored[-1].members[1].member_id == answer.member_id
    assert driver.beat(follower, instance_id="b") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_comes_back_skips_the_assignment() -> None:
    driver = Driver()
    static_group(driver)
    answer = driver.join("again", instance_id="a")
    assert answer is not None
    assert answer.skip_assignment
    assert (answer.leader, len(answer.members)) == (answer.member_id, 2)


def test_leader_of_an_old_version_follows_its_former_id() -> None:
    driver = Driver()
    leader, _ = static_group(driver)
    answer = driver.join("again", instance_id="a", can_skip_assignment=False)
    assert answer is not None
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader.member_id, (), False)


def test_instance_with_another_choice_of_protocol_begins_a_rebalance() -> None:
    driver = Driver()
    first = driver.join("a", instance_id="a", protocols=(("range", b""), ("sticky", b"")))
    assert first is not None
    driver.sync("s", first, [first.member_id])
    answer = driver.join("again", instance_id="a", protocols=(("sticky", b""), ("range", b"")))
    assert answer is not None
    assert (answer.generation, answer.protocol) == (first.generation + 1, "sticky")


def test_failed_store_gives_the_old_id_back() -> None:
    driver = Driver()
    _, follower = static_group(driver)
    driver.store_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = driver.join("again", instance_id="b")
    assert answer is not None
    assert answer.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.beat(follower, instance_id="b") == ErrorCode.NONE


def test_waiting_request_of_the_old_id_is_fenced() -> None:
    driver = Driver()
    leader, follower = static_group(driver)
    driver.join("waits", leader.member_id, instance_id="a")
    assert driver.state == "PreparingRebalance"
    driver.join("again", instance_id="a")
    assert driver.answers["waits"].error == ErrorCode.FENCED_INSTANCE_ID
    assert driver.join("b2", follower.member_id, instance_id="b") is not None
    assert driver.answers["again"].generation == leader.generation + 1


def test_instance_that_comes_back_before_the_assignments_begins_a_rebalance() -> None:
    driver = Driver()
    leader, follower = static_group(driver)
    driver.join("l", leader.member_id, instance_id="a")
    driver.join("f", follower.member_id, instance_id="b")
    assert driver.sync("waits", driver.answers["f"]) is None
    driver.join("again", instance_id="a")
    assert driver.answers["waits"].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("x", "a", ErrorCode.FENCED_INSTANCE_ID),
        ("x", "c", ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_instance_belongs_to_its_member_id(
    member_id: str, instance_id: str | None, error: ErrorCode
) -> None:
    driver = Driver()
    leader, _ = static_group(driver)
    answer = driver.join("j", member_id, instance_id=instance_id)
    assert answer is not None
    assert answer.error == error
    synced = driver.sync("s", leader, member_id=member_id, instance_id=instance_id)
    assert synced is not None
    assert synced.error == error
    assert driver.beat(leader, member_id=member_id, instance_id=instance_id) == error
    assert driver.commit(leader, member_id=member_id, instance_id=instance_id) == error
    assert driver.leave(member_id, instance_id) == error


def test_administrator_removes_an_instance_by_its_name() -> None:
    driver = Driver()
    _, follower = static_group(driver)
    assert driver.leave("", "b") == ErrorCode.NONE
    assert driver.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("", "b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_stays_when_it_misses_a_rebalance() -> None:
    driver = Driver()
    leader, follower = static_group(driver)
    driver.join("l", leader.member_id, instance_id="a", session_timeout_ms=10 * REBALANCE)
    driver.pass_time(SESSION / 1000 - 1)
    driver.beat(follower)
    for _ in range(REBALANCE // SESSION):
        driver.pass_time(SESSION / 1000 - 1)
        driver.beat(follower)
    assert driver.answers["l"].generation == leader.generation + 1
    members = {each.member_id for each in driver.coordinator.describe("g").members}
    assert members == {leader.member_id, follower.member_id}


def test_static_member_expires_with_its_session() -> None:
    driver = Driver()
    _, follower = static_group(driver)
    driver.pass_time(SESSION / 1000 + 1)
    assert driver.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_wait_restarts_while_only_static_members_are_left_and_none_has_joined() -> None:
    driver = Driver()
    long = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": REBALANCE}
    for name in "ab":
        driver.join(name, instance_id=name, **long)
    driver.join("a2", driver.answers["a"].member_id, instance_id="a", **long)
    leader, follower = driver.answers["a2"], driver.answers["b"]
    driver.sync("sa", leader, [leader.member_id, follower.member_id])
    driver.sync("sb", follower)
    assert driver.leave("", "b") == ErrorCode.NONE  # the rebalance waits for a
    stored = len(driver.stored)
    for _ in range(3):
        driver.pass_time(REBALANCE / 1000)
        assert driver.state == "PreparingRebalance"
        assert driver.beat(leader, instance_id="a") == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(driver.stored) == stored
    again = driver.join("a3", leader.member_id, instance_id="a", **long)
    assert again is not None
    assert (again.generation, again.leader) == (leader.generation + 1, leader.member_id)
