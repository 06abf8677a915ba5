"""group.max.size: which members Kafka's GroupMetadataManager.acceptJoiningMember accepts.

An Empty group accepts everyone. While it prepares a rebalance the members count that wait in
JoinGroup; afterwards all its members. A member id that is only assigned never counts.
"""

import pytest

from kstore.coordinator.group.classic_events import GroupSnapshot, JoinAnswer, MemberSnapshot
from kstore.protocol.error_codes import ErrorCode
from support.group_driver import REBALANCE, SESSION, Driver, error_of, stable

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
ASKED_TO_USE_AN_ID = ErrorCode.MEMBER_ID_REQUIRED
WAITS = None


def preparing(driver: Driver, waiting: int) -> None:
    """Of this many members, all of which wait in their first JoinGroup."""
    for number in range(waiting):
        driver.join(f"w{number}")
    assert driver.state == "PreparingRebalance"


def completing(driver: Driver, members: int) -> list[JoinAnswer]:
    for number in range(members):
        driver.join(f"w{number}")
    driver.pass_time(10)
    assert driver.state == "CompletingRebalance"
    return [driver.answers[f"w{number}"] for number in range(members)]


def pending(driver: Driver, count: int) -> list[str]:
    """Member ids that were assigned and not used."""
    answers = [driver.join(f"p{number}", needs_member_id=True) for number in range(count)]
    assert [error_of(each) for each in answers] == [ASKED_TO_USE_AN_ID] * count
    return [each.member_id for each in answers if each is not None]


@pytest.mark.parametrize(
    ("state", "members", "needs_member_id", "error"),
    [
        ("Empty", 0, True, ASKED_TO_USE_AN_ID),
        ("Empty", 0, False, WAITS),
        ("PreparingRebalance", 1, True, ASKED_TO_USE_AN_ID),
        ("PreparingRebalance", 1, False, WAITS),
        ("PreparingRebalance", 2, True, FULL),
        ("PreparingRebalance", 2, False, FULL),
        ("CompletingRebalance", 1, True, ASKED_TO_USE_AN_ID),
        ("CompletingRebalance", 1, False, WAITS),
        ("CompletingRebalance", 2, True, FULL),
        ("CompletingRebalance", 2, False, FULL),
        ("Stable", 1, True, ASKED_TO_USE_AN_ID),
        ("Stable", 1, False, WAITS),
        ("Stable", 2, True, FULL),
        ("Stable", 2, False, FULL),
    ],
)
def test_new_member(
    state: str, members: int, needs_member_id: bool, error: ErrorCode | None
) -> None:
    driver = Driver(
        group_max_size=2, group_initial_rebalance_delay_ms=0 if state == "Stable" else 3000
    )
    if state == "PreparingRebalance":
        preparing(driver, members)
    elif state == "CompletingRebalance":
        completing(driver, members)
    elif state == "Stable":
        stable(driver, members)
    answer = driver.join("new", needs_member_id=needs_member_id)
    assert error_of(answer) == error
    if error is FULL:
        assert answer is not None
        assert answer.member_id == ""


def test_known_member_of_a_full_group_is_accepted_in_every_state() -> None:
    driver = Driver(group_max_size=2, group_initial_rebalance_delay_ms=3000)
    leader, other = completing(driver, 2)
    assert error_of(driver.join("again", other.member_id)) == ErrorCode.NONE
    ids = [leader.member_id, other.member_id]
    driver.sync("y0", leader, ids)
    driver.sync("y1", other)
    assert driver.state == "Stable"
    assert error_of(driver.join("same", other.member_id)) == ErrorCode.NONE
    assert error_of(driver.join("first", leader.member_id)) is WAITS
    assert driver.state == "PreparingRebalance"
    assert error_of(driver.join("second", leader.member_id)) is WAITS  # it waits already
    assert error_of(driver.join("last", other.member_id)) == ErrorCode.NONE


def test_assigned_member_ids_do_not_count() -> None:
    """Kafka's test of members that use their ids in a group that is full meanwhile."""
    driver = Driver(group_max_size=2, group_initial_rebalance_delay_ms=3000)
    ids = pending(driver, 3)
    answers = [driver.join(each, each) for each in ids]
    assert [error_of(each) for each in answers] == [WAITS, WAITS, FULL]
    driver.pass_time(6)
    assert driver.state == "CompletingRebalance"
    assert [driver.answers[each].error for each in ids[:2]] == [ErrorCode.NONE] * 2


def test_an_assigned_id_takes_the_place_of_a_member_that_rejoins_later() -> None:
    driver = Driver(group_max_size=2)
    (member,) = stable(driver)
    (member_id,) = pending(driver, 1)
    assert error_of(driver.join("quick")) is WAITS
    assert error_of(driver.join("assigned", member_id)) is WAITS
    assert error_of(driver.join("late", member.member_id)) == FULL
    assert [driver.answers[each].error for each in ("quick", "assigned")] == [ErrorCode.NONE] * 2
    assert driver.beat(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assigned_id_that_comes_after_the_rebalance_is_refused() -> None:
    driver = Driver(group_max_size=2)
    (member,) = stable(driver, rebalance_timeout_ms=5_000)
    (member_id,) = pending(driver, 1)
    driver.join("quick", rebalance_timeout_ms=5_000)
    driver.join("again", member.member_id, rebalance_timeout_ms=5_000)
    driver.pass_time(5)  # the rebalance waits no longer for the id, which is valid still
    assert driver.state == "CompletingRebalance"
    assert error_of(driver.join("late", member_id)) == FULL
    group = driver.coordinator.find("g")
    assert group is not None
    assert not group.pending  # the next rebalance does not wait for it


def loaded(largest: int, *names: str) -> Driver:
    driver = Driver(group_max_size=largest)
    members = tuple(
        MemberSnapshot(name, None, "c", "/h", SESSION, REBALANCE, b"one", b"") for name in names
    )
    snapshot = GroupSnapshot("g", "consumer", 5, "range", names[0], 1.0, members)
    driver.coordinator.load(snapshot, 0.0)
    return driver


def test_loaded_group_beyond_the_largest_size_loses_the_last_to_rejoin() -> None:
    driver = loaded(2, "a", "b", "c")
    assert driver.state == "PreparingRebalance"
    assert [error_of(driver.join(each, each)) for each in "ab"] == [WAITS, WAITS]
    assert error_of(driver.join("again", "a")) is WAITS  # in place of its first request
    assert driver.answers.pop("a").error == ErrorCode.REBALANCE_IN_PROGRESS
    assert error_of(driver.join("c", "c")) == FULL
    assert [driver.answers[each].error for each in ("again", "b")] == [ErrorCode.NONE] * 2
    assert driver.state == "CompletingRebalance"


def test_loaded_group_of_the_largest_size_stays() -> None:
    assert loaded(2, "a", "b").state == "Stable"
