"""The transaction coordinator: a state machine, and Kafka's records of its states."""

import json
from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstore
from kstore.coordinator.transaction.embedded_coordinator import LAST_EPOCH, EmbeddedCoordinator
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    TransactionState,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from kstore.errors import (
    ConcurrentTransactionsError,
    CorruptRecordError,
    InvalidConfigError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from kstore.protocol.kafka_messages import decode_prefixed

A, B = ("a", 0), ("b", 3)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


class Hands:
    """Effects that remember what was asked, and fail where a test says."""

    def __init__(self) -> None:
        self.done: list[tuple] = []
        self.now = 1000
        self.ids = iter(range(2**62, 2**63))
        self.failing = ""
        self.stored: list[TransactionMetadata] = []
        self.marked: list[int] = []  # with the times of these decisions

    def _do(self, *what) -> None:
        if what[0] == self.failing:
            raise OSError(what[0])
        self.done.append(what)

    def take(self) -> list[tuple]:
        done, self.done = self.done, []
        return done

    def now_ms(self) -> int:
        return self.now

    def new_producer_id(self) -> int:
        return next(self.ids)

    def store(self, metadata: TransactionMetadata) -> None:
        self.stored.append(metadata)
        self._do("store", metadata.state, metadata.producer_epoch, sorted(metadata.partitions))

    def flush_state(self, transactional_id: str) -> None:
        self._do("flush state")

    def forget(self, transactional_id: str) -> None:
        self._do("forget", transactional_id)

    def flush(self, partition_keys: Iterable[PartitionKey]) -> None:
        self._do("flush", sorted(partition_keys))

    def mark(
        self, partition_key: PartitionKey, metadata: TransactionMetadata, *, commit: bool
    ) -> None:
        self.marked.append(metadata.last_update_ms)
        self._do("mark", partition_key, metadata.producer_epoch, commit)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def coordinator(hands: Hands) -> EmbeddedCoordinator:
    return EmbeddedCoordinator(hands, max_timeout_ms=900_000)


def begun(
    coordinator: EmbeddedCoordinator, hands: Hands, *partition_keys: PartitionKey
) -> tuple[int, int]:
    owner = coordinator.init("t", 60_000)
    coordinator.add_partitions("t", *owner, partition_keys)
    hands.take()
    return owner


# --- the order of what is done ----------------------------------------------------------------


def test_a_commit_is_decided_on_disk_between_records_and_markers(coordinator, hands) -> None:
    owner = begun(coordinator, hands, A, B)
    coordinator.end("t", *owner, commit=True)
    assert hands.take() == [
        ("flush", [A, B]),
        ("store", TransactionState.PREPARE_COMMIT, 0, [A, B]),
        ("flush state",),
        ("mark", A, 0, True),
        ("mark", B, 0, True),
        ("flush", [A, B]),
        ("store", TransactionState.COMPLETE_COMMIT, 0, []),
    ]


def test_a_commit_that_need_not_survive_a_power_cut_syncs_nothing(coordinator, hands) -> None:
    owner = begun(coordinator, hands, A)
    coordinator.end("t", *owner, commit=True, durable=False)
    assert [done[0] for done in hands.take()] == ["store", "mark", "store"]


def test_an_abort_syncs_nothing(coordinator, hands) -> None:
    owner = begun(coordinator, hands, A)
    coordinator.end("t", *owner, commit=False)
    assert hands.take() == [
        ("store", TransactionState.PREPARE_ABORT, 0, [A]),
        ("mark", A, 0, False),
        ("store", TransactionState.COMPLETE_ABORT, 0, []),
    ]


@pytest.mark.parametrize("step", [0, -50])
def test_every_decision_has_a_later_time_than_all_before_it(coordinator, hands, step) -> None:
    """It distinguishes the markers: a clock that stands or is set back changes nothing."""
    owner = coordinator.init("t", 60_000)
    times = []
    for _ in range(3):
        for operation in (
            lambda: coordinator.add_partitions("t", *owner, [A]),
            lambda: coordinator.end("t", *owner, commit=True),
        ):
            hands.now += step
            operation()
        times.append([m.last_update_ms for m in hands.stored[-3:]])
    found = [time for each in times for time in each]
    assert found == sorted(found)
    assert all(began < decided for began, decided, _ in times)
    assert hands.marked == [decided for _, decided, _ in times]


def test_an_epoch_is_on_disk_before_it_is_used(coordinator, hands) -> None:
    assert coordinator.init("t", 60_000) == (2**62, 0)
    assert hands.take() == [("store", TransactionState.EMPTY, 0, []), ("flush state",)]
    assert coordinator.init("t", 60_000) == (2**62, 1)
    assert hands.take() == [("store", TransactionState.EMPTY, 1, []), ("flush state",)]


def test_partitions_are_stored_once_before_they_are_written_to(coordinator, hands) -> None:
    owner = coordinator.init("t", 60_000)
    hands.take()
    coordinator.add_partitions("t", *owner, [A])
    coordinator.add_partitions("t", *owner, [A])
    hands.now += 5
    coordinator.add_partitions("t", *owner, [B, A])
    assert hands.take() == [
        ("store", TransactionState.ONGOING, 0, [A]),
        ("store", TransactionState.ONGOING, 0, [A, B]),
    ]
    assert coordinator["t"].start_ms == 1000
    assert coordinator["t"].last_update_ms == 1005


# --- who may ----------------------------------------------------------------------------------


def test_a_second_producer_fences_the_first(coordinator, hands) -> None:
    first = begun(coordinator, hands, A)
    second = coordinator.init("t", 60_000)
    assert hands.take() == [
        ("store", TransactionState.PREPARE_ABORT, 1, [A]),
        ("mark", A, 1, False),
        ("store", TransactionState.COMPLETE_ABORT, 1, []),
        ("store", TransactionState.EMPTY, 2, []),
        ("flush state",),
    ]
    for call in (
        lambda: coordinator.check("t", *first),
        lambda: coordinator.add_partitions("t", *first, [B]),
        lambda: coordinator.end("t", *first, commit=True),
        lambda: coordinator.end("t", *first, commit=False),
        lambda: coordinator.init("t", 1, producer_id=first[0], producer_epoch=first[1]),
    ):
        with pytest.raises(ProducerFencedError) as caught:
            call()
        assert caught.value.code == 90
    assert hands.take() == []
    coordinator.add_partitions("t", *second, [B])


def test_a_producer_may_raise_its_own_epoch(coordinator, hands) -> None:
    first = begun(coordinator, hands, A)
    again = coordinator.init("t", 1, producer_id=first[0], producer_epoch=first[1])
    assert again == (first[0], 2)


def test_an_unknown_transactional_id_is_refused(coordinator) -> None:
    for call in (
        lambda: coordinator.add_partitions("t", 1, 0, [A]),
        lambda: coordinator.end("t", 1, 0, commit=True),
    ):
        with pytest.raises(InvalidProducerIdMappingError) as caught:
            call()
        assert caught.value.code == 49
    with pytest.raises(InvalidConfigError):
        coordinator.init("", 60_000)


@pytest.mark.parametrize("timeout", [0, -1, 900_001])
def test_a_timeout_has_its_limits(coordinator, timeout: int) -> None:
    with pytest.raises(InvalidTransactionTimeoutError, match="900000") as caught:
        coordinator.init("t", timeout)
    assert caught.value.code == 50


def test_after_the_last_epoch_comes_a_new_producer_id(coordinator, hands) -> None:
    coordinator.load(TransactionMetadata("t", 5, LAST_EPOCH - 1, 1, TransactionState.EMPTY))
    assert coordinator.init("t", 60_000) == (5, LAST_EPOCH)
    assert coordinator.init("t", 60_000) == (2**62, 0)
    assert coordinator.knows(5)
    with pytest.raises(InvalidProducerIdMappingError):
        coordinator.check("t", 5, LAST_EPOCH)


def test_a_transaction_with_the_last_epoch_can_still_be_fenced(coordinator, hands) -> None:
    coordinator.load(
        TransactionMetadata("t", 5, LAST_EPOCH, 1, TransactionState.ONGOING, frozenset([A]))
    )
    assert coordinator.init("t", 60_000) == (2**62, 0)
    assert ("mark", A, LAST_EPOCH + 1, False) in hands.take()


# --- what may come after what -----------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_may_be_repeated_but_not_changed(coordinator, hands, commit: bool) -> None:
    owner = begun(coordinator, hands, A)
    coordinator.end("t", *owner, commit=commit)
    hands.take()
    coordinator.end("t", *owner, commit=commit)
    with pytest.raises(InvalidTxnStateError):
        coordinator.end("t", *owner, commit=not commit)
    assert hands.take() == []


def test_a_transaction_cannot_end_before_it_begins(coordinator) -> None:
    owner = coordinator.init("t", 60_000)
    for commit in (True, False):
        with pytest.raises(InvalidTxnStateError, match="EMPTY"):
            coordinator.end("t", *owner, commit=commit)


@pytest.mark.parametrize("failing", ["flush", "store", "flush state", "mark"])
def test_a_commit_that_failed_midway_can_be_retried(coordinator, hands, failing) -> None:
    owner = begun(coordinator, hands, A)
    hands.failing = failing
    with pytest.raises(OSError, match=failing):
        coordinator.end("t", *owner, commit=True)
    decided = failing in ("flush state", "mark")
    assert coordinator["t"].state is (
        TransactionState.PREPARE_COMMIT if decided else TransactionState.ONGOING
    )
    if decided:
        with pytest.raises(ConcurrentTransactionsError) as caught:
            coordinator.add_partitions("t", *owner, [B])
        assert caught.value.code == 51
        with pytest.raises(InvalidTxnStateError):
            coordinator.end("t", *owner, commit=False)
    hands.failing = ""
    hands.take()
    coordinator.end("t", *owner, commit=True)
    done = [each[0] for each in hands.take()]
    assert done.index("flush state") < done.index("mark")
    assert coordinator["t"].state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_transaction_that_was_decided_before_a_crash_is_finished(
    coordinator, hands, state
) -> None:
    coordinator.load(TransactionMetadata("t", 5, 3, 1, state, frozenset([A, B])))
    coordinator.load(TransactionMetadata("u", 6, 3, 1, TransactionState.ONGOING, frozenset([A])))
    coordinator.finish()
    marks = [done for done in hands.take() if done[0] == "mark"]
    commit = state is TransactionState.PREPARE_COMMIT
    assert marks == [("mark", partition_key, 3, commit) for partition_key in (A, B)]
    assert coordinator["u"].state is TransactionState.ONGOING
    assert not coordinator.is_open(5, A)
    assert coordinator.is_open(6, A)
    assert not coordinator.is_open(6, B)


def test_transactions_of_another_coordinator_are_not_changed_until_their_id_is_used(hands) -> None:
    coordinator = EmbeddedCoordinator(hands, max_timeout_ms=900_000, lowest_producer_id=2**62)
    for name, state in (
        ("p", TransactionState.PREPARE_COMMIT),
        ("o", TransactionState.ONGOING),
        ("e", TransactionState.EMPTY),
    ):
        coordinator.load(TransactionMetadata(name, 5, 3, 1, state, frozenset([A]), 0, 0))
    coordinator.finish()
    assert coordinator.abort_timed_out() == coordinator.expire(1) == []
    assert hands.take() == []
    assert coordinator.init("o", 60_000) == (2**62, 0)  # used here: aborted, then taken over
    assert ("mark", A, 4, False) in hands.take()
    assert coordinator.init("p", 60_000) == (2**62 + 1, 0)
    assert ("mark", A, 3, True) in hands.take()


def test_a_new_producer_finishes_what_was_decided(coordinator, hands) -> None:
    coordinator.load(
        TransactionMetadata("t", 5, 3, 1, TransactionState.PREPARE_COMMIT, frozenset([A]))
    )
    assert coordinator.init("t", 60_000) == (5, 4)
    assert ("mark", A, 3, True) in hands.take()


# --- time -------------------------------------------------------------------------------------


def test_a_transaction_beyond_its_timeout_is_aborted_and_its_producer_fenced(
    coordinator, hands
) -> None:
    owner = begun(coordinator, hands, A)
    hands.now += 60_000
    assert coordinator.abort_timed_out() == []
    hands.now += 1
    assert coordinator.abort_timed_out() == ["t"]
    assert ("mark", A, 1, False) in hands.take()
    with pytest.raises(ProducerFencedError):
        coordinator.end("t", *owner, commit=True)


def test_ids_at_rest_expire(coordinator, hands) -> None:
    begun(coordinator, hands, A)
    coordinator.init("u", 60_000)
    hands.take()
    hands.now += 99
    assert coordinator.expire(100) == []
    hands.now += 1
    assert coordinator.expire(100) == ["u"]  # that of "t" is running
    assert hands.take() == [("forget", "u")]
    assert [known.transactional_id for known in coordinator.all()] == ["t"]


# --- records ----------------------------------------------------------------------------------

metadatas = st.builds(
    TransactionMetadata,
    NAMES,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(1, 2**31 - 1),
    st.sampled_from(
        [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_ABORT]
    ),
    st.frozensets(st.tuples(NAMES, st.integers(0, 2**31 - 1)), max_size=6),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.just(-1),  # version 0 has no field for it
)


@given(metadatas)
def test_states_round_trip_and_kafka_s_definitions_read_them(metadata: TransactionMetadata) -> None:
    key, value = encode_key(metadata.transactional_id), encode_value(metadata)
    assert decode_key(key) == metadata.transactional_id
    assert decode_value(metadata.transactional_id, value) == metadata
    version, tree = decode_prefixed("TransactionLogValue", value)
    assert version == 0
    assert tree["producerId"] == metadata.producer_id
    assert tree["transactionStatus"] == metadata.state
    assert {
        (each["topic"], partition)
        for each in tree["transactionPartitions"]
        for partition in each["partitionIds"]
    } == metadata.partitions


def test_a_stored_transaction_has_kafkas_bytes() -> None:
    metadata = TransactionMetadata(
        "t", 258, 3, 60_000, TransactionState.ONGOING, frozenset([A]), 7, 6
    )
    assert encode_key("t").hex() == "0000000174"
    assert encode_value(metadata).hex() == (
        "0000" "0000000000000102" "0003" "0000ea60" "01" "00000001" "000161" "00000001" "00000000"
        "0000000000000007" "0000000000000006"
    )  # fmt: skip


def test_an_empty_state_has_null_partitions() -> None:
    value = encode_value(TransactionMetadata("t", 1, 0, 1, TransactionState.EMPTY))
    assert value[17:21] == b"\xff" * 4
    assert decode_value("t", value).partitions == frozenset()


@given(st.binary(max_size=80))
def test_any_bytes_are_a_state_or_an_error(data: bytes) -> None:
    with suppress(CorruptRecordError):
        assert isinstance(decode_key(data), str | None)
    with suppress(CorruptRecordError):
        assert isinstance(decode_value("t", data), TransactionMetadata)


def test_a_key_from_the_future_is_skipped() -> None:
    assert decode_key(b"\x00\x01what") is None


def test_states_that_kafka_wrote_are_decoded(broker_set, tmp_path) -> None:
    """As kstore's dump-log shows them, which is compared with Kafka's tool."""
    decoded = 0
    with kstore.open(broker_set.log_dir, mode="r") as store:
        if "__transaction_state" not in store:
            assert broker_set.name.startswith("zk-0.") or "2.8" in broker_set.name
            return
        for log in store["__transaction_state"]:
            for record in log:
                if record.value is None:
                    continue
                found = decode_value(decode_key(record.key), record.value)
                _, tree = decode_prefixed("TransactionLogValue", record.value)
                assert found.producer_id == tree["producerId"], json.dumps(tree)
                assert found.producer_epoch == tree["producerEpoch"]
                assert found.timeout_ms == tree["transactionTimeoutMs"]
                assert found.state == tree["transactionStatus"]
                assert found.start_ms == tree["transactionStartTimestampMs"]
                assert found.previous_producer_id == tree.get("previousProducerId", -1)
                assert found.partitions == {
                    (each["topic"], partition)
                    for each in tree["transactionPartitions"] or ()
                    for partition in each["partitionIds"]
                }
                decoded += 1
    assert decoded > 0
