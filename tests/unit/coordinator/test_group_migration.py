"""Upgrade and downgrade of a living group: classic members in a consumer group (KIP-848)."""

from typing import Any

import pytest

from kstore.coordinator.group.classic_events import Join, JoinAnswer, LeavingMember, Sync
from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.classic_requests import ClassicRequests
from kstore.coordinator.group.consumer_coordinator import ConsumerCoordinator
from kstore.coordinator.group.consumer_events import ClassicMetadata
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import ConsumerMember
from kstore.coordinator.group.group_migration import (
    CannotUpgradeError,
    MigrationPolicy,
    can_downgrade,
    downgraded,
    upgraded,
)
from kstore.coordinator.group.subscription import decode_assignment, encode_assignment
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from kstore.protocol.wire import Writer
from unit.coordinator.test_consumer_coordinator import A, Driver, topics

BOTH = MigrationPolicy.BIDIRECTIONAL
MOST = 100
REBALANCE = 60.0


def subscription(*names: str, owned: tuple[int, ...] = (), version: int = 1) -> bytes:
    """What a member says of itself; it owns partitions of topic a."""
    writer = Writer()
    writer.int16(version)
    kind = ConsumerProtocolSubscription.OwnedPartitions
    ConsumerProtocolSubscription(
        list(names or ("a",)), owned_partitions=[kind("a", list(owned))] if owned else []
    ).encode(writer, version)
    return writer.to_bytes()


def classic_group(*members: tuple[str, tuple[int, ...]], protocol: str = "range") -> ClassicGroup:
    """A Stable group in generation 5, whose members have these partitions of topic a."""
    group = ClassicGroup("g", 0.0)
    group.generation, group.protocol, group.state = 5, protocol, GroupState.STABLE
    for member_id, partitions in members:
        data = encode_assignment({"a": partitions}, 1) if partitions else b""
        group.add(
            Member(
                member_id, None, "c", "/h", 10.0, REBALANCE, ((protocol, subscription()),), data
            ),
            "consumer",
        )
    return group


class Migrating(Driver):
    """A group that was upgraded, with what its classic members ask for."""

    def __init__(self, classic: ClassicGroup, **limits: int) -> None:
        super().__init__(**limits)
        self.upgrade(classic)

    def upgrade(self, classic: ClassicGroup) -> None:
        group = upgraded(classic, BOTH, MOST, self.topics, self.now)
        self.coordinator.adopt(group, self.now)
        self.store(group.all_records())

    @property
    def group(self) -> ConsumerGroup:
        found = self.coordinator.find("g")
        assert found is not None
        return found

    @property
    def classic(self) -> ClassicRequests:
        return ClassicRequests(self.coordinator)

    def join_classic(
        self, member_id: str, owned: tuple[int, ...] = (), **fields: Any
    ) -> JoinAnswer:
        values: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": round(REBALANCE * 1000),
            "protocols": (("range", subscription(owned=owned)),),
        }
        request = Join(group_id="g", member_id=member_id, reply=None, **{**values, **fields})
        answer, records = self.classic.join(self.group, request, self.topics, self.now)
        self.store(records)
        return answer

    def sync(self, member_id: str, generation: int) -> set[int] | ErrorCode:
        request = Sync(
            group_id="g", generation=generation, member_id=member_id, protocol_type="consumer",
            protocol="range", reply=None,
        )  # fmt: skip
        answer = self.classic.sync(self.group, request, self.topics, self.now)
        if answer.error != ErrorCode.NONE:
            return answer.error
        found = decode_assignment(answer.assignment).assigned_partitions
        return {number for each in found for number in each.partitions}

    def beat_classic(self, member_id: str, generation: int) -> ErrorCode:
        return self.classic.heartbeat(self.group, member_id, None, generation, self.now)


def test_members_keep_their_partitions_until_they_give_them_up() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    new = driver.join("y")
    assert (new.member_epoch, new.assignment) == (6, {})
    assert driver.beat_classic("x", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = driver.join_classic("x", owned=(0, 1, 2, 3))  # a cooperative one owns them still
    assert (joined.generation, joined.protocol, joined.leader) == (5, "range", "")
    kept = driver.sync("x", 5)
    assert isinstance(kept, set)
    assert len(kept) == 2
    assert driver.beat("y", 6).assignment is None  # x reads them
    assert driver.beat_classic("x", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.join_classic("x", owned=tuple(kept)).generation == 6
    assert driver.sync("x", 6) == kept
    (given,) = driver.beat("y", 6).assignment.values()
    assert given == set(range(4)) - kept
    assert driver.beat_classic("x", 6) == ErrorCode.NONE
    assert driver.state == "Stable"


def test_eager_members_have_given_up_all_partitions_when_they_join() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    driver.join("y")
    assert driver.join_classic("x").generation == 6
    assert len(driver.sync("x", 6)) == 2
    (given,) = driver.beat("y", 6).assignment.values()
    assert len(given) == 2


def test_classic_member_joins_a_consumer_group() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    first = driver.join_classic("")
    assert (first.error, first.generation) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert driver.join_classic(first.member_id).generation == 6
    assert driver.sync(first.member_id, 6) == set()  # x has not given anything up
    assert driver.beat_classic(first.member_id, 6) == ErrorCode.NONE
    driver.join_classic("x")
    assert driver.beat_classic(first.member_id, 6) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.join_classic(first.member_id)
    assert driver.sync(first.member_id, 6) in ({0, 1}, {2, 3})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", subscription()),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\0"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_classic_members_that_are_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    driver = Migrating(classic_group(("x", (0,))))
    assert driver.join_classic("m", **fields).error == error
    assert set(driver.group.members) == {"x"}


def test_requests_of_classic_members_are_checked() -> None:
    driver = Migrating(classic_group(("x", (0,))))
    driver.join("y")
    assert driver.beat_classic("y", 6) == ErrorCode.UNKNOWN_MEMBER_ID  # it is no classic one
    assert driver.beat_classic("x", 4) == ErrorCode.ILLEGAL_GENERATION
    assert driver.sync("x", 4) == ErrorCode.ILLEGAL_GENERATION
    assert driver.sync("x", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    commit = driver.coordinator.check_commit
    assert commit("g", "x", 5, 8) == commit("g", "x", 5, None) == ErrorCode.NONE
    assert commit("g", "x", 6, 8) == ErrorCode.ILLEGAL_GENERATION
    assert driver.coordinator.check_fetch("g", "x", 4) == ErrorCode.ILLEGAL_GENERATION
    fenced = Sync(group_id="g", generation=5, member_id="x", instance_id="i", reply=None)
    answer = driver.classic.sync(driver.group, fenced, driver.topics, 0.0)
    assert answer.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_changes_its_protocol() -> None:
    classic = classic_group(("x", (0, 1, 2, 3)))
    classic.members["x"].instance_id = "i"
    driver = Migrating(classic)
    new = driver.join("y", instance_id="i")
    assert set(driver.group.members) == {"y"}
    assert new.assignment == {topics(a=4).topics["a"].topic_id: {0, 1, 2, 3}}
    assert driver.group.members["y"].classic is None
    back = driver.join_classic("", instance_id="i")
    assert set(driver.group.members) == {back.member_id}
    assert driver.group.is_all_classic


def test_classic_members_have_a_session_of_their_own() -> None:
    driver = Migrating(classic_group(("x", (0,)), ("y", (1,))))
    driver.pass_time(9.0)
    assert driver.beat_classic("x", 5) == ErrorCode.NONE
    driver.pass_time(2.0)
    assert set(driver.group.members) == {"x"}
    assert driver.coordinator.take_shrunk() == [driver.group]


@pytest.mark.parametrize("owes", ["join", "sync"])
def test_member_that_does_not_join_or_sync_in_time_is_removed(owes: str) -> None:
    driver = Migrating(classic_group(("x", (0, 1)), ("y", (2, 3))))
    for _ in range(20):  # nothing is owed
        driver.pass_time(5.0)
        assert driver.beat_classic("x", 5) == driver.beat_classic("y", 5) == ErrorCode.NONE
    driver.join_classic("z", rebalance_timeout_ms=600_000)
    assert driver.beat_classic("x", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.beat_classic("y", 5)
    driver.join_classic("y")
    driver.sync("y", 6)
    if owes == "sync":
        driver.join_classic("x")
    for _ in range(13):
        driver.pass_time(5.0)
        for member in list(driver.group.members):
            driver.beat_classic(member, driver.group.members[member].epoch)
    assert set(driver.group.members) == {"y", "z"}


def test_member_whose_session_has_ended_gives_its_partitions_up_before_it_joins() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    driver.join("y")
    driver.pass_time(10.0)
    assert "x" not in driver.group.members
    assert driver.join_classic("x", owned=(0, 1, 2, 3)).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "x" not in driver.group.members
    assert driver.join_classic("x").error == ErrorCode.NONE


def test_member_that_joins_again_and_again_has_one_deadline_at_a_time() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    driver.join("y")
    before = len(driver.coordinator._timers)
    for _ in range(100):
        driver.join_classic("x", rebalance_timeout_ms=2**31 - 1)
    assert len(driver.coordinator._timers) <= before + 2


def test_members_leave_by_the_classic_request() -> None:
    driver = Migrating(classic_group(("x", (0,)), ("y", (1,))))
    driver.join("z", instance_id="i")
    leaving = [
        LeavingMember("x"),
        LeavingMember("no"),
        LeavingMember("z", "i"),
        LeavingMember("", "j"),
    ]
    errors, records = driver.classic.leave(driver.group, leaving, 0.0)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [ErrorCode.NONE, unknown, unknown, unknown]
    assert records
    assert driver.classic.leave(driver.group, [LeavingMember("", "i")], 0.0)[0] == [ErrorCode.NONE]
    assert set(driver.group.members) == {"y"}


def test_group_outlives_a_restart() -> None:
    driver = Migrating(classic_group(("x", (0, 1, 2, 3))))
    before = driver.group.members["x"]
    driver.restart()
    after = driver.group.members["x"]
    assert (after.classic, after.epoch, after.assigned) == (before.classic, 5, before.assigned)
    driver.store(driver.group.all_tombstones())
    assert driver.records == {}


# --- upgrade and downgrade ----------------------------------------------------------------------


def test_upgrade_takes_over_what_the_members_have() -> None:
    group = upgraded(classic_group(("x", (0, 1)), ("y", ())), BOTH, MOST, topics(a=4), 0.0)
    assert (group.epoch, group.target_epoch, group.is_all_classic) == (5, 5, True)
    a = topics(a=4).topics["a"].topic_id
    assert group.members["x"].assigned == group.targets["x"] == {a: {0, 1}}
    assert group.members["y"].assigned == {}
    assert group.owners == {(a, 0): "x", (a, 1): "x"}


def custom(group: ClassicGroup) -> ClassicGroup:
    group.members["x"].assignment = encode_assignment({"a": [0]}, 1)[:-4] + b"\0\0\0\1!"
    return group


def broken(group: ClassicGroup) -> ClassicGroup:
    group.members["x"].assignment = b"\0\1\xff"
    return group


def connect(group: ClassicGroup) -> ClassicGroup:
    group.protocol_type = "connect"
    return group


@pytest.mark.parametrize(
    ("group", "policy", "most", "words"),
    [
        (classic_group(("x", (0,))), MigrationPolicy.DOWNGRADE, MOST, "upgrade is disabled"),
        (classic_group(("x", (0,))), MigrationPolicy.DISABLED, MOST, "upgrade is disabled"),
        (classic_group(("x", (0,)), ("y", ())), BOTH, 1, "maximum size"),
        (connect(classic_group(("x", (0,)))), BOTH, MOST, "embedded protocol"),
        (custom(classic_group(("x", (0,)))), BOTH, MOST, "custom assignor"),
        (broken(classic_group(("x", (0,)))), BOTH, MOST, "malformed"),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_classic(
    group: ClassicGroup, policy: MigrationPolicy, most: int, words: str
) -> None:
    with pytest.raises(CannotUpgradeError, match=words):
        upgraded(group, policy, most, topics(a=4), 0.0)


def test_upgrade_drops_partitions_that_do_not_exist() -> None:
    driver = Migrating(classic_group(("x", (-1, 0, 10**9))))
    assert driver.group.members["x"].assigned == {A: frozenset({0})}


def test_downgrade_has_the_targets_as_assignments() -> None:
    driver = Migrating(classic_group(("x", (0, 1)), ("y", (2, 3))))
    driver.join("z")
    assert not can_downgrade(driver.group, BOTH, MOST)
    driver.beat("z", -1)
    assert can_downgrade(driver.group, BOTH, MOST)
    assert not can_downgrade(driver.group, MigrationPolicy.UPGRADE, MOST)
    assert not can_downgrade(driver.group, BOTH, 1)
    driver.beat_classic("x", 5)
    driver.join_classic("x")
    classic = downgraded(driver.group, driver.topics, 0.0)
    assert (classic.state, classic.generation) == (GroupState.STABLE, driver.group.epoch)
    assert (classic.protocol, classic.topics) == ("range", frozenset({"a"}))
    found = [
        decode_assignment(each.assignment).assigned_partitions[0].partitions
        for each in classic.members.values()
    ]
    assert sorted(number for each in found for number in each) == [0, 1, 2, 3]


def test_group_without_members_is_no_classic_one() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.adopt(ConsumerGroup("g", 0.0), 0.0)
    group = coordinator.find("g")
    assert group is not None
    assert not can_downgrade(group, BOTH, MOST)


class CountedName(str):
    """A protocol's name that counts how often it is looked up."""

    lookups = 0

    def __hash__(self) -> int:
        CountedName.lookups += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def test_a_join_with_many_protocols_costs_no_more_than_their_number() -> None:
    count = 500
    group = ConsumerGroup("g", 0.0)
    member = ConsumerMember("m", None)
    names = [CountedName(f"known-{number}") for number in range(count)]
    member.classic = ClassicMetadata(10_000, tuple((name, b"") for name in names))
    group.add(member)
    CountedName.lookups = 0
    assert not group.supports("consumer", tuple((f"new-{n}", b"") for n in range(count)))
    assert CountedName.lookups <= 2 * count
