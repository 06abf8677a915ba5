"""DumpLogSegments over everything that a reindex rebuilt: it finds nothing wrong."""

import pytest

from interop.dump import assert_sane_indexes, dump_log
from interop.node import Node
from kstore.cli import main
from kstore.config import LogConfig
from kstore.files.files import DISK
from kstore.files.staging_area import StagingArea
from support.jobs import lose_side_files, make_store, reindex_partition


def by_tool(log_dir):
    """Its opening recovers what is missing first."""
    assert main(["reindex", "--log-dir", str(log_dir)]) == 0


def by_function(log_dir):
    """As the tasks of a job: no recovery before it."""
    config = LogConfig(segment_bytes=4000, index_interval_bytes=300)
    for folder in log_dir.glob("*-*"):
        if folder.is_dir():
            assert not reindex_partition(DISK, str(folder), config).damages


@pytest.mark.parametrize("reindex", [by_tool, by_function])
def test_indexes_are_sane(kafka, tmp_path, reindex):
    store_dir = tmp_path / "data"
    make_store(store_dir)
    lose_side_files(store_dir)
    reindex(store_dir)
    indexes = sorted([*store_dir.rglob("*.index"), *store_dir.rglob("*.timeindex")])
    assert len(indexes) > 20
    assert_sane_indexes(kafka, indexes)
    aborted = sorted(store_dir.rglob("*.txnindex"))
    shown = dump_log(kafka, aborted)
    assert shown.complaints == ""
    assert all("producerId: 100" in shown.files[str(path)].lines[0] for path in aborted)
    assert aborted
    assert dump_log(kafka, sorted(store_dir.rglob("*.snapshot"))).complaints == ""


def test_a_broker_starts_beside_what_a_killed_run_staged(kafka, tmp_path):
    """It takes no staged file for one of its own, whose name would have to begin with an offset."""
    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("orders", 1)
        node.produce("orders", [("k", "before")])
        node.stop()
        folder = node.log_dir / "orders-0"
        staged = StagingArea(DISK, folder)
        for suffix in ("index", "timeindex", "txnindex", "snapshot", "log.cleaned", "log.swap"):
            staged.write_atomically(f"{staged.directory}/{0:020d}.{suffix}", b"")
        assert len(staged.listdir(staged.directory)) == 6
        node.start()
        assert [each.value for each in node.consume("orders", 1)] == ["before"]
        node.stop()
    finally:
        node.kill()
