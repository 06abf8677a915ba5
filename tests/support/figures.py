"""Figures of logs side by side: those of the oracle, and kstore's under the same names."""

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
    """kstore's figures of a log, walked in one thread."""
    return survey_segments(DISK, log.path, segments_of(log))


def framed(data: bytes) -> list[tuple[bytes, PlainBatch]]:
    """Batches of a file with their bytes."""
    return [(data[b.position : b.position + b.size], b) for b in read_log(data).batches]


def slowly(logs: Iterable[Path]) -> dict[str, Any]:
    """The oracle's figures of segments that follow one another."""
    return oracle.of_batches([each for path in sorted(logs) for each in framed(path.read_bytes())])


def as_oracle(stats: Stats) -> dict[str, Any]:
    """Kstore's figures as the oracle has them, all but the estimate of keys."""
    names = set(oracle.of_batches([]))
    found = {name: getattr(stats, name) for name in names - {"hours", "keys"}}
    for name in ("formats", "codecs"):
        found[name] = {each: astuple(kind) for each, kind in found[name].items()}
    for name in SPREADS:
        found[name] = asdict(found[name])
    assert stats.rates.width == HOUR_MS
    return {**found, "hours": stats.rates.windows}


def compare(stats: Stats, expected: dict[str, Any]) -> None:
    """All figures are the same; the number of keys is one of 99.99 % of all estimates."""
    ours = as_oracle(stats)
    for name, figure in ours.items():
        assert figure == expected[name], name
    keys = expected["keys"]
    assert abs(stats.distinct_keys - keys) <= max(4 * STANDARD_ERROR * keys, 1)
