"""Compares statistics of logs: the oracle's, and kstore's under the same names."""

from collections.abc import Iterable
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from kstore.files.files import DISK
from kstore.log.log import Log
from kstore.log.statistics import (
    HOUR_MS,
    SPREADS,
    STANDARD_ERROR,
    Stats,
    segments_of,
    survey_segments,
)
from oracle import stats as oracle
from oracle.plain import PlainBatch
from oracle.reader import read_log


def survey_log(log: Log) -> Stats:
    """kstore's statistics of a log, computed in one thread."""
    return survey_segments(DISK, log.path, segments_of(log))


def framed(data: bytes) -> list[tuple[bytes, PlainBatch]]:
    """The batches of a file, each with its bytes."""
    return [(data[b.position : b.position + b.size], b) for b in read_log(data).batches]


def slowly(logs: Iterable[Path]) -> dict[str, Any]:
    """The oracle's statistics of consecutive segments."""
    return oracle.of_batches([each for path in sorted(logs) for each in framed(path.read_bytes())])


def as_oracle(stats: Stats) -> dict[str, Any]:
    """kstore's statistics in the oracle's format, without the estimated number of keys."""
    names = set(oracle.of_batches([]))
    found = {name: getattr(stats, name) for name in names - {"hours", "keys"}}
    for name in ("formats", "codecs"):
        found[name] = {each: astuple(kind) for each, kind in found[name].items()}
    for name in SPREADS:
        found[name] = asdict(found[name])
    assert stats.rates.width == HOUR_MS
    return {**found, "hours": stats.rates.windows}


def compare(stats: Stats, expected: dict[str, Any]) -> None:
    """Assert that all statistics are equal, and that the key estimate is within its 99.99 %
    interval."""
    ours = as_oracle(stats)
    for name, figure in ours.items():
        assert figure == expected[name], name
    keys = expected["keys"]
    assert abs(stats.distinct_keys - keys) <= max(4 * STANDARD_ERROR * keys, 1)
