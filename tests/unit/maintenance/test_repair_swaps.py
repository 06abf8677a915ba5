"""Repair of a directory in which a compaction was interrupted: nothing of it is damaged."""

import shutil
import subprocess
import sys

import pytest

import kstore
from kstore.files import filenames
from oracle import writer
from oracle.plain import PlainRecord


def fill(path, key=lambda number: number):
    config = kstore.LogConfig(segment_bytes=2000, cleanup_policy="compact")
    with kstore.open(path) as store:
        log = store.create_topic("t", config=config)[0]
        for number in range(100):
            log.append(b"x" * 100, key=b"%d" % key(number))
    return path / "t-0"


def test_a_pending_swap_beside_its_old_segment_is_no_damage(tmp_path):
    partition = fill(tmp_path / "data")
    path = sorted(partition.glob("*.log"))[1]
    shutil.copy(path, f"{path}.swap")
    (found,) = kstore.plan_repair(partition).partitions
    assert found.damages == []
    assert found.ok
    assert found.left_out == [
        f"skipped: {path.name}.swap, of an unfinished swap: the segments it would replace are kept"
    ]


def test_a_pending_swap_with_other_offsets_than_its_segment_is_damage(tmp_path):
    partition = fill(tmp_path / "data")
    records = [PlainRecord(offset, 1_000_000, b"k", b"v") for offset in (0, 1)]
    (partition / filenames.log_name(0, ".swap")).write_bytes(writer.batch(records, codec=0))
    (found,) = kstore.plan_repair(partition).partitions
    assert {damage.kind for damage in found.damages} == {"doubled"}
    assert not found.ok


@pytest.mark.parametrize("renames", [1, 2, 3])
@pytest.mark.parametrize("distinct", [True, False])
def test_a_compaction_that_ended_at_a_rename_leaves_no_damage(renames, distinct, tmp_path):
    path = tmp_path / "data"
    fill(path, lambda number: number if distinct or number % 2 else 0)
    script = f"""
import os, kstore
count = 0
def counted(source, target, rename=os.rename, **options):
    global count
    rename(source, target, **options)
    count += 1
    if count == {renames}:
        os._exit(9)
store = kstore.open({str(path)!r}, config=kstore.StoreConfig(background=False))
os.rename = os.replace = counted
store["t"][0].compact()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert list((path / "t-0").glob("*.swap"))
    found = kstore.plan_repair(path)
    assert found.ok, [each.damages for each in found.partitions]
