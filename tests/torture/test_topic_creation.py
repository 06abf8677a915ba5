"""A disk that fails while a topic is created over two log directories."""

import errno
import shutil
from pathlib import Path
from random import Random

from torture.io_errors import FailingDisk, fail_one
from torture.parts import Figures, quietly


def test_a_creation_that_an_offline_directory_interrupts_is_finished_later(tmp_path: Path) -> None:
    """No call that fails leaves a topic with some of its partitions: calls of the creation."""
    root = tmp_path / "data"
    figures = Figures()
    with quietly():
        for at in range(30, 60):
            shutil.rmtree(root, ignore_errors=True)
            fail_one(FailingDisk(str(root), at, errno.EIO), "move", 1, Random(at), figures)
    assert figures.counts["failures"] == 30
    assert figures.counts["raised"] > 20
