"""The coordinator of classic groups without I/O: who may join, leave, commit and be deleted."""

from typing import Any

import pytest

from kstore.coordinator.group.classic_events import GroupSnapshot, JoinAnswer, MemberSnapshot
from kstore.protocol.error_codes import ErrorCode
from support.group_driver import REBALANCE, SESSION, Driver, error_of, stable


@pytest.mark.parametrize(
    ("session", "error"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.NONE),
        (1_800_000, ErrorCode.NONE),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeout_has_bounds(session: int, error: ErrorCode) -> None:
    assert error_of(Driver().join("a", session_timeout_ms=session)) == error


def test_unknown_member_does_not_create_a_group() -> None:
    driver = Driver()
    assert error_of(driver.join("a", "x")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.state == "Dead"


def test_new_member_is_given_an_id_first() -> None:
    driver = Driver()
    answer = driver.join("a", needs_member_id=True)
    assert answer is not None
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    assert (answer.generation, answer.leader, answer.protocol) == (-1, "", None)
    joined = driver.join("b", "c-1", needs_member_id=True)
    assert joined is not None
    assert (joined.error, joined.member_id, joined.generation) == (ErrorCode.NONE, "c-1", 1)


def test_unused_member_id_expires_with_its_session() -> None:
    driver = Driver()
    driver.join("a", needs_member_id=True)
    driver.pass_time(SESSION / 1000)
    assert error_of(driver.join("b", "c-1")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""), ("range", b""))}, None),
    ],
)
def test_members_share_a_protocol(fields: dict[str, Any], error: ErrorCode | None) -> None:
    driver = Driver()
    stable(driver)
    assert error_of(driver.join("a", **fields)) == error


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": ()}])
def test_first_member_needs_a_protocol(fields: dict[str, Any]) -> None:
    assert error_of(Driver().join("a", **fields)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_with_most_votes_is_chosen_among_those_of_all() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=3000)
    votes = [("range", "sticky"), ("sticky", "range"), ("sticky", "range", "other")]
    for number, names in enumerate(votes):
        driver.join(str(number), protocols=tuple((name, name.encode()) for name in names))
    driver.pass_time(10)
    answers = [driver.answers[str(number)] for number in range(3)]
    assert {each.protocol for each in answers} == {"sticky"}
    leader, *others = sorted(answers, key=lambda each: each.leader != each.member_id)
    assert [each.metadata for each in leader.members] == [b"sticky"] * 3
    assert all(each.members == () for each in others)


def test_new_members_are_dropped_after_five_minutes() -> None:
    driver = Driver()
    stable(driver, rebalance_timeout_ms=1_000_000, session_timeout_ms=1_000_000)
    driver.join("new")
    driver.pass_time(299)
    assert "new" not in driver.answers
    driver.pass_time(2)
    assert driver.answers["new"].error == ErrorCode.UNKNOWN_MEMBER_ID


def test_known_member_of_a_complete_join_gets_the_same_answer() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    again = driver.join("b", joined.member_id)
    assert again is not None
    assert (again.generation, len(again.members)) == (1, 1)
    changed = driver.join("c", joined.member_id, protocols=(("range", b"other"),))
    assert changed is not None
    assert changed.generation == 2


def test_only_a_leader_or_new_metadata_begins_a_rebalance() -> None:
    driver = Driver()
    _leader, follower = stable(driver, 2)
    before = follower.generation
    answer = driver.join("a", follower.member_id)
    assert answer is not None
    assert (answer.generation, answer.members) == (before, ())
    assert driver.join("b", follower.member_id, protocols=(("range", b"new"),)) is None
    assert driver.state == "PreparingRebalance"


def test_leader_that_rejoins_begins_a_rebalance() -> None:
    driver = Driver()
    leader, _ = stable(driver, 2)
    assert driver.join("a", leader.member_id) is None
    assert driver.state == "PreparingRebalance"


SYNC_ERRORS = [
    ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
    ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("fields", "error"), SYNC_ERRORS)
def test_a_wrong_sync_gets_its_error(fields: dict[str, Any], error: ErrorCode) -> None:
    driver = Driver()
    (leader,) = stable(driver)
    assert error_of(driver.sync("a", leader, **fields)) == error


@pytest.mark.parametrize(
    ("state", "error", "assignment"),
    [
        ("Dead", ErrorCode.UNKNOWN_MEMBER_ID, None),
        ("Empty", ErrorCode.UNKNOWN_MEMBER_ID, None),
        ("PreparingRebalance", ErrorCode.REBALANCE_IN_PROGRESS, None),
        ("CompletingRebalance", None, None),  # it waits for the leader
        ("Stable", ErrorCode.NONE, b"c-2"),
    ],
)
def test_a_sync_is_answered_by_the_state_of_the_group(
    state: str, error: ErrorCode | None, assignment: bytes | None
) -> None:
    driver = Driver()
    leader, follower = stable(driver, 2)
    if state == "PreparingRebalance":
        driver.join("new")
    elif state == "CompletingRebalance":
        driver.join("l", leader.member_id)
        driver.join("f", follower.member_id)
        follower = driver.answers["f"]
    elif state in ("Empty", "Dead"):
        driver.leave(leader.member_id)
        driver.leave(follower.member_id)
        if state == "Dead":
            driver.coordinator.forget("g", driver.now)
    assert driver.state == state
    answer = driver.sync("a", follower)
    assert error_of(answer) == error
    assert assignment is None or (answer is not None and answer.assignment == assignment)


def test_a_heartbeat_is_answered_by_the_state_of_the_group() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert joined is not None
    assert driver.beat(joined) == ErrorCode.NONE  # CompletingRebalance
    driver.sync("s", joined)
    assert driver.beat(joined) == ErrorCode.NONE
    assert driver.beat(joined, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat(joined, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert driver.beat(joined, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    driver.join("new")
    assert driver.beat(joined) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("renewal", ["heartbeat", "sync", "commit", "join"])
def test_session_is_renewed(renewal: str) -> None:
    driver = Driver()
    (member,) = stable(driver)
    driver.pass_time(9)
    if renewal == "heartbeat":
        driver.beat(member)
    elif renewal == "sync":
        driver.sync("r", member)
    elif renewal == "commit":
        driver.commit(member)
    else:
        rejoined = driver.join("r", member.member_id)
        assert rejoined is not None
        member = rejoined
    driver.pass_time(9)
    assert driver.beat(member) == ErrorCode.NONE
    driver.pass_time(10)
    assert driver.beat(member) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.state == "Empty"


def test_heartbeat_during_a_rebalance_renews_the_session() -> None:
    driver = Driver()
    (member,) = stable(driver)
    driver.join("new")
    for _ in range(5):
        driver.pass_time(9)
        assert driver.beat(member) == ErrorCode.REBALANCE_IN_PROGRESS


def test_leave_begins_a_rebalance_at_once() -> None:
    driver = Driver()
    leader, follower = stable(driver, 2)
    assert driver.leave(leader.member_id) == ErrorCode.NONE
    assert driver.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = driver.join("f", follower.member_id)
    assert rejoined is not None
    assert rejoined.leader == follower.member_id


@pytest.mark.parametrize(("member_id", "instance_id"), [("x", None), ("", None), ("", "i")])
def test_unknown_member_cannot_leave(member_id: str, instance_id: str | None) -> None:
    driver = Driver()
    assert driver.leave(member_id, instance_id) == ErrorCode.UNKNOWN_MEMBER_ID
    stable(driver)
    assert driver.leave(member_id, instance_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_id_that_was_handed_out_can_leave() -> None:
    driver = Driver()
    driver.join("a", needs_member_id=True)
    assert driver.leave("c-1") == ErrorCode.NONE
    assert driver.leave("c-1") == ErrorCode.UNKNOWN_MEMBER_ID


COMMITS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({}, ErrorCode.NONE),
    ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
    ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("fields", "error"), COMMITS)
def test_a_stable_group_accepts_commits_of_its_generation_only(
    fields: dict[str, Any], error: ErrorCode
) -> None:
    driver = Driver()
    (member,) = stable(driver)
    assert driver.commit(member, **fields) == error


def test_each_state_accepts_its_commits_only() -> None:
    driver = Driver()
    assert driver.commit(None, generation=3) == ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(None) == ErrorCode.NONE  # without a group: it is created
    assert driver.state == "Empty"
    assert driver.commit(None, member_id="x") == ErrorCode.NONE  # any, while it is Empty
    assert driver.commit(None, generation=0) == ErrorCode.UNKNOWN_MEMBER_ID
    joined = driver.join("a")
    assert driver.commit(joined) == ErrorCode.REBALANCE_IN_PROGRESS
    assert joined is not None
    driver.sync("s", joined)
    driver.join("new")
    assert driver.commit(joined) == ErrorCode.NONE  # PreparingRebalance


def test_only_a_group_without_members_may_be_deleted() -> None:
    driver = Driver()
    coordinator = driver.coordinator
    assert coordinator.check_delete("g") == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = stable(driver)
    assert coordinator.check_delete("g") == ErrorCode.NON_EMPTY_GROUP
    driver.leave(member.member_id)
    assert coordinator.check_delete("g") == ErrorCode.NONE
    coordinator.forget("g", driver.now)
    assert driver.state == "Dead"


SUBSCRIPTION = b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff"


def test_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    driver = Driver()
    check = driver.coordinator.check_delete_offsets
    assert check("g", "t") == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = stable(driver, protocols=(("range", SUBSCRIPTION),))
    assert check("g", "t") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert check("g", "other") == ErrorCode.NONE
    driver.leave(member.member_id)
    assert check("g", "t") == ErrorCode.NONE
    stable(other := Driver(), protocol_type="connect")
    assert other.coordinator.check_delete_offsets("g", "t") == ErrorCode.NON_EMPTY_GROUP


def test_description_shows_metadata_of_a_stable_group_only() -> None:
    driver = Driver()
    (member,) = stable(driver)
    found = driver.coordinator.describe("g")
    assert (found.protocol_type, found.protocol) == ("consumer", "range")
    assert [(each.subscription, each.assignment) for each in found.members] == [
        (b"one", member.member_id.encode())
    ]
    driver.join("new")
    found = driver.coordinator.describe("g")
    assert (found.state, found.protocol) == ("PreparingRebalance", "")
    assert {each.subscription for each in found.members} == {b""}


def test_loaded_group_continues_with_its_generation() -> None:
    driver = Driver()
    member = MemberSnapshot("m", None, "c", "/host", SESSION, REBALANCE, b"one", b"assigned")
    driver.coordinator.load(
        GroupSnapshot("g", "consumer", 5, "range", "m", 1.0, (member,)), driver.now
    )
    loaded = JoinAnswer(reply=None, member_id="m", generation=5)
    assert driver.beat(loaded) == ErrorCode.NONE
    answer = driver.sync("s", loaded)
    assert answer is not None
    assert answer.assignment == b"assigned"
    driver.pass_time(10)
    assert driver.beat(loaded) == ErrorCode.UNKNOWN_MEMBER_ID


def test_unloaded_group_answers_everyone() -> None:
    driver = Driver()
    stable(driver)
    driver.join("waiting")
    driver.coordinator.unload(["g"], ErrorCode.NOT_COORDINATOR, driver.now)
    driver.carry_out()
    assert driver.answers["waiting"].error == ErrorCode.NOT_COORDINATOR
    assert driver.state == "Dead"


def test_heartbeats_do_not_grow_the_heap_of_timers() -> None:
    driver = Driver()
    (member,) = stable(driver)
    before = len(driver.coordinator._timers)
    for _ in range(100):
        driver.pass_time(1)
        assert driver.beat(member) == ErrorCode.NONE
    assert len(driver.coordinator._timers) <= before
