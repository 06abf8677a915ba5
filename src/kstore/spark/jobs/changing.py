"""What jobs that change a store share: their options, the store to themselves, a file to resume.

The driver holds the store's one-writer lock from before it plans until the last task's work is in
place. Tasks change nothing that anybody reads: they stage files (:mod:`kstore.log.staged`), which
the driver puts in place, one partition or one group of segments after the other.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from kstore.errors import InvalidConfigError, StorageError
from kstore.log.files import DISK
from kstore.log.staged import remove_staged
from kstore.spark.jobs.command import add_common

LOCK_TIMEOUT_MS = 60_000
LOCK_REASON = (
    "this job changes it and needs it for itself. Close it there (a Kafka broker holds it as "
    "long as it runs), or raise --lock-timeout"
)
_INTERVAL = 1.0  # seconds between two writings of what is done

Report = TypeVar("Report")


def add_changing(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    add_flags(parser)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument(
        "--resume", metavar="FILE", help="keep what is done in this file, and go on from it"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, change nothing"
    )
    parser.add_argument(
        "--lock-timeout",
        type=float,
        default=LOCK_TIMEOUT_MS / 1000,
        metavar="SECONDS",
        help="how long to wait where another process writes the store (default: 60)",
    )


@contextmanager
def nothing_left(folders: Sequence[str]) -> Iterator[None]:
    """Where the work fails, what executors have staged in these folders goes at once."""
    try:
        yield
    except Exception:
        for folder in folders:
            with suppress(StorageError):
                remove_staged(DISK, folder)
        raise


class Finished(Generic[Report]):
    """Reports of what is done, by path; those of an earlier run too, where a file keeps them.

    ``what`` names job and options: a file of another job, or of other options, is refused.
    """

    def __init__(
        self, path: str | None, what: dict[str, Any], load: Callable[[dict[str, Any]], Report]
    ) -> None:
        self._path = path
        self._what = json.loads(json.dumps(what))
        self._next = 0.0
        self._dirty = False
        self._trees: dict[str, dict[str, Any]] = {}
        self._reports: dict[str, Report] = {}
        if path is not None and DISK.exists(path):
            self._load(path, load)

    def _load(self, path: str, load: Callable[[dict[str, Any]], Report]) -> None:
        try:
            document = json.loads(DISK.read(path))
            what, trees = document["job"], document["done"]
            reports = {key: load(dict(tree)) for key, tree in trees.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidConfigError(
                f"{path} is no file to resume from ({error!r}): remove it, or name another file"
            ) from None
        if what != self._what:
            raise InvalidConfigError(
                f"{path} is of another job, {what}, and this one is {self._what}: remove it, or "
                "name another file"
            )
        self._trees, self._reports = trees, reports

    def get(self, key: str) -> Report | None:
        return self._reports.get(key)

    def __getitem__(self, key: str) -> Report:
        return self._reports[key]

    def __contains__(self, key: object) -> bool:
        return key in self._reports

    def add(self, key: str, report: Report, *, final: bool = True) -> None:
        """Note a report; one that is not final is done again after a stop."""
        self._reports[key] = report
        if not final:
            return
        self._trees[key] = asdict(report)  # type: ignore[call-overload]  # a dataclass
        self._dirty = True
        if time.monotonic() > self._next:
            self.close()
            self._next = time.monotonic() + _INTERVAL

    def end(self) -> None:
        """Everything is done: the file goes, lest a later run takes it for its own."""
        self._dirty = False
        if self._path is not None and DISK.exists(self._path):
            DISK.remove(self._path)

    def close(self) -> None:
        """Write down what is done."""
        if self._path is not None and self._dirty:
            document = {"job": self._what, "done": self._trees}
            DISK.write_atomically(self._path, json.dumps(document).encode())
            self._dirty = False


def print_report(as_json: bool, tree: dict[str, Any], lines: Sequence[str]) -> None:
    print(json.dumps(tree, indent=2) if as_json else "\n".join(lines))
