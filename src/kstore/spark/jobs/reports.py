"""What jobs tell of each partition, and how that is kept in a file to go on from."""

import argparse
import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from kstore.errors import InvalidConfigError
from kstore.log.filenames import log_name
from kstore.log.files import DISK
from kstore.log.identity import read_topic_id
from kstore.log.log import Log

_LARGEST = 1 << 40  # bytes of a file to resume from
_INTERVAL = 1.0  # seconds between two writings of what is done

Report = TypeVar("Report")


class Told(Protocol):
    """A dataclass that a job has for each partition; with a ``report``, its fields are told too."""

    @property
    def ok(self) -> bool: ...


def add_reporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument(
        "--resume",
        metavar="FILE",
        help="keep what is done in this file until all is, and go on from it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, change nothing"
    )


def made_of(log: Log) -> dict[str, Any]:
    """What tells whether a partition is as it was: its topic's id, its segments and their files."""
    segments = []
    for view in log.segments.views:
        inode, _ = DISK.identity_of(os.path.join(log.path, log_name(view.base_offset))) or (None, 0)
        segments.append([view.base_offset, view.size, inode])
    topic_id = read_topic_id(DISK, log.path)
    return {"topic_id": topic_id, "start": log.start_offset, "segments": segments}


def as_tree(reports: Sequence[Told]) -> dict[str, Any]:
    return {
        "ok": all(each.ok for each in reports),
        **from_file(reports),
        "partitions": [_as_tree(each) for each in reports],
    }


def from_file(reports: Sequence[Told]) -> dict[str, Any]:
    """How many reports are of an earlier run, and of when the oldest is; nothing of none."""
    times = [when for each in reports if (when := getattr(each, "from_file", None))]
    return {"from_file": len(times), "from_file_since": min(times)} if times else {}


def from_file_lines(tree: dict[str, Any]) -> list[str]:
    """A line on them, where there are some."""
    if "from_file" not in tree:
        return []
    return [
        f"{tree['from_file']} of them were done by an earlier run, since {tree['from_file_since']},"
        " and are as they were: taken from the file"
    ]


def _as_tree(report: Told) -> dict[str, Any]:
    tree = asdict(report)  # type: ignore[call-overload]  # a dataclass
    tree.pop("from_file", None)
    tree |= tree.pop("report", {})
    error = tree.pop("error", None)
    first = {name: tree.pop(name) for name in ("topic", "partition", "path") if name in tree}
    return {**first, "ok": report.ok, **tree, **({} if error is None else {"error": error})}


def verdict(reports: Sequence[Told]) -> str:
    """The last line of a report."""
    bad = sum(not each.ok for each in reports)
    return f"{len(reports)} partitions: " + (f"{bad} not ok" if bad else "all ok")


def show(as_json: bool, reports: Sequence[Told], lines: Sequence[str]) -> int:
    """Print a job's reports, as JSON or in lines; its exit status."""
    tree = as_tree(reports)
    print(json.dumps(tree, indent=2) if as_json else "\n".join(lines))
    return 0 if tree["ok"] else 1


class Finished(Generic[Report]):
    """Reports of what is done, by path; those of an earlier run too, where a file keeps them.

    ``what`` names job and options: a file of another job, or of other options, is refused. So is
    one that cannot be read, but for a last line that was not written whole. Its first line names
    the job, each other one is what was done since the one before it: the file grows, and is not
    written anew.
    """

    def __init__(
        self,
        path: str | None,
        what: dict[str, Any],
        load: Callable[[dict[str, Any]], Report],
        dump: Callable[[Report], dict[str, Any]] = asdict,  # type: ignore[assignment]
    ) -> None:
        self._path = path
        self._dump = dump
        self._what = json.loads(json.dumps(what))
        self._next = 0.0
        self._size: int | None = None  # of the whole lines; None: there is no file
        self._waiting: dict[str, dict[str, Any]] = {}  # not in the file
        self._reports: dict[str, Report] = {}
        self._of: dict[str, Any] = {}
        self._at: dict[str, str] = {}
        if path is not None and DISK.exists(path):
            self._read(path, load)

    def _read(self, path: str, load: Callable[[dict[str, Any]], Report]) -> None:
        try:
            first, *rest = DISK.read(path, limit=_LARGEST).split(b"\n")
            what = json.loads(first)["job"]
            if what == self._what:
                for line in rest[:-1]:
                    self._take(json.loads(line), load)
        except _BROKEN as error:
            raise InvalidConfigError(
                f"{path} is no file to resume from ({error!r}): remove it, or name another file"
            ) from None
        if what != self._what:
            raise InvalidConfigError(
                f"{path} is of another job, {what}, and this one is {self._what}: remove it, or "
                "name another file"
            )
        self._size = len(first) + 1 + sum(len(line) + 1 for line in rest[:-1]) if rest else None

    def _take(self, entry: dict[str, Any], load: Callable[[dict[str, Any]], Report]) -> None:
        for key, tree in entry["done"].items():
            self._reports[key] = load(dict(tree))
            self._of[key] = entry["of"].get(key)
            self._at[key] = str(entry["at"])

    def forget_changed(self, of: dict[str, Any]) -> None:
        """Leave out each report that was made of something else than there is now, by key."""
        for key, now in of.items():
            if key in self._reports and self._of[key] != json.loads(json.dumps(now)):
                del self._reports[key]

    def taken_at(self, key: str) -> str | None:
        """When an earlier run noted a report, ISO 8601; None for one of this run."""
        return self._at.get(key) if key in self._reports else None

    def get(self, key: str) -> Report | None:
        return self._reports.get(key)

    def __getitem__(self, key: str) -> Report:
        return self._reports[key]

    def __contains__(self, key: object) -> bool:
        return key in self._reports

    def items(self) -> list[tuple[str, Report]]:
        return list(self._reports.items())

    def add_all(self, reports: dict[str, Report]) -> None:
        """Note some reports: the file gets all of them at once."""
        for key, report in reports.items():
            self._note(key, report, None)
        self.close()

    def add(self, key: str, report: Report, *, final: bool = True, of: Any = None) -> None:
        """Note a report, and what it was made of; one that is not final is done again."""
        if not final:
            self._reports[key] = report
            self._at.pop(key, None)
            return
        self._note(key, report, of)
        if time.monotonic() > self._next:
            self.close()
            self._next = time.monotonic() + _INTERVAL

    def _note(self, key: str, report: Report, of: Any) -> None:
        self._reports[key] = report
        self._at.pop(key, None)
        if self._path is not None:
            self._waiting[key] = {"report": self._dump(report), "of": of}

    def end(self) -> None:
        """Everything is done: the file goes, lest a later run takes it for its own."""
        self._waiting, self._size = {}, None
        if self._path is not None and DISK.exists(self._path):
            DISK.remove(self._path)

    def close(self) -> None:
        """Write down what is done."""
        if self._path is None or not self._waiting:
            return
        if self._size is None:
            line = json.dumps({"job": self._what}).encode() + b"\n"
            DISK.write_atomically(self._path, line)
            self._size = len(line)
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "done": {key: each["report"] for key, each in self._waiting.items()},
            "of": {key: each["of"] for key, each in self._waiting.items() if each["of"]},
        }
        line = json.dumps(entry).encode() + b"\n"
        fd = DISK.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            DISK.truncate(fd, self._size)  # behind it: a line that was not written whole
            DISK.write(fd, line)
            DISK.fdatasync(fd)
        finally:
            DISK.close(fd)
        self._size += len(line)
        self._waiting = {}


# What a file that is damaged, or was never of this kind, may raise where it is read.
_BROKEN = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    zlib.error,
)
