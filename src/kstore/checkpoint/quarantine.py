"""Names for quarantined files: bytes that recovery cut, and side files that do not parse."""

import os
from collections.abc import Container
from itertools import count
from pathlib import Path

from kstore.files import filenames
from kstore.files.files import Files


def free_name(names: Container[str], base_offset: int, position: int) -> str:
    """A name for cut bytes that is not among the directory's names."""
    return next(
        name
        for number in count()
        if (name := filenames.cut_name(base_offset, position, number)) not in names
    )


def keep_unreadable(files: Files, directory: str | os.PathLike[str], name: str) -> str:
    """Rename a side file that does not parse, to keep it for inspection; returns the name."""
    names = set(files.listdir(directory))
    kept = next(
        kept for number in count() if (kept := filenames.unreadable_name(name, number)) not in names
    )
    files.rename(Path(directory) / name, Path(directory) / kept)
    return kept
