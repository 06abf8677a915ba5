"""The transaction coordinator of a broker: each of Kafka's rules, without I/O and clock."""

import random

import pytest

from kstore.coordinator.transaction.transaction_coordinator import LAST_EPOCH
from kstore.coordinator.transaction.transaction_state_records import (
    TransactionMetadata,
    TransactionState,
)
from kstore.protocol.error_codes import ErrorCode
from support.transaction_driver import TransactionDriver

NONE = ErrorCode.NONE
FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING, WRONG_STATE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE
T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def driver() -> TransactionDriver:
    return TransactionDriver()


def metadata(state: TransactionState, **fields: object) -> TransactionMetadata:
    values: dict[str, object] = {
        "transactional_id": "x",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 10_000,
        "state": state,
        "partitions": frozenset([T0]) if state in (1, 2, 3) else frozenset(),
        "last_update_ms": 1_000_000,
        "start_ms": 1_000_000,
        **fields,
    }
    return TransactionMetadata(**values)


# --- InitProducerId -------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_epoch_0_and_then_higher_epochs(
    driver: TransactionDriver,
) -> None:
    assert driver.producer() == (100, 0)
    assert driver.producer() == (100, 1)
    assert driver.producer("y") == (101, 0)
    assert [each.state for _, each in driver.log if each] == [TransactionState.EMPTY] * 3


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"),
    [
        ("", 10_000, ErrorCode.INVALID_REQUEST),
        ("x", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 60_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 60_000, NONE),
    ],
)
def test_init_checks_the_transactional_id_and_the_timeout(
    driver: TransactionDriver, name: str, timeout_ms: int, error: ErrorCode
) -> None:
    answer = driver.init(name, timeout_ms=timeout_ms)
    assert answer is not None
    assert answer.error == error


@pytest.mark.parametrize(
    "state",
    [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT],
)
def test_a_producer_that_names_its_epoch_continues_and_may_repeat_its_request(
    driver: TransactionDriver, state: TransactionState
) -> None:
    driver.coordinator.load(metadata(state))
    assert driver.producer(expected=(7, 3)) == (7, 4)
    assert driver.producer(expected=(7, 3)) == (7, 4)  # the answer was lost
    refused = driver.init(expected=(7, 2))
    assert refused is not None
    assert refused.error == FENCED
    assert driver.producer() == (7, 5)  # another producer, which erases the last epoch
    refused = driver.init(expected=(7, 3))
    assert refused is not None
    assert refused.error == FENCED
    refused = driver.init(expected=(8, 5))
    assert refused is not None
    assert refused.error == FENCED


def test_an_exhausted_epoch_gets_another_producer_id(driver: TransactionDriver) -> None:
    driver.coordinator.load(metadata(TransactionState.EMPTY, producer_epoch=LAST_EPOCH - 1))
    assert driver.producer() == (7, LAST_EPOCH)  # which may be used
    assert driver.producer(expected=(7, LAST_EPOCH)) == (100, 0)
    assert driver.producer(expected=(7, LAST_EPOCH)) == (100, 0)  # the answer was lost
    found = driver.coordinator.find("x")
    assert found is not None
    assert found.previous_producer_id == 7
    driver.coordinator.load(metadata(TransactionState.EMPTY, producer_epoch=LAST_EPOCH))
    assert driver.producer() == (101, 0)


def test_a_producer_that_starts_while_a_transaction_is_open_has_it_aborted_first(
    driver: TransactionDriver,
) -> None:
    old = driver.producer()
    assert driver.add(old) == NONE
    driver.held_markers = []
    first = driver.init()
    assert first is not None
    assert first.error == CONCURRENT
    second = driver.init()
    assert second is not None
    assert second.error == CONCURRENT  # the markers are not written
    driver.release()
    assert driver.marked == [("x", False, frozenset([T0]))]
    assert driver.producer() == (old[0], old[1] + 2)  # one was for fencing
    assert driver.add(old) == FENCED
    assert driver.end(old, commit=True) == FENCED


def test_two_producers_that_start_at_once(driver: TransactionDriver) -> None:
    driver.held_stores = []
    assert driver.init() is None
    second = driver.init()
    assert second is not None
    assert second.error == CONCURRENT
    assert driver.coordinator.find("x") is None
    driver.release()
    assert driver.answers[0].error == NONE


def test_an_id_whose_first_state_is_not_stored_is_unknown(driver: TransactionDriver) -> None:
    driver.store_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = driver.init()
    assert answer is not None
    assert answer.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(driver.coordinator) == []
    driver.store_error = NONE
    assert driver.producer() == (101, 0)


def test_a_fence_that_is_not_stored_raises_the_epoch_once(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.store_error = ErrorCode.NOT_COORDINATOR
    for _ in range(3):
        answer = driver.init()
        assert answer is not None
        assert answer.error == ErrorCode.NOT_COORDINATOR
    assert driver.end(producer, commit=True) == FENCED
    driver.store_error = NONE
    answer = driver.init()
    assert answer is not None
    assert answer.error == CONCURRENT
    assert driver.producer() == (producer[0], 2)


# --- AddPartitionsToTxn ---------------------------------------------------------------------


def test_partitions_begin_a_transaction_and_join_it_once(driver: TransactionDriver) -> None:
    producer = driver.producer()
    assert driver.add(producer, [T0]) == NONE
    count = len(driver.log)
    assert driver.add(producer, [T0]) == NONE
    assert len(driver.log) == count  # nothing to store
    driver.now += 5
    assert driver.add(producer, [T1]) == NONE
    found = driver.coordinator.find("x")
    assert found is not None
    assert found.state is TransactionState.ONGOING
    assert found.partitions == {T0, T1}
    assert found.start_ms == driver.now - 5


@pytest.mark.parametrize(
    ("name", "producer", "error"),
    [
        ("", (7, 3), ErrorCode.INVALID_REQUEST),
        ("z", (7, 3), MAPPING),
        ("x", (8, 3), MAPPING),
        ("x", (7, 2), FENCED),
        ("x", (7, 4), FENCED),
        ("x", (7, 3), NONE),
    ],
)
def test_only_the_current_producer_may_add_verify_and_end(
    driver: TransactionDriver, name: str, producer: tuple[int, int], error: ErrorCode
) -> None:
    driver.coordinator.load(metadata(TransactionState.ONGOING))
    assert driver.coordinator.verify(name, *producer, T0) == error
    assert driver.add(producer, name=name) == error
    assert driver.end(producer, commit=True, name=name) == error


@pytest.mark.parametrize("state", list(TransactionState)[:6])
def test_a_partition_is_verified_only_while_its_transaction_is_ongoing(
    driver: TransactionDriver, state: TransactionState
) -> None:
    driver.held_markers = []
    driver.coordinator.load(metadata(state))
    is_ongoing = state is TransactionState.ONGOING
    expected = NONE if is_ongoing else ErrorCode.TRANSACTION_ABORTABLE
    assert driver.coordinator.verify("x", 7, 3, T0) == expected
    assert driver.coordinator.verify("x", 7, 3, T1) == ErrorCode.TRANSACTION_ABORTABLE


def test_a_failed_append_leaves_the_transaction_as_it_was(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, [T0])
    driver.store_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.add(producer, [T1]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.end(producer, commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.marked == []
    driver.store_error = NONE
    assert driver.end(producer, commit=True) == NONE
    assert driver.marked == [("x", True, frozenset([T0]))]


# --- EndTxn ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "commit", "error"),
    [
        (TransactionState.EMPTY, True, WRONG_STATE),
        (TransactionState.EMPTY, False, WRONG_STATE),
        (TransactionState.ONGOING, True, NONE),
        (TransactionState.ONGOING, False, NONE),
        (TransactionState.PREPARE_COMMIT, True, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, False, WRONG_STATE),
        (TransactionState.PREPARE_ABORT, True, WRONG_STATE),
        (TransactionState.PREPARE_ABORT, False, CONCURRENT),
        (TransactionState.COMPLETE_COMMIT, True, NONE),
        (TransactionState.COMPLETE_COMMIT, False, WRONG_STATE),
        (TransactionState.COMPLETE_ABORT, True, WRONG_STATE),
        (TransactionState.COMPLETE_ABORT, False, NONE),
    ],
)
def test_the_end_of_a_transaction_is_answered_by_its_state(
    driver: TransactionDriver, state: TransactionState, commit: bool, error: ErrorCode
) -> None:
    driver.held_markers = []
    driver.coordinator.load(metadata(state))
    assert driver.end((7, 3), commit=commit) == error


def test_an_end_is_answered_once_decided_and_gives_51_until_markers_are_written(
    driver: TransactionDriver,
) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.held_stores = []
    assert driver.end(producer, commit=True) is None
    assert driver.end(producer, commit=True) == CONCURRENT  # being stored
    assert driver.add(producer) == CONCURRENT
    driver.held_markers = markers = []
    stores, driver.held_stores = driver.held_stores, None
    driver.store(stores[0])
    driver.carry_out()
    assert driver.state() is TransactionState.PREPARE_COMMIT
    assert driver.answers[2].error == NONE
    assert driver.add(producer) == CONCURRENT
    assert len(markers) == 1
    driver.release()
    assert driver.state() is TransactionState.COMPLETE_COMMIT
    assert driver.add(producer) == NONE


def begin_next(driver: TransactionDriver) -> tuple[int, int]:
    """A transaction is decided, its markers are held, and a request waits for the completion."""
    producer = driver.producer()
    driver.add(producer)
    driver.held_markers = []
    assert driver.end(producer, commit=True) == NONE
    assert driver.add(producer, [T1], may_wait=True) is None
    assert len(driver.kept) == 1
    return producer


def test_a_next_transaction_may_wait_for_the_completion(driver: TransactionDriver) -> None:
    begin_next(driver)
    driver.held_stores = stores = []
    driver.mark(driver.held_markers.pop())
    driver.carry_out()
    assert len(driver.answers) == 3  # not before the completed state is stored
    driver.held_stores = None
    driver.store(stores.pop())
    driver.carry_out()
    assert driver.last_answer().error == NONE
    found = driver.coordinator.find("x")
    assert found is not None
    assert (found.state, found.partitions) == (TransactionState.ONGOING, frozenset([T1]))
    states = [each.state for _, each in driver.log[-2:] if each]
    assert states == [TransactionState.COMPLETE_COMMIT, TransactionState.ONGOING]


def test_a_request_that_waits_for_too_long_is_answered_once(driver: TransactionDriver) -> None:
    begin_next(driver)
    driver.coordinator.give_up(driver.kept[0])
    driver.carry_out()
    assert driver.last_answer().error == CONCURRENT
    driver.release()
    driver.coordinator.give_up(driver.kept[0])
    driver.carry_out()
    assert driver.state() is TransactionState.COMPLETE_COMMIT
    assert len(driver.answers) == 4


def test_a_request_that_has_its_answer_is_not_given_up(driver: TransactionDriver) -> None:
    begin_next(driver)
    driver.release()
    driver.coordinator.give_up(driver.kept[0])
    driver.carry_out()
    assert driver.last_answer().error == NONE
    assert driver.state() is TransactionState.ONGOING


def test_a_request_that_waits_is_answered_by_unloading(driver: TransactionDriver) -> None:
    begin_next(driver)
    driver.coordinator.unload(["x", "unknown"])
    driver.carry_out()
    assert driver.last_answer().error == ErrorCode.NOT_COORDINATOR
    driver.coordinator.give_up(driver.kept[0])
    driver.release()
    assert len(driver.answers) == 4


def test_of_two_requests_that_wait_one_begins_the_transaction(driver: TransactionDriver) -> None:
    producer = begin_next(driver)
    assert driver.add(producer, [T0], may_wait=True) is None
    driver.release()
    assert sorted(each.error for each in list(driver.answers.values())[3:]) == [NONE, CONCURRENT]


def test_a_request_does_not_wait_for_a_decision(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.held_stores = []
    assert driver.end(producer, commit=True) is None
    assert driver.add(producer, may_wait=True) == CONCURRENT
    assert driver.kept == []


def test_an_answer_may_wait_for_the_markers(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.held_markers = []
    assert driver.end(producer, commit=True, waits_for_markers=True) is None
    driver.release()
    assert driver.last_answer().error == NONE
    assert driver.state() is TransactionState.COMPLETE_COMMIT


def test_a_final_state_that_is_not_stored_is_stored_later(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.held_markers = []
    assert driver.end(producer, commit=True) == NONE
    driver.store_error = ErrorCode.NOT_COORDINATOR
    driver.release()
    assert driver.state() is TransactionState.PREPARE_COMMIT
    assert driver.add(producer) == CONCURRENT
    driver.store_error = NONE
    assert driver.coordinator.store_again()
    driver.carry_out()
    assert driver.state() is TransactionState.COMPLETE_COMMIT
    assert not driver.coordinator.store_again()
    assert len(driver.marked) == 1


def test_each_decision_has_a_later_time_even_if_the_clock_stands(
    driver: TransactionDriver,
) -> None:
    producer = driver.producer()
    for _ in range(3):
        driver.add(producer)
        driver.end(producer, commit=True)
        driver.now -= 100
    times = [
        each.last_update_ms
        for _, each in driver.log
        if each and each.state is TransactionState.PREPARE_COMMIT
    ]
    assert times == sorted(set(times))


# --- loading --------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_what_an_earlier_broker_decided_is_finished(
    driver: TransactionDriver, commit: bool
) -> None:
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    driver.coordinator.load(metadata(state))
    driver.carry_out()
    assert driver.marked == [("x", commit, frozenset([T0]))]
    assert driver.state() is (
        TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    )


def test_a_transaction_that_an_earlier_broker_left_open_continues_or_times_out(
    driver: TransactionDriver,
) -> None:
    driver.coordinator.load(metadata(TransactionState.ONGOING))
    assert driver.add((7, 3), [T1]) == NONE
    driver.now = 1_010_000
    assert driver.coordinator.abort_timed_out(driver.now) == []
    driver.now += 1
    assert driver.coordinator.abort_timed_out(driver.now) == ["x"]
    driver.carry_out()
    assert driver.marked == [("x", False, frozenset([T0, T1]))]
    found = driver.coordinator.find("x")
    assert found is not None
    assert (found.state, found.producer_epoch) == (TransactionState.COMPLETE_ABORT, 4)
    assert driver.add((7, 3)) == FENCED
    answer = driver.init(expected=(7, 3))  # it may not continue, as in Kafka
    assert answer is not None
    assert answer.error == FENCED


def test_a_pending_end_of_an_unloaded_id_gets_not_coordinator(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer)
    driver.held_stores = []
    assert driver.end(producer, commit=True) is None
    driver.coordinator.unload(["x"])
    driver.release()
    assert driver.last_answer().error == ErrorCode.NOT_COORDINATOR
    assert driver.marked == []


# --- expiry and topics ----------------------------------------------------------------------


def test_idle_ids_expire_and_others_do_not(driver: TransactionDriver) -> None:
    driver.producer("idle")
    open_one = driver.producer("open")
    driver.add(open_one, name="open")
    driver.now += 1000
    driver.producer("young")
    assert driver.coordinator.expire(driver.now, 1000) == ["idle"]
    driver.carry_out()
    assert driver.log[-1] == ("idle", None)
    assert [each.transactional_id for each in driver.coordinator] == ["open", "young"]


def test_a_deleted_topic_leaves_its_transactions(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, [("gone", 0), T0])
    driver.held_stores = []
    assert driver.add(producer, [("gone", 1), T1]) is None
    driver.coordinator.drop_topic("gone")
    driver.release()
    assert driver.end(producer, commit=True) == NONE
    assert driver.marked == [("x", True, frozenset([T0, T1]))]


# --- a model --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_log_of_states_never_contradicts_itself(driver: TransactionDriver, seed: int) -> None:
    """Random producers, failures and delays: what is stored follows Kafka's table of states, each
    decision is marked once, as it was decided, and epochs never go back."""
    allowed = {
        None: {TransactionState.EMPTY},
        TransactionState.EMPTY: {TransactionState.EMPTY, TransactionState.ONGOING, None},
        TransactionState.ONGOING: {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
        },
        TransactionState.PREPARE_COMMIT: {TransactionState.COMPLETE_COMMIT},
        TransactionState.PREPARE_ABORT: {TransactionState.COMPLETE_ABORT},
        TransactionState.COMPLETE_COMMIT: {TransactionState.EMPTY, TransactionState.ONGOING, None},
        TransactionState.COMPLETE_ABORT: {TransactionState.EMPTY, TransactionState.ONGOING, None},
    }
    chance = random.Random(seed)
    producers: list[tuple[int, int]] = [(1, 0)]
    for _ in range(300):
        driver.now += chance.choice((0, 1, 100, 11_000))
        driver.store_error = chance.choice((NONE,) * 5 + (ErrorCode.NOT_COORDINATOR,))
        if chance.random() < 0.2 and driver.held_stores is None:
            driver.held_stores, driver.held_markers = [], []
        producer = chance.choice(producers[-3:])
        step = chance.randrange(7)
        if step == 0:
            expected = producer if chance.random() < 0.5 else (-1, -1)
            answer = driver.init(expected=expected)
            if answer is not None and answer.error == NONE:
                producers.append((answer.producer_id, answer.producer_epoch))
        elif step < 3:
            driver.add(producer, [("t", chance.randrange(3))])
        elif step < 5:
            driver.end(producer, commit=chance.random() < 0.5)
        elif step == 5:
            driver.coordinator.abort_timed_out(driver.now)
            driver.coordinator.store_again()
            driver.carry_out()
        else:
            driver.release()
    driver.store_error = NONE
    driver.release()
    driver.coordinator.store_again()
    driver.carry_out()
    before: TransactionState | None = None
    newest = (-1, -1)
    for _, each in driver.log:
        state = None if each is None else each.state
        assert state in allowed[before], (before, state)
        if each is not None:
            assert (each.producer_id, each.producer_epoch) >= newest
            newest = (each.producer_id, each.producer_epoch)
        before = state
    decided = [
        (name, each.state is TransactionState.PREPARE_COMMIT, each.partitions)
        for name, each in driver.log
        if each is not None
        and each.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    ]
    assert driver.marked == decided
    assert before not in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
