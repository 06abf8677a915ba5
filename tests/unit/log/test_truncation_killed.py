"""A process is killed between a truncation and what follows it: the next opening finishes it."""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.checkpoint.cleaner_offsets import read_cleaner_offset
from kstore.checkpoint.known_gaps import note_gaps, read_known_gaps
from kstore.cli import main
from kstore.files.filenames import CLEANER_OFFSETS, KNOWN_GAPS, REMOVED_ENDS
from kstore.files.files import DISK
from support.stores import QUIET, python

KILLED = 9
COMPACTED = LogConfig(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0
)


KILLED_AT = """
import os, sys
import kstore
from kstore.files.files import Files

root, offset, name = sys.argv[1:]

class KilledAt(Files):
    native = False

    def remove(self, path):
        self.check(path)
        super().remove(path)

    def rename(self, source, target):
        self.check(target)
        super().rename(source, target)

    def check(self, path):
        if os.path.basename(path) == name:
            os._exit(9)

config = kstore.StoreConfig(background=False)
kstore.Store(root, config=config, files=KilledAt())["t"][0].truncate_to(int(offset))
"""


def truncate_and_kill(root: Path, offset: int, name: str) -> None:
    """Truncate in another process, which dies before it replaces or removes a file."""
    python(KILLED_AT, root, offset, name, status=KILLED)


@pytest.mark.parametrize("end", [14, 10, 4])
def test_gaps_behind_the_log_end_are_removed_by_the_next_opening(tmp_path: Path, end: int) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for _ in range(5):
            log.extend([b"a"] * 2)
        log.extend([b"b"] * 10)
        log.truncate_to(18)
        log.append(b"c")
    truncate_and_kill(tmp_path, end, KNOWN_GAPS)
    assert read_known_gaps(DISK, tmp_path / "t-0") == [(10, 18)]
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].end_offset == min(end, 10)  # as long as no segment begins at 14
        assert read_known_gaps(DISK, tmp_path / "t-0") == []
    assert main(["verify", "--log-dir", str(tmp_path)]) == 0


def test_an_opening_that_shortens_no_gap_does_not_replace_the_file(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.extend([b"a"] * 10)
        log.truncate_to(4)
        log.append(b"c")
    note_gaps(DISK, tmp_path / "t-0", [(0, 4)])
    before = (tmp_path / "t-0" / KNOWN_GAPS).stat()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].end_offset == 5
    after = (tmp_path / "t-0" / KNOWN_GAPS).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_records_behind_a_truncation_are_compacted_by_the_next_writer(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=COMPACTED)[0]
        for value in range(20):
            log.append(b"%d" % value, key=b"%d" % value)
            if value % 5 == 4:
                log.roll()
        log.compact()
        log.append(b"last", key=b"last")
    assert read_cleaner_offset(DISK, str(tmp_path / "t-0"), ("t", 0)) == 20
    truncate_and_kill(tmp_path, 12, CLEANER_OFFSETS)
    assert read_cleaner_offset(DISK, str(tmp_path / "t-0"), ("t", 0)) == 20
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert log.end_offset == 12
        base = log.segments.views[-1].base_offset
        assert base <= 10
        assert read_cleaner_offset(DISK, str(tmp_path / "t-0"), ("t", 0)) == base
        for value in range(8):
            log.append(b"%d" % value, key=b"same")
        log.roll()
        log.append(b"end", key=b"end")
        log.compact()
        assert [record.value for record in log if record.key == b"same"] == [b"7"]


def test_a_transaction_that_has_lost_only_its_marker_yet_ends_as_it_had(tmp_path: Path) -> None:
    """It lies entirely behind the truncation, whose segments are removed one by one."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.append(b"kept")
        log.roll()
        with store.transactional_producer("p") as producer:
            producer.begin_transaction()
            producer.send("t", b"aborted")
            producer.flush()
            log.roll()
            producer.abort_transaction()
            with producer.transaction():
                producer.send("t", b"committed")
    truncate_and_kill(tmp_path, 0, f"{1:020d}.log")
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store["t"][0]
        assert [record.value for record in log] == [b"kept", b"aborted"]
        assert (log.last_stable_offset, log.end_offset) == (3, 3)
        assert [record.value for record in log.view(isolation="read_committed")] == [b"kept"]
    assert not (tmp_path / "t-0" / REMOVED_ENDS).exists()
