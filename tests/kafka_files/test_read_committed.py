"""read_committed on directories of real brokers: what Kafka's own consumer was given."""

import shutil
from pathlib import Path

import pytest

import kstore
from support.damage import cut

COMMITTED = "read_committed"


@pytest.fixture
def copy(broker_set, tmp_path) -> Path:
    target = tmp_path / "log-dir"
    shutil.copytree(broker_set.log_dir, target)
    return target


def without(copy: Path, pattern: str) -> int:
    paths = list(copy.glob(f"*/{pattern}"))
    for path in paths:
        path.unlink()
    return len(paths)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_reads_what_kafkas_consumer_read(broker_set, copy, mode):
    with kstore.open(copy, mode=mode) as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            assert log.last_stable_offset == partition.last_stable_offset, partition.name
            expected = list(partition.committed_offsets)
            view = log.view(isolation=COMMITTED)
            assert [record.offset for record in view] == expected, partition.name
            for threads in (1, 2):
                columns = view.scan(threads=threads)
                found = [offset for each in columns for offset in each.offsets.tolist()]
                assert found == expected, partition.name
            followed = log.follow(start=log.start_offset, timeout=0, isolation=COMMITTED)
            assert [record.offset for record in followed] == expected, partition.name
            with store.consumer(
                assignment=[(partition.topic, partition.partition)],
                isolation_level=COMMITTED,
                max_poll_records=7,
                timeout=0,
            ) as consumer:
                consumed = [record.offset for batch in consumer for record in batch]
            assert consumed == expected, partition.name


def test_every_range_of_a_log_with_transactions_reads_its_committed_records(broker_set, copy):
    with kstore.open(copy, mode="r") as store:
        for partition in broker_set.partitions:
            if partition.committed_offsets == tuple(r.offset for r in partition.records):
                continue
            log = store[partition.topic][partition.partition]
            for start in range(partition.beginning_offset, partition.end_offset):
                found = [r.offset for r in log.view(start, start + 9, isolation=COMMITTED)]
                expected = [o for o in partition.committed_offsets if start <= o < start + 9]
                assert found == expected, (partition.name, start)


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("pattern", ["*.txnindex", "*.snapshot", "*.[st][nx][an]*"])
def test_reads_the_same_without_the_side_files(broker_set, copy, pattern, mode):
    """Kafka shows aborted records where a .txnindex is lost; the markers are still there."""
    removed = without(copy, pattern)
    with kstore.open(copy, mode=mode) as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            assert log.last_stable_offset == partition.last_stable_offset, partition.name
            found = [record.offset for record in log.view(isolation=COMMITTED)]
            assert found == list(partition.committed_offsets), partition.name
    assert removed > 0 or broker_set.name in ("zk-0.8.2.2", "zk-0.10.2.2")


@pytest.mark.parametrize("keep", [0, 17, 34])
def test_reads_the_same_with_short_transaction_indexes(broker_set, copy, keep):
    longer = [path for path in copy.glob("*/*.txnindex") if path.stat().st_size > keep]
    for path in longer:
        cut(path, keep)
    assert longer or broker_set.name in ("zk-0.8.2.2", "zk-0.10.2.2")
    with kstore.open(copy, mode="r") as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            found = [record.offset for record in log.view(isolation=COMMITTED)]
            assert found == list(partition.committed_offsets), partition.name


def test_the_sets_contain_aborted_and_open_transactions(broker_set):
    """Else the tests above would show nothing."""
    hidden = [p for p in broker_set.partitions if len(p.committed_offsets) < len(p.records)]
    if broker_set.name in ("zk-0.8.2.2", "zk-0.10.2.2"):
        assert not hidden  # brokers from before transactions
        return
    assert hidden
    assert broker_set.name == "zk-2.8.2" or any(p.last_stable_offset < p.end_offset for p in hidden)
