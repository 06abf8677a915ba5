"""A read-only audit of partitions: every checksum, record, index entry and loss.

The package is called, too: ``kstore.verify("data")`` audits a log directory.

Modules:

- beside_moves: Audits a partition whose owner may move it to another log directory meanwhile
- distributed: An audit in separate ranges of segments, merged into the report of one complete
  audit
- log_dir_state: The state of a partition in its log directory, for an audit of the partition's
  files
- losses: Finds lost records of a partition from its segments, side files and checkpoints
- missing_folders: Finds partitions without a folder, according to their log directory
- partition: A read-only audit of one partition directory: every checksum, record, offset and index
  entry
- report_lines: The report of an audit as lines of text, and as an exit status
- segment: The audit of one segment: its batches, indexes, header checksums and transactions
- segment_walk: Walks one segment for an audit, window by window and in order, and reports what it
  finds
- transactions: The transactional side files of a partition, compared with the markers in its log
"""

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstore.verify.partition import VerifyReport


def verify_directory(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any
) -> "VerifyReport":
    """``kstore.verify(path)``: check every batch, record, offset and index entry of a directory.

    Opens the log directory with ``mode="r"``, beside a writer or a broker, and changes nothing.
    Options are those of :meth:`kstore.Log.verify`; errors those of :func:`kstore.open` and
    :meth:`kstore.Store.verify`. Thread safe.
    """
    import kstore

    with kstore.open(path, mode="r") as store:
        return store.verify(**options)


class _CallableModule(ModuleType):
    """This package, whose name in ``kstore`` is that of the function, too."""

    __call__ = staticmethod(verify_directory)


sys.modules[__name__].__class__ = _CallableModule
