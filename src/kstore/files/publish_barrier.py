"""The barrier of a publication: readers show nothing behind it until all of it is published.

``kstore.fence`` in a partition's folder has the partition's end and the path of the manifest
(:mod:`kstore.store.atomic_publish`). While that manifest exists, batches behind are unpublished.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kstore.errors import (
    CorruptFileError,
    KStoreError,
    NewerFormatError,
    RecoveryNeededError,
    StorageError,
)
from kstore.files.filenames import FENCE
from kstore.files.files import Files

FORMAT = 1
_NEWEST = 2  # of a manifest
LARGEST_MANIFEST = 1 << 28  # bytes; about 1.6 TB published at once


@dataclass(frozen=True, slots=True)
class PublishBarrier:
    """The end of a partition before an unfinished publication, up to which readers show it."""

    segment: int  # base offset of the segment that was active
    position: int  # its size
    offset: int  # the log end offset
    manifest: str  # path

    def stands(self, files: Files) -> bool:
        """Whether the publication is in progress, or is still to be undone."""
        return files.kind(self.manifest) is not None


def read_barrier(files: Files, directory: str) -> PublishBarrier | None:
    """A partition's barrier; None without one in effect.

    Raises CorruptFileError, NewerFormatError: a barrier is never ignored on a guess.
    """
    path = os.path.join(directory, FENCE)
    if files.kind(path) is None:
        return None
    try:
        document = parse(files, path)
    except StorageError:
        if files.kind(path) is None:  # removed meanwhile: the publication has ended
            return None
        raise
    try:
        fence = PublishBarrier(
            int(document["segment"]),
            int(document["position"]),
            int(document["offset"]),
            os.path.normpath(os.path.join(directory, str(document["manifest"]))),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise unreadable(path) from None
    return fence if fence.stands(files) else None


def check_barrier(files: Files, directory: str, log_dirs: Iterable[str]) -> None:
    """For a writer: remove a barrier without effect, refuse one that another store must remove.

    Raises RecoveryNeededError where the manifest is in a directory outside of the store.
    """
    path = os.path.join(directory, FENCE)
    if files.kind(path) is None:
        return
    fence = read_barrier(files, directory)
    if fence is None:
        files.remove(path)
    elif os.path.dirname(fence.manifest) not in set(log_dirs):
        raise RecoveryNeededError(
            "an interrupted publication has to be undone first: open the store with all of "
            f"its log directories, {os.path.dirname(fence.manifest)} among them",
            path=path,
        )


def parse(files: Files, path: str) -> dict[str, Any]:
    """The document of one of these files; CorruptFileError, NewerFormatError."""
    try:
        document = json.loads(files.read(path, limit=LARGEST_MANIFEST))
        version = document["format"]
        if not isinstance(version, int) or version < 1:
            raise ValueError(version)
    except KStoreError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError):
        raise unreadable(path) from None
    if version > _NEWEST:
        raise NewerFormatError(
            f"format {version} was written by a newer kstore; this one knows {_NEWEST}: open the "
            "store with the newer one",
            path=path,
        )
    return dict(document)


def unreadable(path: str) -> CorruptFileError:
    """The error for a file that is none of these."""
    return CorruptFileError(
        "not a file of kstore about a publication; if it is removed, records of an unfinished "
        "publication show",
        path=path,
    )
