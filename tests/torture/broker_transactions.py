"""Transactions of a broker whose acknowledgements are durable, on the disk of a :class:`World`.

The requests that a client sends: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, Produce,
TxnOffsetCommit and EndTxn. Before each the witness hears what is tried, after each what was
answered.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import kstore
from kstore import Store
from kstore._native.append.encode import BatchBuffer
from kstore.broker import transaction_service
from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from support.waiting import until
from support.wire_client import Connection
from torture.checks import TMPFS, check_transactions, expect, rows_of
from torture.witness import TopicPartition, Witness
from torture.world import GROUP, QUIET, START_OF_TIME, World, paths_of

NAME = "copier-1"  # the transactional id
BOTH = [("t", 0), ("t", 1)]
_TRANSACTIONAL = 0x10
_LATER_MS = START_OF_TIME + 3_600_000  # every transaction has exceeded its timeout
_TIMEOUT_MS = 60_000
# Loading, not yet the coordinator, the last transaction is not complete, an offset is not stable.
_SOON = frozenset((14, 16, 51, 88))
_SETTINGS = {
    "kstore.acks.durable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "5",
}


def _small() -> Any:
    """Each state has the broker's reserve of space."""
    return patch("kstore.store.space_reserve.MOST_BYTES", 4096)


class TransactionClient:
    """The producer of one transactional id, at a broker of this process."""

    def __init__(self, broker: kstore.Broker) -> None:
        self._connection = Connection(broker.bootstrap_servers)
        self._mine: dict[str, Any] = {"transactional_id": NAME}

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        """Take the transactional id, which aborts what an earlier producer has left open."""
        fields = {"transactional_id": NAME, "transaction_timeout_ms": _TIMEOUT_MS}
        found = self._repeated(
            lambda: self._connection.ask(ApiKey.INIT_PRODUCER_ID, 4, **fields),
            lambda answer: [answer.error_code],
        )
        self._mine["producer_id"] = found.producer_id
        self._mine["producer_epoch"] = found.producer_epoch

    def _repeated(self, ask: Callable[[], Any], codes: Callable[[Any], Iterable[int]]) -> Any:
        """The first answer that is not about what is not ready yet. AssertionError for an error."""
        found: list[Any] = []

        def is_answered() -> bool:
            found.append(ask())
            return not _SOON & set(codes(found[-1]))

        until(is_answered)
        assert not any(codes(found[-1])), found[-1]
        return found[-1]

    def add_partitions(self, topic_partitions: list[TopicPartition]) -> None:
        fields = {f"v3_and_below_{name}": value for name, value in self._mine.items()}
        numbers = [number for _, number in topic_partitions]
        topics = [{"name": topic_partitions[0][0], "partitions": numbers}]
        self._repeated(
            lambda: self._connection.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN, 3, **fields, v3_and_below_topics=topics
            ),
            lambda answer: [
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ],
        )

    def produce(
        self, tp: TopicPartition, base: int, values: list[bytes], sequence: int | None = None
    ) -> None:
        """``sequence``: of a transaction's records. AssertionError where they are not at base."""
        buffer = BatchBuffer()
        if sequence is not None:
            epoch = self._mine["producer_epoch"]
            buffer.set_producer(self._mine["producer_id"], epoch, sequence)
        for value in values:
            buffer.put(value, None, None, START_OF_TIME + base)
        records = buffer.to_bytes(0, -1, 0 if sequence is None else _TRANSACTIONAL)
        topics = [{"name": tp[0], "partition_data": [{"index": tp[1], "records": records}]}]
        answer = self._connection.ask(
            ApiKey.PRODUCE, 8,
            transactional_id=None if sequence is None else NAME,
            acks=-1, timeout_ms=30_000, topic_data=topics,
        )  # fmt: skip
        found = answer.responses[0].partition_responses[0]
        assert (found.error_code, found.base_offset) == (0, base), found

    def commit_offset(self, tp: TopicPartition, offset: int) -> None:
        added = self._connection.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, **self._mine, group_id=GROUP)
        assert added.error_code == 0, added
        partitions = [{"partition_index": tp[1], "committed_offset": offset}]
        topics = [{"name": tp[0], "partitions": partitions}]
        self._repeated(
            lambda: self._connection.ask(
                ApiKey.TXN_OFFSET_COMMIT, 3, **self._mine, group_id=GROUP, topics=topics
            ),
            lambda answer: [answer.topics[0].partitions[0].error_code],
        )

    def end(self, *, commit: bool) -> None:
        answer = self._connection.ask(ApiKey.END_TXN, 3, **self._mine, committed=commit)
        assert answer.error_code == 0, answer

    def committed(self, tp: TopicPartition) -> int | None:
        """The group's offset, once no transaction may change it.

        Its marker may be the last one of its transaction to be written.
        """
        topics = [{"name": tp[0], "partition_indexes": [tp[1]]}]
        fields = {"group_id": GROUP, "topics": topics, "require_stable": True}
        answer = self._repeated(
            lambda: self._connection.ask(ApiKey.OFFSET_FETCH, 7, **fields),
            lambda answer: [
                answer.error_code,
                *(each.error_code for topic in answer.topics for each in topic.partitions),
            ],
        )
        found = answer.topics[0].partitions[0]
        return None if found.committed_offset < 0 else int(found.committed_offset)


def transact_at_broker(world: World, ends: tuple[bool | None, ...]) -> None:
    """Transactions with records in two partitions and an offset, between records without one.

    ``ends``: of each, whether it is committed; None: it stays open.
    """
    store = world.store
    assert store is not None
    with _small(), kstore.Broker(store, port=0, settings=_SETTINGS) as broker:
        client = TransactionClient(broker)
        client.begin()
        sequences = dict.fromkeys(BOTH, 0)
        for commit in ends:
            _produce(world, client, BOTH[0], None)
            _transact(world, client, sequences, commit)
            if commit is not None:
                until(lambda: not _hanging(store), said=lambda: _hanging(store))
                for tp in BOTH:
                    world.say("markers", tp, store[tp[0]][tp[1]].end_offset)
        client.close()


def _produce(
    world: World, client: TransactionClient, tp: TopicPartition, sequence: int | None
) -> list[bytes]:
    assert world.store is not None
    base = world.store[tp[0]][tp[1]].end_offset
    values = world._values(tp, base, 2, 40)
    client.produce(tp, base, values, sequence)
    world._in(tp, values)
    world.say("flushed", tp, base + len(values))
    return values


def _transact(
    world: World,
    client: TransactionClient,
    sequences: dict[TopicPartition, int],
    commit: bool | None,
) -> None:
    number = len(world.witness.transactions)
    parts: dict[TopicPartition, list[bytes]] = {tp: [] for tp in BOTH}

    def note(state: str) -> None:
        world.say("transaction", number, state, parts, number + 1)

    note("open")
    client.add_partitions(BOTH)
    for tp in BOTH:
        values = _produce(world, client, tp, sequences[tp])
        sequences[tp] += len(values)
        parts[tp] += values
    client.commit_offset(BOTH[0], number + 1)
    if commit is None:
        return
    note("committing" if commit else "aborting")
    client.end(commit=commit)
    note("committed" if commit else "aborted")


def _hanging(store: Store) -> list[tuple[TopicPartition, int, int]]:
    """The partitions with a last stable offset before their end, and both."""
    logs = {tp: store[tp[0]][tp[1]] for tp in BOTH}
    found = [(tp, log.last_stable_offset, log.end_offset) for tp, log in logs.items()]
    return [each for each in found if each[1] != each[2]]


def check_at_broker(root: str, witness: Witness, *, by_timeout: bool) -> None:
    """A broker opens what a crash left; raises Violation. The directory is changed by it.

    ``by_timeout``: the broker aborts what is open, since its time is over; otherwise the next
    producer with the transactional id has it aborted.
    """
    names = ("t", "__transaction_state", "__consumer_offsets")
    if any(witness.topics.get(name, ("",))[0] != "live" for name in names):
        return
    paths = paths_of(root, witness.dirs)
    before = _shown_to_a_reader(paths)
    with (
        Store(paths, config=QUIET, files=TMPFS) as store,
        _small(),
        patch.object(transaction_service, "_LOADING_SECONDS", 0.005),
        patch.object(transaction_service, "now_ms", lambda: _LATER_MS),
        kstore.Broker(store, port=0, settings=_settings(by_timeout=by_timeout)) as broker,
    ):
        client = TransactionClient(broker)
        try:
            if not by_timeout:
                client.begin()
            until(lambda: not _hanging(store), said=lambda: ("transactions hang", _hanging(store)))
            check_transactions(store, witness, lambda: client.committed(BOTH[0]))
        finally:
            client.close()
        after = _shown(store)
        for tp in BOTH:
            lost = before.get(tp, set()) - after[tp]
            expect(not lost, tp, "a reader saw what was then aborted:", lost)
            found = dict(rows_of(store[tp[0]][tp[1]]))
            history = witness.log(tp)
            for offset in set(range(witness.floor(tp, power=True))) - history.may_lack:
                same = found.get(offset) == history.acked[offset - history.base]
                expect(same, tp, "the broker has lost offset", offset)


def _settings(*, by_timeout: bool) -> dict[str, str]:
    name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    return {**_SETTINGS, name: "5" if by_timeout else "3600000"}


def _shown(store: Store) -> dict[TopicPartition, set[bytes | None]]:
    views = {tp: store[tp[0]][tp[1]].view(isolation="read_committed") for tp in BOTH}
    return {tp: {record.value for record in view} for tp, view in views.items()}


def _shown_to_a_reader(paths: list[str]) -> dict[TopicPartition, set[bytes | None]]:
    """Before anyone recovers. Torn records may stop a reader; what comes before it has shown."""
    found: dict[TopicPartition, set[bytes | None]] = {}
    with suppress(KStoreError), Store(paths, mode="r", config=QUIET) as store:
        for tp in BOTH:
            seen = found.setdefault(tp, set())
            with suppress(KStoreError):
                for record in store[tp[0]][tp[1]].view(isolation="read_committed"):
                    seen.add(record.value)
    return found
