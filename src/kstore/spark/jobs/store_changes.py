"""Options and clean-up of the jobs that change a store.

The driver holds the store's one-writer lock from before it plans until the work of the last task
is published. Tasks change no file that readers use: they stage files (``StagingArea``), which the
driver renames, one partition or one group of segments after the other.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from kstore.arguments import number
from kstore.errors import StorageError
from kstore.partition_files import Files, remove_staged
from kstore.spark.jobs.command import add_common
from kstore.spark.jobs.reports import add_reporting

LOCK_TIMEOUT_MS = 60_000
LOCK_REASON = (
    "this job must be the only writer. Close the store in the other process (a Kafka broker holds "
    "the lock as long as it runs), or raise --lock-timeout"
)


def add_changing(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    add_flags(parser)


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_reporting(parser)
    parser.add_argument(
        "--lock-timeout",
        type=number(0, 1_000_000_000),
        default=LOCK_TIMEOUT_MS / 1000,
        metavar="SECONDS",
        help="how long to wait if another process writes the store (default: 60)",
    )


@contextmanager
def remove_staged_on_failure(files: Files, folders: Sequence[str]) -> Iterator[None]:
    """If the work fails, remove the files that executors have staged in these directories."""
    try:
        yield
    except Exception:
        for folder in folders:
            with suppress(StorageError):
                remove_staged(files, folder)
        raise
