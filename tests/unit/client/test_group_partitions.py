"""Consumers of one group in one process share its partitions and pass them on in rebalances."""

import random
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Consumer, ConsumerBatch, Store, StoreConfig, TopicPartition
from kstore.coordinator.group import local_group
from kstore.errors import (
    CommitFailedError,
    GroupConflictError,
    InvalidConfigError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)

PARTITIONS, RECORDS = 4, 10  # of each partition
TPS = frozenset(TopicPartition("t", n) for n in range(PARTITIONS))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        topic = opened.create_topic("t", PARTITIONS)
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                topic[partition].append(b"%d" % number)
        yield opened


def follow(consumer: Consumer) -> None:
    """What a poll does before it reads."""
    with consumer._lock:
        consumer._partitions.follow(consumer._metadata)


def balance(*consumers: Consumer) -> None:
    """Let each consumer notice the rebalance, then install its assignment; nothing is read."""
    for each in (*consumers, *consumers):
        follow(each)


def read(consumer: Consumer) -> ConsumerBatch | None:
    return next(consumer.batches(0.0), None)


def test_members_share_the_partitions_as_consecutive_ranges(store: Store) -> None:
    with store.consumer("t", group="g") as one:
        assert one.assignment == TPS
        with store.consumer("t", group="g") as two:
            assert (one.assignment, two.assignment) == (TPS, frozenset())  # until one polls
            balance(one, two)
            assert sorted([sorted(one.assignment), sorted(two.assignment)]) == [
                [("t", 0), ("t", 1)],
                [("t", 2), ("t", 3)],
            ]
            with store.consumer("t", group="g") as three:
                balance(one, two, three)
                parts = [one.assignment, two.assignment, three.assignment]
                assert sorted(map(len, parts)) == [1, 1, 2]
                assert frozenset().union(*parts) == TPS
        balance(one)
        assert one.assignment == TPS


def test_members_of_different_topics_get_what_they_subscribe_to(store: Store) -> None:
    store.create_topic("u", 2)
    with store.consumer("t", group="g") as one, store.consumer("t", "u", group="g") as two:
        balance(one, two)
        assert {tp.topic for tp in one.assignment} == {"t"}
        assert {("u", 0), ("u", 1)} <= two.assignment
        assert len(one.assignment) == len(two.assignment) - 2 == 2


def test_a_partition_that_stays_keeps_its_position(store: Store) -> None:
    with store.consumer("t", group="g", max_poll_records=3) as one:
        for tp in TPS:
            one.seek(tp, 4)
        with store.consumer("t", group="g") as two:
            balance(one, two)
            assert [one.position(tp) for tp in one.assignment] == [4, 4]  # nothing is committed
            assert [two.position(tp) for tp in two.assignment] == [0, 0]


def test_a_member_that_missed_a_generation_does_not_keep_its_position(
    store: Store,
) -> None:
    with store.consumer("t", group="g") as one, store.consumer("t", group="g") as two:
        balance(one, two)
        mine = one.assignment
        for tp in mine:
            one.seek(tp, 4)
        others = [store.consumer("t", group="g") for _ in range(2)]
        for each in (one, two, *others):  # one gives up, and does not look at what it gets
            follow(each)
        had: set[TopicPartition] = set()
        for each in (two, *others):
            assert len(each.poll(max_records=100)) == 1
            had |= each.assignment
            each.commit()
        for each in others:
            each.close()
        balance(two, one)
        assert one.assignment == mine
        assert {one.position(tp) for tp in mine & had} == {RECORDS}


def test_a_batch_can_be_committed_until_its_partition_is_given_up(store: Store) -> None:
    with store.consumer("t", group="g") as one:
        batch = read(one)
        assert batch is not None
        tp = TopicPartition(batch.topic, batch.partition)
        with store.consumer("t", group="g") as two:
            assert two.poll() == {}
            with batch:  # the group waits for its consumer
                pass
            assert one.committed(tp) == RECORDS
            balance(one, two)
            owner = one if tp in one.assignment else two
            assert owner.position(tp) == RECORDS


def given_up(store: Store, one: Consumer) -> tuple[ConsumerBatch, Consumer]:
    """A batch of a partition that another consumer got meanwhile, and that consumer."""
    held = list(one.batches(0.0))
    two = store.consumer("t", group="g")
    balance(one, two)
    return next(each for each in held if (each.topic, each.partition) in two.assignment), two


def test_a_commit_for_a_moved_partition_is_refused_and_its_new_owner_reads_the_batch(
    store: Store,
) -> None:
    with store.consumer("t", group="g") as one:
        batch, two = given_up(store, one)
        tp = TopicPartition(batch.topic, batch.partition)
        with two:
            with (
                pytest.raises(CommitFailedError, match=rf"t-{tp.partition}\): a rebalance has"),
                batch,
            ):
                pass
            with pytest.raises(CommitFailedError, match="nothing is committed for group 'g'"):
                one.commit({tp: 5})
            with pytest.raises(UnknownTopicOrPartitionError):
                one.commit({("t", 9): 5})
            with pytest.raises(RuntimeError), batch:
                raise RuntimeError
            assert one.committed(tp) is None
            assert len(two.poll(max_records=100)[tp]) == RECORDS
            two.commit()
        balance(one)
        with pytest.raises(CommitFailedError), batch:  # the partition is back, at another position
            pass
        assert (one.position(tp), one.committed(tp)) == (RECORDS, RECORDS)


def test_after_a_commit_in_on_revoke_no_record_is_read_again(store: Store) -> None:
    calls: list[tuple[str, int]] = []

    def revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.commit()
        calls.append(("revoke", len(partitions)))

    def assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assert consumer.assignment == set(partitions)
        calls.append(("assign", len(partitions)))

    with store.consumer("t", group="g", on_revoke=revoke, on_assign=assign) as one:
        assert len(one.poll(max_records=100)) == PARTITIONS
        with store.consumer("t", group="g") as two:
            balance(one, two)
            assert two.poll() == one.poll() == {}
    assert calls == [("assign", 4), ("revoke", 4), ("assign", 2), ("revoke", 2)]


def test_a_consumer_that_does_not_poll_loses_its_partitions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(local_group, "monotonic", lambda: now)
    lost: list[TopicPartition] = []
    settings = {"max_poll_interval_ms": 60_000}
    one = store.consumer("t", group="g", on_lost=lambda _, tps: lost.extend(tps), **settings)
    batch = read(one)
    assert batch is not None
    with one, store.consumer("t", group="g", **settings) as two:
        now = 59.0
        assert two.poll() == {}
        now = 61.0
        assert sum(map(len, two.poll(max_records=100).values())) == PARTITIONS * RECORDS
        assert two.assignment == TPS
        with (
            pytest.raises(CommitFailedError, match="did not poll for max_poll_interval_ms") as it,
            batch,
        ):
            pass
        assert it.value.code == 25
        two.commit()
        balance(one, two)
        assert sorted(lost) == sorted(TPS)
        assert len(one.assignment) == 2
        assert one.poll() == {}


def test_an_error_in_on_revoke_is_raised_by_only_one_poll(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(local_group, "monotonic", lambda: now)
    settings = {"max_poll_interval_ms": 60_000}
    one = store.consumer("t", group="g", on_revoke=lambda one, _: one.commit(), **settings)
    assert len(one.poll(max_records=100)) == PARTITIONS
    with store.consumer("t", group="g", **settings) as two:
        now = 61.0
        assert len(two.poll(max_records=100)) == PARTITIONS
    with pytest.raises(CommitFailedError):  # it may not commit what it has lost
        one.poll()
    assert one.assignment == frozenset()
    assert sum(map(len, one.poll(max_records=100).values())) == PARTITIONS * RECORDS
    one.close()
    assert {one.offset for one in store.group("g").offsets.values()} == {RECORDS}


def test_partitions_that_are_added_are_shared_and_read_from_their_beginning(store: Store) -> None:
    with (
        store.consumer("t", group="g", auto_offset_reset="latest") as one,
        store.consumer("t", group="g", auto_offset_reset="latest") as two,
    ):
        balance(one, two)
        store.add_partitions("t", 6)
        for partition in (4, 5):
            store["t"][partition].append(b"first")
        balance(one, two)
        assert one.assignment | two.assignment == TPS | {("t", 4), ("t", 5)}
        found = {**one.poll(), **two.poll()}
        assert set(found) == {("t", 4), ("t", 5)}


def test_a_dropped_member_leaves(store: Store) -> None:
    with store.consumer("t", group="g") as one:
        two = store.consumer("t", group="g")
        balance(one, two)
        with pytest.warns(ResourceWarning, match="was not closed"):
            del two
        balance(one)
        assert one.assignment == TPS


def test_a_member_may_be_collected_on_a_thread_that_holds_the_groups_lock(store: Store) -> None:
    """A finalizer runs anywhere: here while the group's lock is held by the same thread."""
    with store.consumer("t", group="g") as one:
        kept = [store.consumer("t", group="g")]

        def collect() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                kept.clear()

        one._partitions._local.submit(collect)
        balance(one)
        assert one.assignment == TPS


def test_a_consumer_with_an_assignment_does_not_share_it(store: Store) -> None:
    with store.consumer(group="g", assignment=[("t", 0)]), pytest.raises(GroupConflictError):
        store.consumer("t", group="g")
    with store.consumer("t", group="g") as one:
        with pytest.raises(GroupConflictError, match="in this process reads partition t-3"):
            store.consumer(group="g", assignment=[("t", 3)])
        with pytest.raises(InvalidConfigError, match="the group assigns"):
            one.assign([("t", 0)])
        with pytest.raises(NonEmptyGroupError):
            store.alter_group_offsets("g", "latest")
    store.alter_group_offsets("g", {("t", 0): 1})


def test_a_member_waits_for_the_open_transaction_of_another(store: Store) -> None:
    with (
        store.consumer("t", group="g") as one,
        store.transactional_producer("id") as producer,
    ):
        assert len(one.poll(max_records=100)) == PARTITIONS
        producer.begin_transaction()
        producer.send_offsets_to_transaction(one)
        with store.consumer("t", group="g") as two:
            balance(one, two)
            assert two.poll(max_records=100) == {}  # not from the beginning
            for tp in two.assignment:
                with pytest.raises(UnstableOffsetCommitError, match="transaction"):
                    two.position(tp)
            producer.commit_transaction()
            assert two.poll(max_records=100) == {}
            assert {two.position(tp) for tp in two.assignment} == {RECORDS}


def test_threads_read_each_record_once(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    start = threading.Barrier(3)

    def work() -> None:
        start.wait()
        with store.consumer("t", group="g", max_poll_records=2) as consumer:
            while len(seen) < PARTITIONS * RECORDS:
                for batch in consumer.batches(0.0):
                    with batch:
                        seen.extend((batch.partition, record.offset) for record in batch)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert sorted(seen) == [(p, n) for p in range(PARTITIONS) for n in range(RECORDS)]


class Model:
    """Random members of a group; each commit of a partition must continue the previous one."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.members: list[Consumer] = []
        self.held: dict[int, list[ConsumerBatch]] = defaultdict(list)
        self.done: dict[int, int] = defaultdict(int)  # by partition: the end of what is committed
        self.refused = 0

    def step(self) -> None:
        act = self.random.choice(
            [self.read, self.read, self.read, self.join, self.end, self.append]
        )
        act()
        owned = [tp for each in self.members for tp in each.assignment]
        assert len(owned) == len(set(owned)), "a partition with two owners"

    def join(self) -> None:
        if len(self.members) < 4:
            self.members.append(self.store.consumer("t", group="g", max_poll_records=3))

    def end(self) -> None:
        if self.members:
            member = self.members.pop(self.random.randrange(len(self.members)))
            self.held.pop(id(member), None)  # these records were not processed
            if self.random.random() < 0.5:
                member.close()
            else:
                del member

    def append(self) -> None:
        partition = self.random.randrange(len(self.store["t"]))
        self.store["t"][partition].append(b"more")
        if self.random.random() < 0.05 and len(self.store["t"]) < 8:
            self.store.add_partitions("t", len(self.store["t"]) + 1)

    def read(self, *, holds: bool = True) -> None:
        if not self.members:
            return
        member = self.random.choice(self.members)
        held = self.held[id(member)]
        batch = read(member)
        if batch is not None:
            held.append(batch)
        if not holds or self.random.random() < 0.7:
            while held:
                self.commit(held.pop(0))

    def commit(self, batch: ConsumerBatch) -> None:
        try:
            with batch:
                pass
        except CommitFailedError:
            self.refused += 1
            return
        assert batch.start_offset == self.done[batch.partition], "lost or doubled"
        self.done[batch.partition] = batch.stop_offset


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_random_members_commit_each_record_once(store: Store, seed: int) -> None:
    model = Model(store, seed)
    for _ in range(150):
        model.step()
    model.join()
    ends = {log.partition: log.end_offset for log in store["t"] if log.end_offset}
    for _ in range(2_000):
        model.read(holds=False)
        if model.done == ends:
            break
    assert model.done == ends
    for each in model.members:
        each.close()


def test_the_model_meets_refused_commits(store: Store) -> None:
    """Without any, the test above would prove little."""
    model = Model(store, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(400):
            model.step()
    for each in model.members:
        each.close()
    assert model.refused > 0
