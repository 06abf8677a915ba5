"""Every sync of a scenario fails once; what is acknowledged after the log is reopened survives."""

import errno
import os
import shutil
from random import Random

import pytest

from torture import io_errors
from torture.io_errors import FailingDisk
from torture.parts import Figures, quietly, scratch


class Listing(FailingDisk):
    """Notes which of its calls are syncs."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.syncs: list[int] = []

    def fdatasync(self, fd: int) -> None:
        self.syncs.append(self.count)
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self.syncs.append(self.count)
        super().fsync(fd)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["close and open", "prewritten"])
def test_records_flushed_after_a_failed_sync_survive_a_power_cut(name: str) -> None:
    figures, found = Figures(), []
    with quietly(), scratch() as base:
        os.mkdir(f"{base}/run")
        disk = Listing(f"{base}/run/0")
        io_errors.run(disk.root, name, disk)
        os.mkdir(f"{base}/state")
        for at in sorted({*disk.syncs}):
            shutil.rmtree(f"{base}/state/data", ignore_errors=True)
            failing = FailingDisk(f"{base}/state/data", at, errno.EIO)
            try:
                io_errors.fail_one(failing, name, 2, Random(at), figures)
            except Exception as error:  # whatever it is, it is a finding
                found.append(f"sync at call {at}: {type(error).__name__}: {error}")
    assert found == []
    assert figures.counts["failures"] > 10
