"""The rebalance of a classic group: who is waited for, how long, and who gets an assignment."""

from kstore.protocol.error_codes import ErrorCode
from support.group_driver import SESSION, Driver, error_of, stable


def test_rebalance_waits_for_an_id_that_was_handed_out() -> None:
    driver = Driver()
    (leader,) = stable(driver)
    driver.join("a", needs_member_id=True)
    assert driver.join("again", leader.member_id) is None  # waits for the pending one
    driver.pass_time(SESSION / 1000 + 1)
    assert driver.answers["again"].generation == 2


def test_new_members_extend_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=3000)
    driver.join("first", rebalance_timeout_ms=7000)
    driver.pass_time(2)
    driver.join("second", rebalance_timeout_ms=7000)
    driver.pass_time(2)
    assert not driver.answers  # extended at 3 s
    driver.join("third", rebalance_timeout_ms=7000)
    driver.pass_time(2.5)
    assert not driver.answers  # extended at 6 s, by the second that is left
    driver.pass_time(0.6)
    assert {each.generation for each in driver.answers.values()} == {1}
    assert len(driver.answers) == 3


def test_rebalance_waits_for_the_largest_timeout_and_removes_missing_members() -> None:
    driver = Driver()
    (leader,) = stable(driver, rebalance_timeout_ms=20_000, session_timeout_ms=100_000)
    driver.join("new", rebalance_timeout_ms=30_000)
    driver.pass_time(29.9)
    assert "new" not in driver.answers
    driver.pass_time(0.2)
    new = driver.answers["new"]
    assert (new.generation, new.leader) == (2, new.member_id)
    assert driver.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_while_assignments_are_awaited_makes_members_rejoin() -> None:
    driver = Driver()
    leader, follower = stable(driver, 2)
    driver.join("l", leader.member_id)
    driver.join("f", follower.member_id)
    assert driver.sync("waiting", driver.answers["f"]) is None
    driver.join("new")
    assert driver.answers["waiting"].error == ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_are_stored_before_they_are_answered() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    driver.held = []
    assert driver.sync("s", joined, [joined.member_id]) is None
    assert driver.state == "CompletingRebalance"
    assert [each.assignment for each in driver.stored[-1].members] == [b"c-1"]
    (effect,) = driver.held
    driver.coordinator.stored(effect.ticket, ErrorCode.NONE, driver.now)
    driver.carry_out()
    assert driver.answers["s"].assignment == b"c-1"
    assert driver.state == "Stable"


def test_members_without_an_assignment_get_an_empty_one() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    answer = driver.sync("s", joined, ["another"])
    assert answer is not None
    assert answer.assignment == b""


def test_failed_store_begins_a_rebalance() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    driver.store_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(driver.sync("s", joined)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state == "PreparingRebalance"


def test_assignments_of_an_earlier_generation_are_not_given_out() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    driver.held = []
    driver.sync("s", joined, [joined.member_id])
    driver.join("b", joined.member_id, protocols=(("range", b"new"),))
    assert driver.answers["s"].error == ErrorCode.REBALANCE_IN_PROGRESS
    driver.coordinator.stored(driver.held[0].ticket, ErrorCode.NONE, driver.now)
    assert driver.state == "CompletingRebalance"


def test_stable_member_gets_its_assignment_again() -> None:
    driver = Driver()
    (leader,) = stable(driver)
    answer = driver.sync("again", leader)
    assert answer is not None
    assert answer.assignment == leader.member_id.encode()


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    driver = Driver()
    leader, follower = stable(driver, 2, rebalance_timeout_ms=8_000)
    driver.join("l", leader.member_id, rebalance_timeout_ms=8_000)
    driver.join("f", follower.member_id, rebalance_timeout_ms=8_000)
    joined = driver.answers["l"]
    driver.sync("s", joined, [joined.member_id])
    driver.pass_time(8)
    assert driver.beat(driver.answers["f"]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat(joined) == ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_waits_does_not_expire() -> None:
    driver = Driver()
    leader, follower = stable(driver, 2, rebalance_timeout_ms=300_000)
    driver.join("l", leader.member_id, rebalance_timeout_ms=300_000)
    for _ in range(3):
        driver.pass_time(9)
        driver.beat(follower)
    assert "l" not in driver.answers
    driver.join("f", follower.member_id, rebalance_timeout_ms=300_000)
    assert driver.answers["l"].generation == leader.generation + 1


def test_member_that_waits_for_its_assignment_does_not_expire() -> None:
    driver = Driver()
    leader, follower = stable(driver, 2, rebalance_timeout_ms=300_000)
    driver.join("l", leader.member_id, rebalance_timeout_ms=300_000)
    driver.join("f", follower.member_id, rebalance_timeout_ms=300_000)
    leader, follower = driver.answers["l"], driver.answers["f"]
    assert driver.sync("waits", follower) is None
    for _ in range(5):
        driver.pass_time(SESSION / 1000 - 1)
        assert driver.beat(leader) == ErrorCode.NONE
    assert "waits" not in driver.answers
    driver.sync("s", leader, [leader.member_id, follower.member_id])
    assert driver.answers["waits"].assignment == follower.member_id.encode()
    driver.pass_time(SESSION / 1000 - 1)  # its session began with the answer
    assert driver.beat(follower) == ErrorCode.NONE
    driver.pass_time(SESSION / 1000 + 1)
    assert driver.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_without_members_is_stored_in_its_next_generation() -> None:
    driver = Driver()
    (member,) = stable(driver)
    driver.leave(member.member_id)
    assert driver.state == "Empty"
    last = driver.stored[-1]
    assert (last.generation, last.members, last.protocol, last.leader) == (2, (), None, None)
    assert last.protocol_type == "consumer"


def test_leader_that_repeats_its_assignments_does_not_replace_them() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    driver.held = []
    driver.sync("s", joined, [joined.member_id])
    driver.sync("again", joined)  # its connection was lost; it assigns otherwise this time
    assert len(driver.held) == 1
    assert error_of(driver.answers["s"]) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.coordinator.stored(driver.held[0].ticket, ErrorCode.NONE, driver.now)
    driver.carry_out()
    assert driver.answers["again"].assignment == joined.member_id.encode()
