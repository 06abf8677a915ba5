"""What jobs that change a store share: their options, the store to themselves.

The driver holds the store's one-writer lock from before it plans until the last task's work is in
place. Tasks change nothing that anybody reads: they stage files (``StagedFiles``), which
the driver puts in place, one partition or one group of segments after the other.
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
    "this job changes it and needs it for itself. Close it there (a Kafka broker holds it as "
    "long as it runs), or raise --lock-timeout"
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
        help="how long to wait where another process writes the store (default: 60)",
    )


@contextmanager
def remove_staged_on_failure(files: Files, folders: Sequence[str]) -> Iterator[None]:
    """Remove what executors have staged in these folders where the work fails."""
    try:
        yield
    except Exception:
        for folder in folders:
            with suppress(StorageError):
                remove_staged(files, folder)
        raise
