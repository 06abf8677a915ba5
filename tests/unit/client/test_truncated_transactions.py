"""A transaction whose records this process has truncated can only be aborted."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

import kstore
from kstore.clock import now_ms
from kstore.errors import InvalidTxnStateError
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.stores import QUIET
from support.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        store.create_topic("t", 2)
        yield store


def committed(store: kstore.Store) -> list[list[bytes | None]]:
    return [
        [each.value for each in log.view(isolation="read_committed")] for log in store.topic("t")
    ]


def are_closed(store: kstore.Store) -> bool:
    """Whether no transaction is open in the logs."""
    return all(log.last_stable_offset == log.end_offset for log in store.topic("t"))


@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.parametrize("follows", ["nothing", "records", "other records"])
def test_the_commit_is_refused(store: kstore.Store, follows: str, is_served: bool) -> None:
    """Also if the log has grown beyond the old end since."""
    owner: AbstractContextManager[object] = nullcontext()
    if is_served:
        owner = kstore.Broker(store, port=0)
    with owner, store.transactional_producer("p") as producer:
        with producer.transaction():
            producer.send("t", b"before", partition=0)
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send("t", b"lost", partition=partition)
        producer.flush()
        log = store["t"][0]
        log.truncate_to(log.end_offset - 1)
        if follows == "records":
            producer.send("t", b"more", partition=0)
        elif follows == "other records":
            log.extend([b"other"] * 3)
        for _ in range(2):
            with pytest.raises(InvalidTxnStateError, match=r"t-0 was truncated to offset 2.*abort"):
                producer.commit_transaction()
        producer.abort_transaction()
        others: list[bytes | None] = [b"other"] * 3 if follows == "other records" else []
        assert committed(store) == [[b"before", *others], []]
        with producer.transaction():
            for partition in (0, 1):
                producer.send("t", b"after", partition=partition)
        assert committed(store) == [[b"before", *others, b"after"], [b"after"]]
        assert are_closed(store)


def test_records_that_follow_a_truncation_are_committed(store: kstore.Store) -> None:
    """What another has written behind the transaction's records is not theirs."""
    log = store["t"][0]
    with store.transactional_producer("p") as producer:
        log.append(b"0")
        log.append(b"1")
        log.truncate_to(1)
        with producer.transaction():
            producer.send("t", b"first", partition=0)
            producer.flush()
            log.append(b"2")
            log.append(b"3")
            log.truncate_to(3)
            producer.send("t", b"second", partition=0)
            producer.flush()
            log.append(b"4")
            log.append(b"5")
            log.truncate_to(log.end_offset - 1)
        assert committed(store)[0] == [b"0", b"first", b"2", b"second", b"4"]
        assert are_closed(store)


def test_a_truncation_between_transactions_does_not_disturb_the_next(store: kstore.Store) -> None:
    log = store["t"][0]
    with store.transactional_producer("p") as producer:
        for value in (b"first", b"second"):
            with producer.transaction():
                producer.send("t", value, partition=0)
        log.truncate_to(2)
        with producer.transaction():
            producer.send("t", b"third", partition=0)
        assert committed(store)[0] == [b"first", b"third"]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_batch_that_is_split_for_the_topic_has_an_end(store: kstore.Store, is_cut: bool) -> None:
    """A truncation behind its records removes none of them, one within the last of them does."""
    log = store["t"][0]
    with store.transactional_producer("p") as producer:
        producer.begin_transaction()
        for _ in range(4):
            producer.send("t", b"x" * 1000, partition=0)
        store.alter_topic("t", config={"max.message.bytes": 2500})
        producer.flush()
        assert [each.count for each in log.view().batches()] == [2, 2]
        log.append(b"other")
        log.truncate_to(log.end_offset - 1)
        if is_cut:
            log.truncate_to(log.end_offset - 1)
            with pytest.raises(InvalidTxnStateError, match="truncated to offset 3"):
                producer.commit_transaction()
        else:
            producer.commit_transaction()
            assert committed(store)[0] == [b"x" * 1000] * 4


@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.parametrize("is_committed", [False, True])
def test_an_end_that_is_truncated_is_written_again(
    store: kstore.Store, is_committed: bool, is_served: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, whatever followed: the next transaction does not decide for its records."""
    owner: AbstractContextManager[object] = nullcontext()
    if is_served:
        owner = kstore.Broker(store, port=0)
    with owner, store.transactional_producer("p") as producer:
        for value, ends_in in (
            (b"first", is_committed),
            (b"second", not is_committed),
            (b"third", is_committed),
        ):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("t", value, partition=partition)
            producer.flush()
            if ends_in:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        log = store["t"][0]
        until(lambda: are_closed(store))
        log.truncate_to(1)
        until(lambda: log.end_offset == 2)
        kind = "commit" if is_committed else "abort"
        assert f"t-0: the truncation removed the {kind} marker" in caplog.text
        assert are_closed(store)
        with producer.transaction():
            producer.send("t", b"next", partition=0)
        assert committed(store)[0] == [*[b"first"] * is_committed, b"next"]
        until(lambda: are_closed(store))


def append_transaction(log: kstore.Log, producer_id: int) -> None:
    """One aborted transaction of a record."""
    records = batch(
        [PlainRecord(0, now_ms(), b"", b"theirs", ())],
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True,
    )  # fmt: skip
    log.append_as_leader(records)
    log.append_end_marker(producer_id, 0, commit=False)


@pytest.mark.parametrize("is_served", [False, True])
def test_ends_of_another_coordinator_are_left_to_it(store: kstore.Store, is_served: bool) -> None:
    owner: AbstractContextManager[object] = nullcontext()
    if is_served:
        owner = kstore.Broker(store, port=0)
    with owner, store.transactional_producer("p") as producer:
        with producer.transaction():
            producer.send("t", b"ours", partition=0)
        log = store["t"][0]
        append_transaction(log, 5)
        begin = log.end_offset - 2
        assert log.truncate_to(begin + 1) == begin + 1
        with producer.transaction():  # by which a broker has taken notice of the truncation
            producer.send("t", b"other", partition=1)
        assert (log.last_stable_offset, log.end_offset) == (begin, begin + 1)


def test_a_follower_gets_ends_from_its_leader(store: kstore.Store) -> None:
    log = store["t"][0]
    with store.transactional_producer("p") as producer:
        log.begin_epoch(1)
        producer.begin_transaction()
        producer.send("t", b"kept", partition=0)
        producer.flush()
        log.begin_epoch(2)
        producer.abort_transaction()
        assert log.end_offset == 2
        assert log.truncate_to_epoch(1) == 1
        assert (log.last_stable_offset, log.end_offset) == (0, 1)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_truncation_removes_corrupt_batches(store: kstore.Store, size: bytes) -> None:
    """It reads behind the new end only how transactions ended."""
    log = store["t"][0]
    append_transaction(log, 5)
    for value in (b"removed", b"corrupt", b"last"):
        log.append(value)
    log.flush()
    corrupt = [each.position for each in log.view().batches()][3]
    (segment,) = log.segments.views
    with Path(segment.path).open("r+b") as file:
        file.seek(corrupt + 8)
        file.write(size)
    assert log.truncate_to(2) == 2
    assert [record.value for record in log] == [b"theirs"]
