"""Random members of a consumer group (KIP-848), lost answers, silence and restarts of the broker.

A client owns what its last answer gave it until it gives that up. No two clients that the
coordinator counts as members own the same partition.
"""

from dataclasses import dataclass, field
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

from kstore.coordinator.group.consumer_events import HeartbeatAnswer
from kstore.coordinator.group.consumer_member import partitions_of
from kstore.protocol.error_codes import ErrorCode
from unit.coordinator.test_consumer_coordinator import JOIN, Driver, topics

Owned = dict[bytes, frozenset[int]]
LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)  # fmt: skip


@dataclass(eq=False)
class Client:
    """A consumer as it sees itself. ``is_sure`` is False after a lost answer."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    is_sure: bool = False
    has_left: bool = False
    topics: tuple[str, ...] = ("a",)


class ConsumerModel(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.ids = count()
        self.all: list[Client] = []
        self.unanswered: dict[bytes, bytes] | None = None  # the log before a lost answer

    def _start(self, instance: str | None) -> Client:
        client = Client(f"m{next(self.ids)}", instance)
        self.all.append(client)
        return client

    @initialize(target=clients)
    def start_some(self) -> MultipleResults[Client]:
        return multiple(*[self._start(instance) for instance in (None, None, "i")])

    @rule(target=clients, instance=st.sampled_from([None, "i"]))
    def start(self, instance: str | None) -> Client:
        return self._start(instance)

    @rule(client=clients, is_answered=st.sampled_from([True, True, False]))
    def heartbeat(self, client: Client, is_answered: bool) -> None:
        self._heartbeat(client, is_answered)

    @rule(client=clients, is_answered=st.sampled_from([True, True, False]))
    def heartbeat_more_often(self, client: Client, is_answered: bool) -> None:
        self._heartbeat(client, is_answered)

    def _heartbeat(self, client: Client, is_answered: bool) -> None:
        if client.has_left:
            return
        before = dict(self.driver.records)
        if client.epoch == 0:
            answer = self.driver.join(
                client.member_id, instance_id=client.instance_id, subscribed_topics=client.topics
            )
        elif client.is_sure:
            answer = self.driver.beat(
                client.member_id, client.epoch, instance_id=client.instance_id, owned=client.owned
            )
        else:
            answer = self.driver.beat(
                client.member_id,
                client.epoch,
                instance_id=client.instance_id,
                **{**JOIN, "owned": client.owned, "subscribed_topics": client.topics},
            )
        self.unanswered = None if is_answered else before
        client.is_sure = is_answered
        if is_answered:
            self._take(client, answer)

    @rule(client=clients)
    def heartbeat_without_news(self, client: Client) -> None:
        if client.is_sure and client.epoch > 0 and not client.has_left:
            beat = client.member_id, client.epoch
            answer = self.driver.beat(*beat, instance_id=client.instance_id)
            self.unanswered = None
            self._take(client, answer)

    def _take(self, client: Client, answer: HeartbeatAnswer) -> None:
        if answer.error in LOST:
            client.epoch, client.owned = 0, {}
        elif answer.error == ErrorCode.NONE:
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                client.owned = dict(answer.assignment)

    @rule()
    def all_heartbeat(self) -> None:
        for client in self.all:
            self._heartbeat(client, True)

    @rule(client=clients, names=st.sampled_from([("a",), ("b",), ("a", "b")]))
    def subscribe(self, client: Client, names: tuple[str, ...]) -> None:
        client.topics, client.is_sure = names, False

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        if client.epoch > 0:
            client.has_left, client.owned = True, {}  # it gives up before it says so
            epoch = -1 if client.instance_id is None else -2
            self.driver.beat(client.member_id, epoch, instance_id=client.instance_id)

    @rule(counts=st.sampled_from([(4, 2), (5, 2), (0, 3), (9, 1)]))
    def change_topics(self, counts: tuple[int, int]) -> None:
        self.driver.topics = topics(a=counts[0], b=counts[1])

    @rule(seconds=st.sampled_from([3.0, 20.0, 46.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.driver.pass_time(seconds)

    @rule(keeps_unanswered=st.booleans())
    def crash(self, keeps_unanswered: bool) -> None:
        if self.unanswered is not None and not keeps_unanswered:
            self.driver.records = self.unanswered
        self.unanswered = None
        self.driver.restart()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.driver.coordinator.find("g")
        owners: dict[tuple[bytes, int], str] = {}
        for client in self.all:
            if group is not None and client.member_id in group.members:
                for partition in partitions_of(client.owned):
                    owner = owners.setdefault(partition, client.member_id)
                    assert owner == client.member_id

    @invariant()
    def holders_are_true(self) -> None:
        group = self.driver.coordinator.find("g")
        if group is not None:
            held = {
                partition: member.member_id
                for member in group.members.values()
                for partition in partitions_of(member.held)
            }
            assert group.owners == held


TestConsumerModel = ConsumerModel.TestCase
TestConsumerModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
