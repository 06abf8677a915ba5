"""The file of ``--resume``: reports of finished partitions, and a fingerprint of each."""

import errno
import json
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from kstore.errors import InvalidConfigError, StorageError
from kstore.log.log import Log
from kstore.partition_files import DISK, Files, OpenFile, filenames, read_topic_id

_LARGEST = 1 << 40  # bytes of a resume file
_INTERVAL = 1.0  # seconds between two writes

Report = TypeVar("Report")


def fingerprint_segments(files: Files, log: Log) -> dict[str, Any]:
    """The fingerprint of a partition by its log files: topic id, log start, segments.

    A file that was modified has another modification time, or at least another ctime, which no
    program can set.
    """
    names = [filenames.log_name(view.base_offset) for view in log.segments.views]
    sizes = [view.size for view in log.segments.views]
    return {
        "topic_id": read_topic_id(files, log.path),
        "start": log.start_offset,
        "segments": [
            [*_stamp(files, log.path, name), size] for name, size in zip(names, sizes, strict=True)
        ],
    }


def fingerprint_folder(files: Files, path: str) -> list[list[Any]]:
    """The fingerprint of a partition by all files of its directory."""
    return [_stamp(files, path, name) for name in sorted(files.listdir(path))]


def _stamp(files: Files, folder: str, name: str) -> list[Any]:
    """Name, size, inode and times of a file; only the name if it was removed meanwhile."""
    try:
        about = files.about(os.path.join(folder, name))
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        return [name]
    return [name, about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns]


class ResumeFile(Generic[Report]):
    """The reports of finished partitions by path, also those of earlier runs that the file has.

    ``what`` describes job and options: a file of another job, or of other options, is refused, and
    so is a corrupt file, except for an incomplete last line. The first line of the file describes
    the job. Each other line has the reports since the line before: the file is only appended to.
    """

    def __init__(
        self,
        path: str | None,
        what: dict[str, Any],
        load: Callable[[dict[str, Any]], Report],
        dump: Callable[[Report], dict[str, Any]] = asdict,  # type: ignore[assignment]
        files: Files = DISK,
    ) -> None:
        self._path = path
        self._files = files
        self._dump = dump
        self._what = json.loads(json.dumps(what))
        self._next = 0.0
        self._size: int | None = None  # of the complete lines; None: the file does not exist
        self._waiting: dict[str, dict[str, Any]] = {}  # not in the file
        self._reports: dict[str, Report] = {}
        self._of: dict[str, Any] = {}
        self._at: dict[str, str] = {}
        if path is not None and files.exists(path):
            self._read(path, load)

    def _read(self, path: str, load: Callable[[dict[str, Any]], Report]) -> None:
        try:
            first, *rest = self._files.read(path, limit=_LARGEST).split(b"\n")
            what = json.loads(first)["job"]
            if what == self._what:
                for line in rest[:-1]:
                    self._take(json.loads(line), load)
        except _UNREADABLE as error:
            raise InvalidConfigError(
                f"{path} is not a resume file ({error!r}): remove it, or name another file"
            ) from None
        if what != self._what:
            raise InvalidConfigError(
                f"{path} belongs to another job, {what}, and this one is {self._what}: remove it, "
                "or name another file"
            )
        self._size = len(first) + 1 + sum(len(line) + 1 for line in rest[:-1]) if rest else None

    def _take(self, entry: dict[str, Any], load: Callable[[dict[str, Any]], Report]) -> None:
        for key, tree in entry["done"].items():
            self._reports[key] = load(dict(tree))
            self._of[key] = entry["of"].get(key)
            self._at[key] = str(entry["at"])

    def forget_changed(self, of: dict[str, Any]) -> None:
        """Drop the reports of partitions whose current fingerprint, by key, is another one."""
        for key, fingerprint in of.items():
            if key in self._reports and self._of[key] != json.loads(json.dumps(fingerprint)):
                del self._reports[key]

    def forget(self, key: str) -> None:
        """Drop a report: its partition is processed again."""
        self._reports.pop(key, None)

    def taken_at(self, key: str) -> str | None:
        """When an earlier run saved a report, ISO 8601; None for a report of this run."""
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
        """Add some reports and write them at once."""
        for key, report in reports.items():
            self._note(key, report, None)
        self.close()

    def add(self, key: str, report: Report, *, final: bool = True, of: Any = None) -> None:
        """Add a report with its fingerprint; one that is not final is not written to the file."""
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
        """The job is finished: remove the file, so that a later run does not resume from it."""
        self._waiting, self._size = {}, None
        if self._path is not None and self._files.exists(self._path):
            self._files.remove(self._path)

    def close(self) -> None:
        """Write the new reports."""
        if self._path is None or not self._waiting:
            return
        if self._size is None:
            line = json.dumps({"job": self._what}).encode() + b"\n"
            self._files.write_atomically(self._path, line)
            self._size = len(line)
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "done": {key: entry["report"] for key, entry in self._waiting.items()},
            "of": {key: entry["of"] for key, entry in self._waiting.items() if entry["of"]},
        }
        line = json.dumps(entry).encode() + b"\n"
        with OpenFile(self._files, self._path, os.O_WRONLY | os.O_APPEND) as fd:
            self._files.truncate(fd, self._size)  # cuts off an incomplete line
            self._files.write(fd, line)
            self._files.fdatasync(fd)
        self._size += len(line)
        self._waiting = {}


# Errors of reading a corrupt file, or one that is no resume file.
_UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    zlib.error,
)
