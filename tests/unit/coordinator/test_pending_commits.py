"""Committed offsets beside open transactions: each record of the log is read once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstore
from kstore.coordinator.group import offsets_table
from kstore.coordinator.group.offset_records import (
    OffsetCommit,
    OffsetKey,
    PartitionKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
)
from kstore.coordinator.group.offsets_table import OffsetsTable
from kstore.log.log import Log
from kstore.record import Record
from support.stores import QUIET

GROUPS, PRODUCERS, NUMBERS = ("g", "h"), (1, 2, 3), (0, 1)
Found = dict[PartitionKey, int]


def table_of(log: Log) -> OffsetsTable:
    """A table that has read the log, so that it applies at once what it appends."""
    table = OffsetsTable(log)
    table.group("g")
    return table


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        yield store.create_topic("log", 1)[0]


def commit(table: OffsetsTable, offset: int, group: str = "g", number: int = 0) -> None:
    table.append(group, {("t", number): OffsetCommit(offset, 1)})


def commit_in_transaction(
    table: OffsetsTable, offset: int, producer: int = 1, group: str = "g", number: int = 0
) -> None:
    commits = {("t", number): OffsetCommit(offset, 1)}
    table.append_in_transaction(group, commits, producer, 0)


def end(log: Log, producer: int = 1, *, is_commit: bool = True) -> None:
    log.append_end_marker(producer, 0, commit=is_commit)


def offsets(table: OffsetsTable, group: str = "g") -> Found:
    return {tp: each.offset for tp, each in table.group(group).items()}


# --- the reference: the log read from its start ------------------------------------------------


def committed(log: Log, group: str) -> Found:
    """The last records of partitions, without those of open and aborted transactions."""
    found: Found = {}
    for record in log.settled(log.start_offset):
        key = decode_offset_key(record.key or b"")
        if key is not None and key.group == group:
            found.pop((key.topic, key.partition), None)
            if record.value is not None:
                offset = decode_offset_value(record.value).offset
                found[key.topic, key.partition] = offset
    return found


def open_partitions(log: Log, group: str) -> set[PartitionKey]:
    """Those with a record of an open transaction that no tombstone follows."""
    known = {record.offset for record in log.settled(log.last_stable_offset)}
    found: set[PartitionKey] = set()
    for record in log.view(log.last_stable_offset):
        key = decode_offset_key(record.key or b"")
        if key is not None and key.group == group:
            tp = key.topic, key.partition
            if record.offset not in known and is_open(log, record.offset):
                found.add(tp)
            elif record.offset in known and record.value is None:
                found.discard(tp)
    return found


def is_open(log: Log, offset: int) -> bool:
    [batch] = log.view(offset, offset + 1).batches()
    later = log.view(offset + 1).batches()
    return not any(each.is_control and each.producer_id == batch.producer_id for each in later)


Act = Callable[[Log, OffsetsTable], object]


def actions() -> st.SearchStrategy[Act]:
    groups, producers, numbers = map(st.sampled_from, (GROUPS, PRODUCERS, NUMBERS))
    offset = st.integers(0, 1000)

    def commits(number: int, group: str, partition: int) -> Act:
        return lambda _, table: commit(table, number, group, partition)

    def commits_in_transaction(number: int, producer: int, group: str, partition: int) -> Act:
        return lambda _, table: commit_in_transaction(table, number, producer, group, partition)

    def appends(number: int, producer: int) -> Act:  # by another than the table
        return lambda log, _: commit_in_transaction(OffsetsTable(log), number, producer)

    def deletes(group: str, partition: int) -> Act:
        key = encode_offset_key(OffsetKey(group, "t", partition))
        return lambda log, _: log.extend([Record(0, 1, key, None)])

    def ends(producer: int, is_commit: bool) -> Act:
        return lambda log, _: end(log, producer, is_commit=is_commit)

    def truncates(by: int) -> Act:
        return lambda log, _: log.truncate_to(max(log.start_offset, log.end_offset - by))

    return st.one_of(
        st.builds(commits, offset, groups, numbers),
        st.builds(commits_in_transaction, offset, producers, groups, numbers),
        st.builds(appends, offset, producers),
        st.builds(deletes, groups, numbers),
        st.builds(ends, producers, st.booleans()),
        st.builds(truncates, st.integers(1, 4)),
        st.just(lambda _, table: table.group("g")),
    )


@settings(deadline=None, max_examples=80)
@given(st.lists(actions(), max_size=25), st.sampled_from([0, 3, 1_000_000]))
def test_it_is_what_the_log_says(
    tmp_path_factory: pytest.TempPathFactory, acts: list[Act], by_columns: int
) -> None:
    with (
        kstore.open(tmp_path_factory.mktemp("store") / "data", config=QUIET) as store,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        monkeypatch.setattr(offsets_table, "_BY_COLUMNS", by_columns)
        log = store.create_topic("log", 1)[0]
        table = table_of(log)
        for act in acts:
            act(log, table)
        for group in GROUPS:
            assert offsets(table, group) == committed(log, group)
            assert table.pending(group) == open_partitions(log, group)
        assert not table._pending._final or table._pending


# --- single cases ------------------------------------------------------------------------------


def test_a_commit_that_follows_in_the_log_is_not_replaced(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5)
    commit(table, 6)
    end(log)
    assert offsets(table) == {("t", 0): 6}


def test_of_two_transactions_the_later_record_counts(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5, 1)
    commit_in_transaction(table, 6, 2)
    end(log, 2)
    assert offsets(table) == {("t", 0): 6}
    end(log, 1)
    assert offsets(table) == {("t", 0): 6}


def test_an_aborted_transaction_replaces_nothing(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5, 1)
    commit_in_transaction(table, 6, 2)
    end(log, 2, is_commit=False)
    assert offsets(table) == {}
    end(log, 1)
    assert offsets(table) == offsets(OffsetsTable(log)) == {("t", 0): 5}


def test_columns_begin_with_what_is_pending(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5)
    commit_in_transaction(table, 6, 2, number=1)
    end(log, 2, is_commit=False)
    end(log, 1)
    monkeypatch.setattr(offsets_table, "_BY_COLUMNS", 0)
    assert offsets(table) == {("t", 0): 5}


def test_a_compaction_may_remove_the_end_of_a_transaction(tmp_path: Path) -> None:
    """A later transaction of its producer does not commit what it aborted."""
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        compacted = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
        log = store.create_topic("log", 1, config=compacted)[0]
        table, other = table_of(log), OffsetsTable(log)
        commit_in_transaction(table, 5)
        assert table.pending("g") == {("t", 0)}
        end(log, is_commit=False)
        commit_in_transaction(other, 6, number=1)
        end(log)
        while any(batch.base_offset == 1 for batch in log.view().batches()):
            log.compact(roll=True)  # the first sets the time from which the marker is removed
            commit(other, 7, "h")
        assert offsets(table) == offsets(OffsetsTable(log)) == {("t", 1): 6}


def test_a_read_that_failed_begins_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read of it must not end the transaction that its producer began afterwards."""
    table, other = table_of(log), OffsetsTable(log)
    commit_in_transaction(other, 5, number=0)
    end(log)
    commit_in_transaction(other, 6, number=1)
    commit_in_transaction(other, 7, 2, number=2)
    commit(other, 8, number=3)

    def decode(data: bytes) -> OffsetKey | None:
        key = decode_offset_key(data)
        if key is not None and key.partition == 2:
            raise OSError
        return key

    with monkeypatch.context() as failing:
        failing.setattr(offsets_table, "decode_offset_key", decode)
        with pytest.raises(OSError):
            table.group("g")
    assert offsets(table) == {("t", 0): 5, ("t", 3): 8}
    assert table.pending("g") == {("t", 1), ("t", 2)}


def test_a_group_with_nothing_but_a_pending_commit_exists(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5)
    assert table.groups() == OffsetsTable(log).groups() == {"g"}
    end(log, is_commit=False)
    assert table.groups() == OffsetsTable(log).groups() == set()


def test_a_deleted_group_gets_nothing_of_an_open_transaction(log: Log) -> None:
    """As in Kafka 4: also of a partition without a committed offset."""
    table = table_of(log)
    commit(table, 5)
    commit_in_transaction(table, 6, number=1)
    assert table.pending("g") == {("t", 1)}
    assert table.forget_group("g") == 2
    assert table.pending("g") == set()
    end(log)
    assert offsets(table) == offsets(OffsetsTable(log)) == {}


def test_deleted_offsets_and_topics_take_along_what_is_pending(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5, number=0)
    commit_in_transaction(table, 6, number=1)
    assert table.forget_group("g", {("t", 0)}) == 1
    assert table.pending("g") == {("t", 1)}
    assert table.forget_topic("t") == 1
    end(log)
    assert offsets(table) == offsets(OffsetsTable(log)) == {}


def test_what_a_transaction_commits_after_the_deletion_stays(log: Log) -> None:
    table = table_of(log)
    commit_in_transaction(table, 5)
    table.forget_group("g")
    commit_in_transaction(table, 6)
    end(log)
    assert offsets(table) == offsets(OffsetsTable(log)) == {("t", 0): 6}


def test_a_log_that_was_cut_and_grew_again_is_read_again(log: Log) -> None:
    table = table_of(log)
    for offset in (5, 6, 7):
        commit(table, offset, number=offset)
    log.truncate_to(1)
    other = OffsetsTable(log)
    for offset in (8, 9, 10):
        commit(other, offset, number=offset)
    assert offsets(table) == {("t", number): number for number in (5, 8, 9, 10)}


def test_a_reader_notices_that_the_log_was_cut_and_grew_again(tmp_path: Path) -> None:
    with (
        kstore.open(tmp_path / "data", config=QUIET) as store,
        kstore.open(tmp_path / "data", mode="r") as reader,
    ):
        log = store.create_topic("log", 1)[0]
        writer, table = OffsetsTable(log), OffsetsTable(reader["log"][0])
        commit_in_transaction(writer, 4, number=4)
        for offset in (5, 6):
            commit(writer, offset, number=offset)
        assert offsets(table) == {("t", 5): 5, ("t", 6): 6}
        log.truncate_to(2)
        commit(writer, 7, number=7)
        assert offsets(table) == {("t", 5): 5, ("t", 7): 7}


@pytest.mark.parametrize("is_owner", [True, False])
def test_work_beside_an_open_transaction_is_that_of_what_is_new(
    log: Log, is_owner: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in decoded keys: of a table that appends the commits, and of one that reads them."""
    decoded: list[bytes] = []

    def decode(data: bytes) -> OffsetKey | None:
        decoded.append(data)
        return decode_offset_key(data)

    owner, reader = table_of(log), table_of(log)
    table = owner if is_owner else reader
    commit_in_transaction(owner, 0, number=9)
    counts = []
    for number in range(200):
        commit(owner, number)
        commit_in_transaction(owner, number, 2 + number)
        end(log, 2 + number)
        owner.group("g")
        monkeypatch.setattr(offsets_table, "decode_offset_key", decode)
        commit_of = table.commit_of("g", ("t", 0))
        if is_owner:
            commit(owner, number)
        else:
            table.group("g")
        assert table.pending("g") == {("t", 9)}
        counts.append(len(decoded))
        decoded.clear()
        monkeypatch.undo()
        assert commit_of is not None
    assert max(counts) <= 3
