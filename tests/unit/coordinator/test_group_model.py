"""Random members and clocks: no partition is ever owned in two generations.

Clients of a model join, lose answers, restart, fall silent and come back; the coordinator is
restarted from its records. A client owns what its last answer assigned to it, for as long as the
coordinator takes its commits.
"""

from dataclasses import dataclass, replace
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from kstore.coordinator.group.classic_checks import check_commit
from kstore.coordinator.group.classic_coordinator import ClassicCoordinator, GroupLimits
from kstore.coordinator.group.classic_events import JoinAnswer, Sync, SyncAnswer
from kstore.protocol.error_codes import ErrorCode
from support.group_driver import Driver

PARTITIONS = range(7)
INDEXES = st.sampled_from([{0, 1, 2, 3, 4, 5}, {0, 1, 2}, {0, 1}, {1, 2}, {0, 2, 3}])
DEAF = st.sampled_from([set[int](), set[int](), {0}, {1}, {2}, {3}])


@dataclass(eq=False)
class Client:
    """A consumer as it sees itself."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    owned: frozenset[int] = frozenset()
    waits_for: str | None = None  # the reply of its request
    joined: JoinAnswer | None = None


class GroupModel(RuleBasedStateMachine):
    """Every step is a request of one client, an answer that comes or is lost, or time."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(group_initial_rebalance_delay_ms=1000)
        self.replies = count()
        self.crashes = count(1)
        self.durable = 0  # records of the group that survive a crash
        self.all: list[Client] = []

    # --- clients ----------------------------------------------------------------------------

    @initialize(target=clients)
    def start_three(self) -> MultipleResults[Client]:
        clients = [self.start(instance) for instance in (None, None, "i1")]
        self._rebalance({0, 1, 2}, set())
        return multiple(*clients)

    @rule(target=clients, instance=st.sampled_from([None, None, "i1", "i2"]))
    def start(self, instance: str | None) -> Client:
        client = Client(instance)
        self.all.append(client)
        return client

    @rule(client=clients, needs_id=st.booleans(), protocols=st.sampled_from(["r", "rs", "sr"]))
    def join(self, client: Client, needs_id: bool, protocols: str) -> None:
        reply = f"j{next(self.replies)}"
        client.waits_for, client.joined = reply, None
        self.driver.join(
            reply,
            client.member_id,
            instance_id=client.instance_id,
            protocols=tuple((name, b"") for name in protocols),
            needs_member_id=needs_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
        )

    @rule(client=clients)
    def take_answer(self, client: Client) -> None:
        answer = self._answer_of(client)
        if isinstance(answer, JoinAnswer):
            self._take_join(client, answer)
        elif isinstance(answer, SyncAnswer):
            self._take_sync(client, answer)

    def _answer_of(self, client: Client) -> JoinAnswer | SyncAnswer | None:
        return self.driver.answers.get(client.waits_for or "")

    def _take_join(self, client: Client, answer: JoinAnswer) -> None:
        client.waits_for = None
        if answer.error == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error == ErrorCode.NONE:
            client.owned = frozenset()  # the eager protocol
            client.member_id, client.generation = answer.member_id, answer.generation
            client.joined = answer
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.owned = "", frozenset()

    def _take_sync(self, client: Client, answer: SyncAnswer) -> None:
        client.waits_for = None
        if answer.error == ErrorCode.NONE:
            client.owned = frozenset(answer.assignment)

    @rule(client=clients)
    def sync(self, client: Client) -> None:
        joined = client.joined
        if joined is None:
            return
        members = [each.member_id for each in joined.members]
        assignments = {
            each: bytes(n for n in PARTITIONS if (n + joined.generation) % len(members) == index)
            for index, each in enumerate(members)
        }
        client.waits_for = reply = f"s{next(self.replies)}"
        request = Sync(
            group_id="g",
            generation=joined.generation,
            member_id=joined.member_id,
            instance_id=client.instance_id,
            assignments=assignments,
            reply=reply,
        )
        self.driver.coordinator.sync(request, self.driver.now)
        self.driver.carry_out()

    @rule(client=clients)
    def heartbeat(self, client: Client) -> None:
        error = self.driver.coordinator.heartbeat(
            "g", client.member_id, client.instance_id, client.generation, self.driver.now
        )
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.owned = "", frozenset()

    @rule(indexes=INDEXES, deaf=DEAF)
    def rebalance_more_often(self, indexes: set[int], deaf: set[int]) -> None:
        self._rebalance(indexes, deaf)

    @rule(indexes=INDEXES, deaf=DEAF)
    def rebalance(self, indexes: set[int], deaf: set[int]) -> None:
        self._rebalance(indexes, deaf)

    def _rebalance(self, indexes: set[int], deaf: set[int]) -> None:
        """Some clients do as they should. Answers to the deaf ones are lost, and the others
        notice nothing."""
        some = [client for index, client in enumerate(self.all) if index in indexes]
        for _ in range(2):  # the second join has the member id
            for client in some:
                if client.joined is None:
                    self.join(client, True, "rs")
            self.driver.pass_time(0)
            for client in some:
                if isinstance(self._answer_of(client), JoinAnswer) and not client.member_id:
                    self.take_answer(client)
        hearing = [each for each in some if self.all.index(each) not in deaf]
        for _ in range(31):  # until those who have not joined are given up
            self.driver.pass_time(1)
            if any(self._answer_of(client) is not None for client in hearing):
                break
        for step in (self.take_answer, self.sync, self.take_answer):
            for client in hearing:
                step(client)
        for client in some:
            client.joined = None

    @rule(client=clients)
    def restart(self, client: Client) -> None:
        """Another process with the same instance; the old one stays, too."""
        copy = replace(client)
        self.all.append(copy)
        client.member_id, client.owned, client.joined = "", frozenset(), None
        client.waits_for = None

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        self.driver.leave(client.member_id, client.instance_id)

    # --- time, storage, the broker ----------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0, 11.0, 31.0, 301.0]))
    def pass_time(self, seconds: float) -> None:
        self.driver.pass_time(seconds)

    @rule()
    def hold_the_store(self) -> None:
        if self.driver.held is None:
            self.driver.held = []

    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]))
    def end_the_store(self, error: ErrorCode) -> None:
        held, self.driver.held = self.driver.held or [], None
        for effect in held:
            self.driver.coordinator.stored(effect.ticket, error, self.driver.now)
            self.driver.carry_out()

    @rule(keeps_unanswered=st.booleans())
    def crash(self, keeps_unanswered: bool) -> None:
        driver = self.driver
        unanswered = len(driver.held or ())
        stored = driver.stored
        if unanswered and not keeps_unanswered:
            del stored[-unanswered:]
        driver.held = None
        ids, crash = count(1), next(self.crashes)
        driver.coordinator = ClassicCoordinator(
            GroupLimits(group_initial_rebalance_delay_ms=1000), lambda: f"{crash}-{next(ids)}"
        )
        if stored:
            driver.coordinator.load(stored[-1], driver.now)
        for client in self.all:  # their connections are closed
            if client.waits_for not in driver.answers:
                client.waits_for = None

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.driver.coordinator.find("g")
        owners: dict[int, tuple[str, int]] = {}
        for client in self.all:
            if group is None or not client.owned or not group.members:
                continue
            may_commit = check_commit(
                group, client.member_id, client.instance_id, client.generation
            )
            if may_commit == ErrorCode.NONE:
                for partition in client.owned:
                    owner = client.member_id, client.generation
                    assert owners.setdefault(partition, owner) == owner

    @invariant()
    def counts_are_true(self) -> None:
        group = self.driver.coordinator.find("g")
        if group is not None:
            waiting = sum(each.join_reply is not None for each in group.members.values())
            assert group.joined_count == waiting
            assert group.unsynced <= group.members.keys()
            assert group.leader in group.members or not group.members


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
