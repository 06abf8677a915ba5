"""Producer states and aborted transactions of real brokers: read, and rebuilt from the log."""

import shutil
from pathlib import Path

import pytest

from kstore.files import filenames
from kstore.producer_state import snapshot
from kstore.segment import transaction_index
from oracle.reader import read_log as oracle_read
from support.logs import open_log, read_log

FOREVER = {"producer_id_expiration_ms": 2**62}
WITHOUT = ("zk-0.8.2.2", "zk-0.10.2.2")  # before idempotent producers


def partitions(broker_set, copy: Path) -> list[tuple[Path, dict[int, list]]]:
    """Folders whose broker left snapshots, with these, by offset."""
    found = []
    for partition in broker_set.partitions:
        folder = copy / partition.name
        snapshots = {
            filenames.parse(path.name).base_offset: snapshot.parse(path.read_bytes())
            for path in folder.glob("*.snapshot")
        }
        if snapshots:
            found.append((folder, partition, snapshots))
    return found


@pytest.fixture
def copy(broker_set, tmp_path) -> Path:
    target = tmp_path / "log-dir"
    shutil.copytree(broker_set.log_dir, target)
    return target


def opened(folder: Path, partition) -> object:
    return open_log(folder, log_start_offset=partition.beginning_offset, **FOREVER)


def test_snapshots_of_brokers_are_loaded(broker_set, copy):
    for folder, partition, snapshots in partitions(broker_set, copy):
        newest = snapshots[max(snapshots)]
        assert max(snapshots) == partition.end_offset, partition.name
        outside = read_log(folder)
        assert sorted(outside.producers()) == sorted(newest), partition.name
        log = opened(folder, partition)
        assert sorted(log.producers()) == sorted(newest), partition.name
        assert log.last_stable_offset == partition.last_stable_offset, partition.name
        log.close()
    assert partitions(broker_set, copy) or broker_set.name in WITHOUT


def comparable(broker_set, entries) -> list[tuple]:
    """0.11 counted an end marker's offset as its producer's last; that field is skipped there."""
    late = broker_set.name == "zk-0.11.0.3"
    return sorted(
        (*entry[:3], *entry[5:]) if late and entry.coordinator_epoch >= 0 else tuple(entry)
        for entry in entries
    )


def test_the_log_alone_gives_the_state_of_the_snapshots(broker_set, copy):
    for folder, partition, snapshots in partitions(broker_set, copy):
        for path in folder.glob("*.snapshot"):
            path.unlink()
        log = opened(folder, partition)
        expected = comparable(broker_set, snapshots[max(snapshots)])
        assert comparable(broker_set, log.producers()) == expected, partition.name
        assert log.last_stable_offset == partition.last_stable_offset, partition.name
        log.close()


def has_records(folder: Path, entry) -> bool:
    """Whether compaction left a record of an aborted transaction."""
    return any(
        batch.records
        for path in sorted(folder.glob("*.log"))
        for batch in oracle_read(path.read_bytes()).batches
        if batch.producer_id == entry.producer_id
        and not batch.control
        and entry.first_offset <= batch.base_offset < entry.last_offset
    )


@pytest.mark.parametrize("clean", [True, False])
def test_lost_transaction_indexes_are_rebuilt(broker_set, copy, clean):
    """Kafka keeps entries of transactions that compaction emptied: those hide nothing."""
    count = 0
    for folder, partition, _ in partitions(broker_set, copy):
        kept = {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}
        expected = [entry for name in sorted(kept) for entry in transaction_index.parse(kept[name])]
        if not expected:
            continue
        for pattern in ("*.txnindex", "*.snapshot"):
            for path in folder.glob(pattern):
                path.unlink()
        log = open_log(folder, clean=clean, log_start_offset=partition.beginning_offset, **FOREVER)
        again = {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}
        found = log.aborted_transactions(log.start_offset, log.end_offset)
        assert set(found) <= set(expected), partition.name
        for entry in set(expected) - set(found):
            assert not has_records(folder, entry), (partition.name, entry)
        if found == expected:
            again, kept = ({n: data for n, data in each.items() if data} for each in (again, kept))
            assert again == kept, partition.name
            count += len(found)
        log.close()
    assert count > 0 or broker_set.name in (*WITHOUT, "zk-2.8.2")
