"""Members of a group of a server that keep partitions through rebalances: the cooperative
assignor, and KIP-848."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode
from kstore.remote import groups
from kstore.remote.consumer_membership import ConsumerMembership
from kstore.remote.group_consumer import GroupConsumer
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition
from support.waiting import until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
KINDS: dict[str, dict[str, Any]] = {
    "cooperative": {"assignors": ("cooperative-sticky",)},
    "consumer": {"group_protocol": "consumer"},
}
ALL = [0, 1, 2, 3]
Join = Callable[..., "Member"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=SETTINGS) as broker:
        topic = broker.store.create_topic("t", partitions=4)
        for number in range(4):
            topic[number].extend([b"%d" % each for each in range(3)])
        yield broker


class Member:
    """A consumer with its thread, its calls of the listener, and what it has read."""

    def __init__(self, broker: Broker, group: str, topic: str, **options: Any) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.read: list[tuple[int, bytes | None]] = []
        self.problem: BaseException | None = None
        self._store = RemoteStore(broker.bootstrap_servers)
        self.consumer = GroupConsumer(
            self._store, group, lambda: [topic], "earliest", "read_uncommitted",
            on_assigned=self._noted("assigned"), on_revoked=self._noted("revoked"), **options,
        )  # fmt: skip
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _noted(self, name: str) -> Callable[[Sequence[TopicPartition]], None]:
        return lambda found: self.events.append((name, [tp.partition for tp in found]))

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for batch in self.consumer.batches(0.02):
                    self.read += [(batch.partition, record.value) for record in batch]
                    self.consumer.commit({(batch.topic, batch.partition): batch.stop_offset})
            self.consumer.close()
        except BaseException as error:
            self.problem = error

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._store.close()


@pytest.fixture
def join(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Join]:
    """Opens a member of a group of the test's own, which is closed at its end."""
    opened: list[Member] = []

    def join(topic: str = "t", **options: Any) -> Member:
        opened.append(Member(broker, request.node.name, topic, **options))
        return opened[-1]

    yield join
    for each in opened:
        each.close()


def wait_until(met: Callable[[], bool], *members: Member) -> None:
    def is_met() -> bool:
        problems = [each.problem for each in members if each.problem]
        assert not problems
        return met()

    until(is_met, said=lambda: [each.events for each in members])


@pytest.mark.parametrize("kind", KINDS)
def test_what_stays_is_not_given_up(kind: str, join: Join) -> None:
    first = join(**KINDS[kind])
    wait_until(lambda: len(first.read) == 12, first)
    second = join(**KINDS[kind])
    wait_until(lambda: len(second.read) == 0 and ("assigned", [2, 3]) in second.events, second)
    assert first.events[:2] == [("assigned", ALL), ("revoked", [2, 3])]
    assert {tuple(numbers) for _, numbers in first.events[2:]} <= {()}
    second.close()
    wait_until(lambda: first.events[-1] == ("assigned", [2, 3]), first)
    # It may have got nothing first: the other member gives up its partitions in between.
    assert next(event for event in second.events if event[1]) == ("assigned", [2, 3])
    assert second.events[-1] == ("revoked", [2, 3])
    first.close()
    assert first.events[-1] == ("revoked", ALL)
    assert len(first.read) == 12, "what stayed was not read again"


@pytest.mark.filterwarnings("ignore:the group .* rebalanced before the commit")
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_removed_member_had_is_lost(kind: str, join: Join) -> None:
    member = join(**KINDS[kind])
    wait_until(lambda: len(member.read) == 12, member)
    membership = member.consumer._membership
    if isinstance(membership, ConsumerMembership):
        membership.epoch += 7
    else:
        membership.generation += 7
        membership._next_heartbeat = 0
    wait_until(lambda: len(member.events) == 3, member)
    assert member.events == [("assigned", ALL), ("revoked", ALL), ("assigned", ALL)]


def test_a_commit_with_another_epoch_is_refused(broker: Broker) -> None:
    with RemoteStore(broker.bootstrap_servers) as store:
        member = ConsumerMembership(store.cluster, "commits")
        owned = member.join(["t"])
        member.take(owned, ())
        assert member.commit({owned[0]: 1})
        member.epoch += 7
        assert not member.commit({owned[0]: 2})
        assert not member.is_current()
        assert not member.keeps_partitions
        assert groups.committed_offsets(store.cluster, "commits")[owned[0]].offset == 1
        assert member.join(["t"]) == owned
        member.leave()
        member.leave()
        assert groups.describe_group(store.cluster, "commits").members == ()


def test_static_members_keep_their_partitions(broker: Broker) -> None:
    with RemoteStore(broker.bootstrap_servers) as store:
        first, again = (
            ConsumerMembership(store.cluster, "static", group_instance_id="i") for _ in range(2)
        )
        owned = first.join(["t"])
        first.take(owned, ())
        with pytest.raises(KStoreError) as error:
            again.join(["t"])
        assert error.value.code == ErrorCode.UNRELEASED_INSTANCE_ID
        first.leave()
        (member,) = groups.describe_group(store.cluster, "static").members
        assert member.instance_id == "i"
        assert again.join(["t"]) == owned


def test_the_assignor_is_the_coordinators(broker: Broker) -> None:
    with RemoteStore(broker.bootstrap_servers) as store:
        member = ConsumerMembership(store.cluster, "ranges", assignor="range")
        member.join(["t"])
        assert groups.describe_group(store.cluster, "ranges").assignor == "range"
        with pytest.raises(KStoreError, match="Supported assignors: uniform, range"):
            ConsumerMembership(store.cluster, "nope", assignor="nope").join(["t"])


def test_a_topic_that_is_created_later(broker: Broker, join: Join) -> None:
    member = join("later", **KINDS["consumer"])
    wait_until(lambda: member.events == [("assigned", [])], member)
    broker.store.create_topic("later")[0].append(b"v")
    wait_until(lambda: member.read == [(0, b"v")], member)


def test_another_subscription(broker: Broker) -> None:
    broker.store.create_topic("other")
    with RemoteStore(broker.bootstrap_servers) as store:
        member = ConsumerMembership(store.cluster, "changes")
        member.take(member.join(["t"]), ())

        def has_joined() -> bool:
            found = member.join(["other"])
            if found != (TopicPartition("other", 0),) and not member.is_current():
                member.take(found, ())
            return found == (TopicPartition("other", 0),)

        until(has_joined)
