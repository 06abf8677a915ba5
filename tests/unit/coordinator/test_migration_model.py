"""Random members of both protocols in one consumer group: no partition has two owners.

A classic client owns what its last SyncGroup gave it. An eager one gives everything up before it
joins; a cooperative one says what it owns, gives up what it has lost, and joins again.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, invariant, multiple, rule

from kstore.coordinator.group.classic_events import Join, LeavingMember, Sync
from kstore.coordinator.group.classic_requests import ClassicRequests
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.subscription import decode_assignment
from kstore.protocol.error_codes import ErrorCode
from unit.coordinator.test_consumer_coordinator import A
from unit.coordinator.test_consumer_model import ConsumerModel
from unit.coordinator.test_group_migration import subscription

LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID,
)  # fmt: skip


@dataclass(eq=False)
class ClassicClient:
    """A classic consumer as it sees itself."""

    is_cooperative: bool
    member_id: str = ""
    generation: int = -1
    owned: frozenset[int] = field(default_factory=frozenset)
    needs_join: bool = True
    needs_sync: bool = False


class MigrationModel(ConsumerModel):
    classic_clients = Bundle("classic_clients")

    def __init__(self) -> None:
        super().__init__()
        self.all_classic: list[ClassicClient] = []

    def _start_classic(self, is_cooperative: bool) -> ClassicClient:
        client = ClassicClient(is_cooperative)
        self.all_classic.append(client)
        return client

    @initialize(target=classic_clients)
    def start_classic(self) -> MultipleResults[ClassicClient]:
        """The first one owns every partition of a group that was upgraded."""
        clients = [self._start_classic(each) for each in (True, False, True)]
        founder = self._start(None)
        self._heartbeat(founder, True)
        self._step(clients[0])
        self.leave(founder)
        for _ in range(4):
            self._step(clients[0])
        return multiple(*clients)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.driver.coordinator.find("g")
        return group if group is not None and group.members else None

    @rule(client=classic_clients)
    def step(self, client: ClassicClient) -> None:
        self._step(client)

    @rule(steps=st.integers(1, 3), then_heartbeat=st.booleans())
    def all_step(self, steps: int, then_heartbeat: bool) -> None:
        for client in self.all_classic:
            for _ in range(steps):
                self._step(client)
        if then_heartbeat:
            self._heartbeat_twice()

    @rule()
    def join_and_heartbeat(self) -> None:
        """No client syncs: what is given away now must not be read by another one."""
        for client in self.all_classic:
            if not client.needs_sync:
                self._step(client)
        self._heartbeat_twice()

    def _heartbeat_twice(self) -> None:
        for client in self.all * 2:
            self._heartbeat(client, True)

    def _step(self, client: ClassicClient) -> None:
        group = self.group
        if group is None:
            return
        requests = ClassicRequests(self.driver.coordinator)
        if client.needs_join:
            error = self._join(client, group, requests)
        elif client.needs_sync:
            error = self._sync(client, group, requests)
        else:
            error = requests.heartbeat(
                group, client.member_id, None, client.generation, self.driver.now
            )
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            client.needs_join, client.needs_sync = True, False
        elif error in LOST:
            client.member_id, client.generation, client.owned = "", -1, frozenset()
            client.needs_join, client.needs_sync = True, False

    def _join(
        self, client: ClassicClient, group: ConsumerGroup, requests: ClassicRequests
    ) -> ErrorCode:
        if not client.is_cooperative:
            client.owned = frozenset()
        data = subscription(owned=tuple(sorted(client.owned)))
        request = Join(
            group_id="g", member_id=client.member_id, session_timeout_ms=20_000,
            rebalance_timeout_ms=60_000, protocols=(("range", data),), needs_member_id=False,
            reply=None,
        )  # fmt: skip
        answer, records = requests.join(group, request, self.driver.topics, self.driver.now)
        self.driver.store(records)
        if answer.error == ErrorCode.NONE:
            client.member_id, client.generation = answer.member_id, answer.generation
            client.needs_join, client.needs_sync = False, True
        return answer.error

    def _sync(
        self, client: ClassicClient, group: ConsumerGroup, requests: ClassicRequests
    ) -> ErrorCode:
        request = Sync(
            group_id="g", generation=client.generation, member_id=client.member_id, reply=None
        )
        answer = requests.sync(group, request, self.driver.topics, self.driver.now)
        if answer.error == ErrorCode.NONE:
            found = decode_assignment(answer.assignment).assigned_partitions
            given = frozenset(number for each in found for number in each.partitions)
            client.needs_join = client.is_cooperative and not client.owned <= given
            client.owned, client.needs_sync = given, False
        return answer.error

    @rule(client=classic_clients)
    def leave_classic(self, client: ClassicClient) -> None:
        if self.group is not None and client.member_id:
            client.owned = frozenset()
            leaving = [LeavingMember(client.member_id)]
            requests = ClassicRequests(self.driver.coordinator)
            self.driver.store(requests.leave(self.group, leaving, self.driver.now)[1])
            client.member_id, client.generation, client.needs_join = "", -1, True

    @invariant()
    def no_partition_has_owners_of_both_kinds(self) -> None:
        group = self.driver.coordinator.find("g")
        if group is None:
            return
        owned = [each.owned for each in self.all_classic if each.member_id in group.members]
        owned += [
            each.owned.get(A, frozenset()) for each in self.all if each.member_id in group.members
        ]
        assert sum(map(len, owned)) == len(frozenset().union(*owned))


TestMigrationModel = MigrationModel.TestCase
TestMigrationModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
