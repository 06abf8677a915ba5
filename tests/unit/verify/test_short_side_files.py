"""Side files of a few bytes: every tool reports them, or passes over them, and none crashes."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstore.checkpoint.known_gaps import read_known_gaps
from kstore.checkpoint.uncleanable_partitions import read_uncleanable
from kstore.cli.dump_index import check_offset_index, check_time_index
from kstore.errors import CorruptFileError
from kstore.files.files import DISK
from kstore.files.publish_barrier import read_barrier
from kstore.recovery.lost_segments import read_lost
from support.side_files import (
    TEXTS,
    dump,
    files_of_segments,
    make_store,
    other_side_files,
    use_everything,
)
from support.stores import MARKER

LENGTHS = range(31)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("side_files") / "data"
    make_store(root)
    return root


def test_dump_log_reads_side_files_of_every_length(template: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(template, root)
    rng = random.Random(14)
    for path in files_of_segments(root):
        for length in LENGTHS:
            for data in (bytes(length), rng.randbytes(length)):
                path.write_bytes(data)
                dump(path)


def contents(rng: random.Random) -> list[bytes]:
    """Zeros and other bytes of some lengths, and some of the texts."""
    lengths = rng.sample(LENGTHS, 3)
    return [bytes(lengths[0]), *map(rng.randbytes, lengths[1:]), *rng.sample(TEXTS, 3)]


@pytest.mark.parametrize("number", range(8 + 20))
def test_every_tool_reads_any_bytes_in_a_side_file(
    template: Path, tmp_path: Path, number: int
) -> None:
    rng = random.Random(number)
    for count, data in enumerate(contents(rng)):
        root = tmp_path / f"data{count}"
        shutil.copytree(template, root)
        path = [*files_of_segments(root), *other_side_files(root)][number]
        if rng.random() < 0.5:
            (root / MARKER).unlink(missing_ok=True)
        path.write_bytes(data)
        use_everything(root, tmp_path / f"repaired{count}")


@pytest.mark.parametrize("size", [0, *range(12, 37, 12)])
@pytest.mark.parametrize("length", range(13))
def test_an_index_that_is_cut_while_it_is_checked_is_a_finding(size: int, length: int) -> None:
    """Its size is read before its entries."""
    for entry in (bytes(length), b"\xff" * length, b"\x7f" * length):
        for head in (b"", entry):
            for check in (
                lambda: check_time_index("x", size, head, entry, 0),  # noqa: B023
                lambda: check_offset_index("x", size, entry[:8], 0),  # noqa: B023
            ):
                try:
                    check()
                except CorruptFileError:
                    continue


@pytest.mark.parametrize(
    ("name", "read", "checked", "document"),
    [
        ("kstore.gaps", read_known_gaps, 0, {"format": 1, "gaps": [[1, 2]]}),
        ("kstore.lost", read_lost, 0, {"format": 1, "lost": [[1, 2, 3, True]]}),
        (
            "kstore.fence",
            read_barrier,
            0,
            {"format": 1, "segment": 0, "position": 0, "offset": 0, "manifest": "x"},
        ),
        (
            "kstore.uncleanable",
            read_uncleanable,
            1,  # not its format
            {
                "format": 1,
                "partitions": [{"topic": "t", "partition": 0, "error": "", "since_ms": 1}],
            },
        ),
    ],
)
def test_a_number_without_a_limit_is_a_corrupt_file(
    tmp_path: Path,
    name: str,
    read: Callable[..., Any],
    checked: int,
    document: dict[str, Any],
) -> None:
    text = json.dumps(document)
    digits = [at for at, each in enumerate(text) if each.isdigit()]
    for at in digits[checked:]:
        (tmp_path / name).write_text(f"{text[:at]}1e999{text[at + 1 :]}")
        with pytest.raises(CorruptFileError):
            read(DISK, str(tmp_path))
