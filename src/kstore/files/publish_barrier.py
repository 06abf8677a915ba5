"""What a publication is fenced with: readers show nothing behind it until the whole is there.

``kstore.fence`` in a partition's folder says where the partition ended and which manifest counts
(:mod:`kstore.store.atomic_publish`). While that manifest exists, what lies behind is not published.
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
    """Where a partition ended before a publication that is not over: what readers show."""

    segment: int  # base offset of the segment that was active
    position: int  # its size
    offset: int  # the log end offset
    manifest: str  # path

    def stands(self, files: Files) -> bool:
        """Whether the publication is still under way, or waits to be undone."""
        return files.kind(self.manifest) is not None


def read_barrier(files: Files, directory: str) -> PublishBarrier | None:
    """A partition's fence, if one is there that counts.

    Raises CorruptFileError, NewerFormatError: what it meant is not guessed at.
    """
    path = os.path.join(directory, FENCE)
    if files.kind(path) is None:
        return None
    try:
        document = parse(files, path)
    except StorageError:
        if files.kind(path) is None:  # removed meanwhile: the publication is over
            return None
        raise
    try:
        fence = PublishBarrier(
            int(document["segment"]),
            int(document["position"]),
            int(document["offset"]),
            os.path.normpath(os.path.join(directory, str(document["manifest"]))),
        )
    except (KeyError, TypeError, ValueError):
        raise unreadable(path) from None
    return fence if fence.stands(files) else None


def check_barrier(files: Files, directory: str, log_dirs: Iterable[str]) -> None:
    """For a writer: remove a fence that counts no more, refuse one that others must take away.

    Raises RecoveryNeededError where the manifest lies in a directory that is not the store's.
    """
    path = os.path.join(directory, FENCE)
    if files.kind(path) is None:
        return
    fence = read_barrier(files, directory)
    if fence is None:
        files.remove(path)
    elif os.path.dirname(fence.manifest) not in set(log_dirs):
        raise RecoveryNeededError(
            "a publication that was cut short has to be undone first: open the store with all of "
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
    """The error for what cannot be one of these files."""
    return CorruptFileError(
        "not what kstore writes about a publication; moved away, what was published in part "
        "would show",
        path=path,
    )
