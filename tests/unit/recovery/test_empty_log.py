"""A log that was opened for writing and closed without records: its next opening finds no fault."""

import logging
from pathlib import Path

import pytest

import kstore
from kstore.files import filenames
from kstore.files.files import DISK
from kstore.verify.partition import verify_partition


@pytest.mark.parametrize("rolled", [False, True])
def test_an_empty_active_segment_after_a_clean_stop_is_no_fault(
    rolled: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        if rolled:
            log.append(b"value")
            log.roll()
    caplog.set_level(logging.INFO)
    for _ in range(3):
        with kstore.open(tmp_path) as store:
            log = store["t"][0]
            assert log.recovery is not None
            assert not log.recovery.changed
            assert not log.recovery.faulty
            assert log.end_offset == rolled
    assert [entry.message for entry in caplog.records if "t-0" in entry.message] == []
    assert verify_partition(DISK, tmp_path / "t-0").findings == []
    with kstore.open(tmp_path) as store:
        assert store["t"][0].append(b"later") == rolled
    with kstore.open(tmp_path, "r") as store:
        assert [record.value for record in store["t"][0]][-1] == b"later"


def test_one_lost_index_of_an_empty_active_segment_is_rebuilt(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].append(b"value")
    path = tmp_path / "t-0" / filenames.log_name(0)
    path.write_bytes(b"")
    (tmp_path / "t-0" / filenames.index_name(0)).unlink()
    with kstore.open(tmp_path) as store:
        report = store["t"][0].recovery
        assert report is not None
        assert report.changed
