"""Audits a partition whose owner may move it to another log directory meanwhile."""

import errno
from collections.abc import Callable
from typing import Any

from kstore.errors import KStoreError, StorageError
from kstore.files.files import Files
from kstore.verify.partition import VerifyReport, verify_partition

_AUDITS = 10  # of one partition, at most


def verify_moving_partition(
    files: Files, locate: Callable[[], str], **options: Any
) -> VerifyReport:
    """As :func:`verify_partition`; starts again in the new directory if the partition was moved.

    ``locate`` returns the partition's current directory. Raises StorageError where each of several
    audits was interrupted by a move.
    """
    failure: KStoreError | None = None
    for _ in range(_AUDITS):
        path, previous, failure = locate(), failure, None
        before = files.identity_of(path)
        try:
            report = verify_partition(files, path, **options)
        except KStoreError as error:
            failure = error
        now = files.identity_of(path)
        if now is None or before is None or now[0] != before[0]:
            continue
        if failure is None:
            return report
        if not _may_be_moved(failure, previous):
            break
    if failure is not None:
        raise failure
    raise StorageError(
        f"the partition was moved {_AUDITS} times, each time before its audit ended", path=path
    )


def _may_be_moved(failure: KStoreError, previous: KStoreError | None) -> bool:
    """Whether a file did not exist for a moment: two moves may have brought the directory back.

    The new directory can have the inode of the old one.
    """
    is_absent = isinstance(failure, StorageError) and failure.errno == errno.ENOENT
    return is_absent and (previous is None or str(previous) != str(failure))
