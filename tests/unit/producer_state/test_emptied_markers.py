"""Control batches without a record: transaction markers that Kafka's cleaner has emptied.

Such a batch proves that the transaction ended. Records of it that are still in the log came there
before the source was cleaned (a mirror, a follower), and nothing says that they were committed.
"""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore._native.append.producer_table import ProducerTable
from kstore.compaction.cleaned_transactions import ABORT, COMMIT, CleanedTransactions
from kstore.files.filenames import snapshot_name, transaction_index_name
from kstore.log.log import Log
from kstore.producer_state import snapshot as producer_snapshot
from kstore.producer_state.snapshot import ProducerEntry
from kstore.segment import transaction_index
from kstore.spark import plan
from kstore.verify.partition import verify_partition
from oracle.transactions import read_committed
from support.damage import write_damaged
from support.disks import HastyDisk
from support.logs import open_log, read_log
from support.ranges import run
from support.stores import MARKER, QUIET
from support.transactions import WHEN, TransactionWriter

COMMITTED = "read_committed"


def offsets(log: Log) -> list[int]:
    return [record.offset for record in log.view(isolation=COMMITTED)]


def encoded(entries: list[ProducerEntry]) -> bytes:
    table = ProducerTable()
    table.load(entries)
    return table.snapshot()


def write_log(log: Log, *, goes_on: bool) -> TransactionWriter:
    """Offsets 0 to 4 and 26 to 30 have no producer, 5 to 24 a transaction with an empty marker."""
    teller = TransactionWriter(log)
    teller.data(-1, 5)
    teller.data(7, 20)
    teller.empty(7)
    teller.data(-1, 5)
    if goes_on:
        teller.data(7, 3)
        teller.end(7, commit=True)
    return teller


@pytest.fixture(params=[True, False], ids=["continues", "ends"])
def log_and_offsets(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """A partition in a closed store, and the offsets that are known to be committed."""
    with kstore.open(tmp_path / "store", config=QUIET) as store:
        teller = write_log(store.create_topic("t")[0], goes_on=request.param)
    shown = read_committed(teller.batches, teller.log.end_offset)
    assert shown.offsets == [*range(5), *range(26, 31), *(range(31, 34) if request.param else ())]
    return tmp_path / "store", shown.offsets


def test_writer_and_readers_find_the_transactions_of_emptied_markers(
    log_and_offsets: tuple[Path, list[int]],
) -> None:
    path, expected = log_and_offsets
    for mode in ("a", "r"):
        with kstore.open(path, mode, config=QUIET) as store:
            log = store["t"][0]
            assert log.last_stable_offset == log.end_offset
            assert offsets(log) == expected
            assert [entry.first_offset for entry in log.aborted_transactions(0, 99)] == [5]
            assert all(e.current_transaction_first_offset < 0 for e in log.producers())
            log.verify().raise_if_corrupt()


def test_recovery_finds_aborted_transactions_whose_markers_were_emptied(
    log_and_offsets: tuple[Path, list[int]],
) -> None:
    """Recovery replays the log, from its start and without the index that was lost."""
    path, expected = log_and_offsets
    (path / MARKER).unlink()
    for name in ("*.snapshot", "*.txnindex"):
        found = list((path / "t-0").glob(name))
        assert found
        for each in found:
            each.unlink()
    with kstore.open(path, config=QUIET) as store:
        assert offsets(store["t"][0]) == expected
        assert store["t"][0].last_stable_offset == store["t"][0].end_offset
    index = path / "t-0" / transaction_index_name(0)
    (entry,) = transaction_index.parse(index.read_bytes())
    assert (entry.producer_id, entry.first_offset, entry.last_offset) == (7, 5, 25)


@pytest.mark.parametrize("disk", ["mapped", "read"])
def test_a_snapshot_with_a_stale_open_transaction(
    log_and_offsets: tuple[Path, list[int]], disk: str
) -> None:
    """A Kafka follower's: it passes over the empty batch, and its snapshot says so."""
    path, expected = log_and_offsets
    (snapshot,) = (path / "t-0").glob("*.snapshot")
    entries = producer_snapshot.parse(snapshot.read_bytes())
    assert [entry.current_transaction_first_offset for entry in entries] == [-1]
    wrong = [entry._replace(current_transaction_first_offset=5) for entry in entries]
    snapshot.write_bytes(encoded(wrong))
    (path / "t-0" / transaction_index_name(0)).unlink()
    reader = read_log(path / "t-0")
    assert (reader.last_stable_offset, offsets(reader)) == (reader.end_offset, expected)
    options = {} if disk == "mapped" else {"files": HastyDisk()}
    log = open_log(path / "t-0", **options)
    assert (log.last_stable_offset, offsets(log)) == (log.end_offset, expected)
    log.close()


def test_a_snapshot_after_an_emptied_marker(tmp_path: Path) -> None:
    """What is open at the snapshot stays open, and begins where the log says."""
    log = open_log(tmp_path)
    teller = TransactionWriter(log)
    teller.data(8, 2)  # open throughout
    teller.data(7, 20)
    teller.empty(7)
    teller.data(7, 4)
    log.roll()
    teller.data(-1, 1)
    log.close()
    path = tmp_path / snapshot_name(27)
    wrong = [
        entry._replace(current_transaction_first_offset={7: 2, 8: 0}[entry.producer_id])
        for entry in producer_snapshot.parse(path.read_bytes())
    ]
    for each in tmp_path.glob("*.snapshot"):
        each.unlink()
    path.write_bytes(encoded(wrong))
    for each in (open_log(tmp_path), read_log(tmp_path)):
        opened = {e.producer_id: e.current_transaction_first_offset for e in each.producers()}
        assert opened in ({7: 23, 8: 0}, {})
        assert each.last_stable_offset == 0


def test_spark_reads_the_same(log_and_offsets: tuple[Path, list[int]]) -> None:
    path, expected = log_and_offsets
    found = plan(path, topics="t", isolation=COMMITTED)
    assert [at for at, _ in run(path, found, isolation=COMMITTED)] == expected


def test_repair_saves_the_same(log_and_offsets: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, expected = log_and_offsets
    log = path / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1  # in the first five records
    write_damaged(log, data)
    kstore.repair(path / "t-0", tmp_path / "out")
    assert verify_partition(HastyDisk(), tmp_path / "out" / "t-0").findings == []
    with kstore.open(tmp_path / "out", config=QUIET) as store:
        assert offsets(store["t"][0]) == expected[5:]


def test_verify_expects_no_index_entry_for_an_emptied_marker(
    log_and_offsets: tuple[Path, list[int]],
) -> None:
    """Kafka writes no entry for a marker that was empty when it came."""
    path, _ = log_and_offsets
    index = path / "t-0" / transaction_index_name(0)
    assert index.stat().st_size == transaction_index.ENTRY_SIZE
    index.unlink()
    assert verify_partition(HastyDisk(), path / "t-0").findings == []


def test_a_rolled_segment_keeps_its_index(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write_log(log, goes_on=True)
    log.roll()
    log.append(b"v")
    log.close()
    (tmp_path / transaction_index_name(0)).unlink()
    log = open_log(tmp_path)
    assert [entry.last_offset for entry in log.aborted_transactions(0, 99)] == [25]
    assert offsets(log) == [*range(5), *range(26, 34), 35]
    log.close()


def test_compaction_removes_uncommitted_records(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", delete_retention_ms=0, min_cleanable_dirty_ratio=0)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        expected = {r.key for r in _with_a_second_segment(log).view(isolation=COMMITTED)}
        assert b"k3" in expected
        for _ in range(3):
            log.compact()
            assert {r.key for r in log.view(isolation=COMMITTED)} == expected
            assert log.last_stable_offset == log.end_offset
        assert all(record.value != b"v24" for record in log)


def _with_a_second_segment(log: Log) -> Log:
    write_log(log, goes_on=True)
    log.roll()
    log.append(b"v", key=b"other")
    log.roll()
    log.append(b"v", key=b"another")
    return log


def test_the_cleaner_keeps_an_empty_marker_while_records_remain() -> None:
    """Without an entry in the index, as in a Kafka follower's directory, only it shows that."""
    cleaned = CleanedTransactions()
    assert not cleaned.is_aborted(7, 20, transactional=True)
    assert not cleaned.is_removable_marker(7, 21, None)
    assert cleaned.is_removable_marker(7, 22, None)
    assert cleaned.is_removable_marker(7, 23, COMMIT)
    aborted = transaction_index.AbortedTransaction(0, 7, 30, 40, 41)
    cleaned.add([aborted])
    assert cleaned.is_aborted(7, 35, transactional=True)
    assert not cleaned.is_removable_marker(7, 40, None)
    assert cleaned.written == [aborted]
    assert cleaned.is_removable_marker(7, 50, ABORT)


def test_a_consumer_reads_beyond_the_emptied_marker(
    log_and_offsets: tuple[Path, list[int]],
) -> None:
    path, expected = log_and_offsets
    with (
        kstore.open(path, "r") as store,
        store.consumer("t", isolation_level=COMMITTED) as consumer,
    ):
        found = [r.offset for got in consumer.poll().values() for r in got]
    assert found == expected


@pytest.mark.parametrize("data_before_roll", [0, 3])
@pytest.mark.parametrize("lost", [(1,), (1, 2)], ids=["one index", "two indexes"])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_lost_index_is_rebuilt_from_a_snapshot_with_an_open_transaction(
    tmp_path: Path, data_before_roll: int, lost: tuple[int, ...], mode: str
) -> None:
    """The snapshots of a Kafka follower, at the bases of segments, pass over the empty batch.

    The finder of aborted transactions begins at such a snapshot: its index equals the one that a
    replay from the start of the log writes.
    """
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        teller = TransactionWriter(log)
        teller.data(7, 20)
        teller.empty(7)
        if data_before_roll:
            teller.data(7, data_before_roll)
        for commits in (False, False, True):
            log.roll()
            teller.data(9, 2)
            teller.data(7, 3)
            teller.end(9, commit=commits)
            teller.end(7, commit=commits)
        log.roll()
        teller.data(-1, 1)
        bases = [view.base_offset for view in log.segments.views]
        expected = [log.aborted_transactions(0, 99), offsets(log)]
    folder = tmp_path / "t-0"
    path = folder / snapshot_name(bases[1])
    (entry,) = producer_snapshot.parse(path.read_bytes()) or [
        ProducerEntry(7, 0, 19, 19, 19, WHEN, -1, 0)
    ]
    path.write_bytes(encoded([entry._replace(current_transaction_first_offset=0)]))
    before = {}
    for number in lost:
        index = folder / transaction_index_name(bases[number])
        before[index] = index.read_bytes()
        index.unlink()
    with kstore.open(tmp_path, mode, config=QUIET) as store:
        log = store["t"][0]
        assert [log.aborted_transactions(0, 99), offsets(log)] == expected
    if mode == "a":
        assert {index: index.read_bytes() for index in before} == before
        assert verify_partition(HastyDisk(), folder).findings == []
