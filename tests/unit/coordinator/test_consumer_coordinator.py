"""The coordinator of consumer groups (KIP-848) without I/O: one test for each rule."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from kstore.coordinator.group.consumer_coordinator import (
    ConsumerCoordinator,
    ConsumerGroupLimits,
)
from kstore.coordinator.group.consumer_events import (
    ConsumerHeartbeat,
    HeartbeatAnswer,
    PlainHeartbeat,
)
from kstore.errors import CorruptRecordError
from kstore.protocol.error_codes import ErrorCode

A, B = b"a" * 16, b"b" * 16
JOIN: dict[str, Any] = {
    "subscribed_topics": ("a",),
    "rebalance_timeout_ms": 60_000,
    "owned": {},
}
SESSION = 45.0


@dataclass(frozen=True)
class Topic:
    name: str
    topic_id: bytes
    partitions: dict[int, None]


@dataclass(frozen=True)
class Topics:
    topics: dict[str, Topic] = field(default_factory=dict)


def id_of(name: str) -> bytes:
    return name.encode().ljust(16, name[:1].encode())


def topics(**counts: int) -> Topics:
    return Topics(
        {
            name: Topic(name, id_of(name), dict.fromkeys(range(count)))
            for name, count in counts.items()
        }
    )


class Driver:
    """Keeps the records as the log would, and moves the clock."""

    def __init__(self, **limits: int) -> None:
        self.limits = ConsumerGroupLimits(**limits)
        self.coordinator = ConsumerCoordinator(self.limits)
        self.topics = topics(a=4, b=2)
        self.records: dict[bytes, bytes] = {}
        self.now = 0.0

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatAnswer:
        request = ConsumerHeartbeat(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        renewed = fields.keys() <= {"instance_id"} and self.renew(member_id, epoch, **fields)
        self.coordinator.patterns_to_match(request, self.topics)  # as the broker does
        answer = self.coordinator.heartbeat(request, self.topics, self.now)
        if renewed:  # nothing else may follow from it
            right = HeartbeatAnswer(member_id=member_id, member_epoch=epoch, records=[])
            assert answer == right
        self.store(answer.records)
        return answer

    def renew(
        self, member_id: str, epoch: int, instance_id: str | None = None, **said: str
    ) -> bool:
        """A heartbeat without news: whether it only renews the session."""
        client = {"client_id": "", "client_host": "", **said}
        beat = PlainHeartbeat("g", member_id, epoch, instance_id, **client)
        return self.coordinator.renew(beat, self.topics, self.now)

    def join(self, member_id: str, **fields: Any) -> HeartbeatAnswer:
        return self.beat(member_id, 0, **{**JOIN, **fields})

    def store(self, records: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.coordinator.advance(self.now)
        for effect in self.coordinator.take_effects():
            self.store(effect.records)

    def restart(self) -> None:
        self.coordinator = ConsumerCoordinator(self.limits)
        self.coordinator.load("g", self.records, self.now)

    @property
    def state(self) -> str:
        group = self.coordinator.find("g")
        return "Dead" if group is None else group.state


def two_members(driver: Driver) -> None:
    """Members x and y share topic a, in epoch 2."""
    assert driver.join("x").assignment == {A: {0, 1, 2, 3}}
    assert driver.join("y").assignment == {}
    assert driver.beat("x", 1, owned={A: frozenset(range(4))}).assignment == {A: {0, 1}}
    assert driver.beat("x", 1, owned={A: frozenset({0, 1})}).member_epoch == 2
    assert driver.beat("y", 2, owned={}).assignment == {A: {2, 3}}
    assert driver.state == "Stable"


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {"rebalance_timeout_ms": -1}),
        (0, {"owned": None}),
        (0, {"owned": {A: frozenset({0})}}),
        (0, {"subscribed_topics": None}),
        (0, {"instance_id": ""}),
        (0, {"rack_id": ""}),
        (0, {"group_id": ""}),
        (-3, {}),
        (-2, {}),
        (1, {"member_id": ""}),
    ],
)
def test_an_invalid_heartbeat_is_refused_without_records(
    epoch: int, fields: dict[str, Any]
) -> None:
    values: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    request = ConsumerHeartbeat(**{**values, **JOIN, **fields})
    answer = Driver().coordinator.heartbeat(request, topics(a=1), 0.0)
    assert (answer.error, answer.records) == (ErrorCode.INVALID_REQUEST, [])
    assert answer.message


def test_assignor_has_to_be_known() -> None:
    driver = Driver()
    assert driver.join("x", server_assignor="sticky").error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert driver.join("x", server_assignor="range").error == ErrorCode.NONE


def test_member_gives_up_before_another_one_gets() -> None:
    driver = Driver()
    driver.join("x")
    assert driver.join("y").assignment == {}
    for _ in range(2):  # it is asked again until it says what it owns
        driver.beat("x", 1)
        assert driver.beat("y", 2).assignment is None
        assert driver.state == "Reconciling"
    driver.beat("x", 1, owned={A: frozenset({0, 1})})
    assert driver.beat("y", 2).assignment == {A: {2, 3}}


def test_assignment_is_sent_when_it_is_new_or_asked_for() -> None:
    driver = Driver()
    two_members(driver)
    assert driver.beat("x", 2).assignment is None
    everything = {**JOIN, "owned": {A: frozenset({0, 1})}}
    assert driver.beat("x", 2, **everything).assignment == {A: {0, 1}}


def test_heartbeat_that_changes_nothing_stores_nothing() -> None:
    driver = Driver()
    two_members(driver)
    assert driver.beat("x", 2).records == []


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (2, None, ErrorCode.NONE),
        (3, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {A: frozenset({0})}, ErrorCode.NONE),  # its answer was lost
        (1, {A: frozenset({0, 3})}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_epoch_of_a_heartbeat_is_checked(epoch: int, owned: Any, error: ErrorCode) -> None:
    driver = Driver()
    two_members(driver)
    assert driver.beat("x", epoch, owned=owned).error == error


def test_an_unknown_group_or_member_gets_its_error() -> None:
    driver = Driver()
    assert driver.beat("x", 1).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.beat("x", -1).error == ErrorCode.GROUP_ID_NOT_FOUND
    driver.join("x")
    assert driver.beat("y", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("y", -1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_joins_again_owns_nothing() -> None:
    driver = Driver()
    two_members(driver)
    again = driver.join("x")
    assert (again.member_epoch, again.assignment) == (2, {A: {0, 1}})


def test_group_has_a_largest_size() -> None:
    driver = Driver(group_consumer_max_size=1)
    driver.join("x")
    assert driver.join("y").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("x").error == ErrorCode.NONE


def test_member_that_leaves_frees_its_partitions() -> None:
    driver = Driver()
    two_members(driver)
    assert driver.beat("y", -1).member_epoch == -1
    assert driver.state == "Assigning"
    assert driver.beat("x", 2).assignment == {A: {0, 1, 2, 3}}
    driver.beat("x", -1)
    assert driver.state == "Empty"


def test_session_ends_without_heartbeats() -> None:
    driver = Driver()
    two_members(driver)
    driver.pass_time(SESSION - 1)
    driver.beat("x", 2)
    driver.pass_time(2)
    assert driver.beat("y", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("x", 2).assignment == {A: {0, 1, 2, 3}}


def test_member_that_does_not_give_up_in_time_is_removed() -> None:
    driver = Driver()
    driver.join("x")
    driver.join("y")
    driver.beat("x", 1)
    for _ in range(6):  # it sends heartbeats all the time
        driver.pass_time(10)
        driver.beat("y", 2)
        answer = driver.beat("x", 1)
    assert answer.error == ErrorCode.UNKNOWN_MEMBER_ID
    group = driver.coordinator.find("g")
    assert group is not None
    assert group.members["y"].assigned == {A: {0, 1, 2, 3}}


def test_static_member_keeps_its_partitions_while_it_is_away() -> None:
    driver = Driver()
    driver.join("x", instance_id="i")
    assert driver.join("y", instance_id="i").error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("x", -2, instance_id="i").member_epoch == -2
    group = driver.coordinator.find("g")
    assert group is not None
    assert group.epoch == 1
    back = driver.join("y", instance_id="i")
    assert (back.member_epoch, back.assignment) == (1, {A: {0, 1, 2, 3}})
    assert driver.beat("x", 1, instance_id="i").error == ErrorCode.FENCED_INSTANCE_ID
    assert driver.beat("z", 1, instance_id="other").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(group.members) == ["y"]


def test_static_member_that_stays_away_is_removed() -> None:
    driver = Driver()
    driver.join("x", instance_id="i")
    driver.beat("x", -2, instance_id="i")
    driver.pass_time(SESSION)
    assert driver.state == "Empty"


def test_topics_that_change_begin_an_epoch() -> None:
    driver = Driver()
    driver.join("x", subscribed_topics=("a", "later"))
    driver.topics = topics(a=4, b=2)
    assert driver.beat("x", 1).member_epoch == 1  # as before
    driver.topics = topics(a=5, later=1)
    answer = driver.beat("x", 1)
    assert answer.member_epoch == 2
    assert answer.assignment == {A: {0, 1, 2, 3, 4}, id_of("later"): {0}}


def test_change_of_the_subscription_begins_an_epoch() -> None:
    driver = Driver()
    driver.join("x")
    answer = driver.beat("x", 1, subscribed_topics=("b",), owned={A: frozenset(range(4))})
    assert (answer.member_epoch, answer.assignment) == (1, {})  # it gives a up first
    answer = driver.beat("x", 1, owned={})
    assert (answer.member_epoch, answer.assignment) == (2, {B: {0, 1}})


def test_most_members_choose_the_assignor() -> None:
    driver = Driver()
    for name, assignor in (("x", "range"), ("y", "uniform"), ("z", "range")):
        driver.join(name, server_assignor=assignor)
    group = driver.coordinator.find("g")
    assert group is not None
    assert group.assignor == "range"


def test_patterns_are_matched_again_when_topics_change() -> None:
    driver = Driver()
    request = ConsumerHeartbeat(
        group_id="g", member_id="x", member_epoch=0, subscribed_pattern="a.*",
        **{**JOIN, "subscribed_topics": ()},
    )  # fmt: skip
    assert driver.coordinator.patterns_to_match(request, driver.topics) == {"a.*"}
    matches = {"a.*": frozenset({"a"})}
    answer = driver.coordinator.heartbeat(request, driver.topics, 0.0, matches)
    assert answer.assignment == {A: {0, 1, 2, 3}}
    beat = ConsumerHeartbeat(group_id="g", member_id="x", member_epoch=1)
    assert driver.coordinator.patterns_to_match(beat, driver.topics) == set()
    driver.topics = topics(a=4, ab=1)
    assert driver.coordinator.patterns_to_match(beat, driver.topics) == {"a.*"}
    driver.coordinator.take_matches("g", {"a.*": frozenset({"a", "ab"})}, driver.topics)
    assert driver.coordinator.patterns_to_match(beat, driver.topics) == set()
    answer = driver.coordinator.heartbeat(beat, driver.topics, 0.0)
    assert answer.assignment == {A: {0, 1, 2, 3}, id_of("ab"): {0}}


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "error"),
    [
        ("x", 2, 9, ErrorCode.NONE),
        ("x", 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("z", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, None, ErrorCode.NONE),  # in a transaction
        ("x", 2, None, ErrorCode.NONE),
        ("x", 1, None, ErrorCode.STALE_MEMBER_EPOCH),
        ("z", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_needs_the_current_member_epoch(
    member_id: str, epoch: int, version: int | None, error: ErrorCode
) -> None:
    driver = Driver()
    two_members(driver)
    assert driver.coordinator.check_commit("g", member_id, epoch, version) == error


def test_commits_without_members_and_of_other_groups() -> None:
    driver = Driver()
    driver.join("x")
    driver.beat("x", -1)
    assert driver.coordinator.check_commit("g", "", -1, 8) == ErrorCode.NONE
    assert driver.coordinator.check_commit("other", "", -1, 8) is None


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("x", 2, ErrorCode.NONE),
        ("x", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("z", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_offset_fetch_needs_the_current_member_epoch(
    member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    driver = Driver()
    two_members(driver)
    assert driver.coordinator.check_fetch("g", member_id, epoch) == error


def test_group_continues_from_its_records() -> None:
    driver = Driver()
    two_members(driver)
    driver.join("s", instance_id="i")
    before = driver.coordinator.find("g")
    assert before is not None
    described = before.describe()
    driver.restart()
    group = driver.coordinator.find("g")
    assert group is not None
    assert group.describe() == described
    assert group.owners == before.owners
    assert group.static == {"i": "s"}
    assert driver.beat("x", 2, owned={A: frozenset({0, 1})}).error == ErrorCode.NONE
    driver.pass_time(SESSION)  # members have a session from the restart on
    assert driver.state == "Empty"


def test_records_of_a_deleted_group_are_gone() -> None:
    driver = Driver()
    two_members(driver)
    for member in "xy":
        driver.beat(member, -1)
    driver.store(driver.coordinator.forget("g"))
    assert driver.records == {}


@pytest.mark.parametrize("size", [2, 3, 5])
def test_damaged_record_is_named(size: int) -> None:
    driver = Driver()
    two_members(driver)
    key = max(driver.records, key=len)
    driver.records[key] = driver.records[key][:size]
    with pytest.raises(CorruptRecordError):
        driver.coordinator.load("g", driver.records, 0.0)
