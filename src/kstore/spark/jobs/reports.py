"""What jobs tell of each partition, and how that is kept in a file to go on from."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Generic, Protocol, TypeVar

from kstore.errors import InvalidConfigError
from kstore.log.files import DISK

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


def as_tree(reports: Sequence[Told]) -> dict[str, Any]:
    return {
        "ok": all(each.ok for each in reports),
        "partitions": [_as_tree(each) for each in reports],
    }


def _as_tree(report: Told) -> dict[str, Any]:
    tree = asdict(report)  # type: ignore[call-overload]  # a dataclass
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

    ``what`` names job and options: a file of another job, or of other options, is refused.
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

    def items(self) -> list[tuple[str, Report]]:
        return list(self._reports.items())

    def add_all(self, reports: dict[str, Report]) -> None:
        """Note some reports: the file gets all of them at once."""
        for key, report in reports.items():
            self._reports[key] = report
            self._trees[key] = self._dump(report)
        self._dirty = bool(reports) or self._dirty
        self.close()

    def add(self, key: str, report: Report, *, final: bool = True) -> None:
        """Note a report; one that is not final is done again after a stop."""
        self._reports[key] = report
        if not final:
            return
        self._trees[key] = self._dump(report)
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
