"""The report of ``kstore spark stats``: a tree for JSON and the page, and lines of text."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from kstore.partition_files import (
    DAY_MS,
    SPREADS,
    STANDARD_ERROR,
    BatchKind,
    Rates,
    Spread,
    Stats,
    count_of,
)
from kstore.spark.jobs.reports import count_with_commas, from_file, from_file_lines

_APART = {"formats", "codecs", "rates", "key_registers", "damages", *SPREADS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """The statistics of one partition; ``error`` says why they are incomplete, if they are."""

    topic: str
    partition: int
    path: str
    log_start_offset: int
    stats: Stats
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run saved it

    @property
    def ok(self) -> bool:
        return self.error is None and self.stats.ok


def as_tree(reports: Sequence[PartitionStats]) -> Tree:
    """The store, its topics and their partitions; store and topics have sums only."""
    topics = []
    total = Stats()
    for topic, reports_of_topic in groupby(reports, key=attrgetter("topic")):
        topic_total, partitions = Stats(), []
        for report in reports_of_topic:
            topic_total.add_log(report.stats)
            partitions.append(_partition(report))
        total.add_log(topic_total)
        topics.append({"topic": topic, **_sum(topic_total), "partitions": partitions})
    ok = all(report.ok for report in reports)
    return {
        "ok": ok,
        "partitions": len(reports),
        **from_file(reports),
        "total": _sum(total),
        "topics": topics,
    }


def _partition(report: PartitionStats) -> Tree:
    return {
        "partition": report.partition,
        "path": report.path,
        "ok": report.ok,
        **({} if report.error is None else {"error": report.error}),
        "log_start_offset": report.log_start_offset,
        **_tree(report.stats),
    }


def _sum(stats: Stats) -> Tree:
    """The tree without the offsets, which have no sum."""
    own = ("first_offset", "end_offset", "first_record", "last_record")
    return {name: value for name, value in _tree(stats).items() if name not in own}


def _tree(stats: Stats) -> Tree:
    plain = {name: getattr(stats, name) for name in Stats.__dataclass_fields__}
    rates = stats.rates
    return {
        **{name: value for name, value in plain.items() if name not in _APART},
        "distinct_keys": {
            "estimate": stats.distinct_keys,
            "standard_error": round(STANDARD_ERROR, 5),
            "method": "HyperLogLog, 16384 registers",
        },
        "formats": {f"v{name}": _kind(kind) for name, kind in stats.formats.items()},
        "codecs": {name: _kind(kind) for name, kind in stats.codecs.items()},
        **{name: _spread(getattr(stats, name)) for name in SPREADS},
        "rates": {
            "window_ms": rates.width,
            "windows": _windows(rates, None),
            "days": _windows(rates, DAY_MS) if rates.width <= DAY_MS else None,
        },
        "damages": [asdict(damage) for damage in stats.damages],
    }


def _kind(kind: BatchKind) -> Tree:
    ratio = kind.ratio
    return {**asdict(kind), "compression_ratio": None if ratio is None else round(ratio, 3)}


def _spread(spread: Spread) -> Tree:
    mean = spread.mean
    return {
        "count": spread.count,
        "total": spread.total,
        "min": spread.least,
        "max": spread.most,
        "mean": None if mean is None else round(mean, 1),
        "p50_at_most": spread.at_most(0.5),
        "p99_at_most": spread.at_most(0.99),
        "buckets": [
            {"at_least": (1 << bits) >> 1, "at_most": (1 << bits) - 1, "count": count}
            for bits, count in enumerate(spread.buckets)
            if count
        ],
    }


def _windows(rates: Rates, width: int | None) -> list[Tree]:
    return [
        {"start": start, "records": records, "bytes": size}
        for start, records, size in rates.rows(width)
    ]


# --- lines of text --------------------------------------------------------------------------------


def when(milliseconds: int | None) -> str:
    """A timestamp in ISO 8601, UTC; the number if it is outside the calendar's range."""
    if milliseconds is None:
        return "none"
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def report_lines(tree: Tree) -> list[str]:
    """Lines for each partition, for each topic with several partitions, and for the store."""
    lines: list[str] = []
    for topic in tree["topics"]:
        for each in topic["partitions"]:
            offsets = f", offsets {each['first_offset']} to {each['end_offset']}"
            error = f": {each['error']}" if "error" in each else ""
            name = f"{topic['topic']}-{each['partition']}"
            has_offsets = each["first_offset"] is not None
            lines.append(f"{name}: {_size_line(each)}{offsets if has_offsets else ''}{error}")
            lines += [f"  {line}" for line in _details(each)]
            lines += _damages(each)
        if len(topic["partitions"]) > 1:
            largest, mean = skew(topic)
            lines.append(
                f"{topic['topic']}, "
                f"{count_of(len(topic['partitions']), 'partition')}: {_size_line(topic)}"
            )
            lines.append(
                f"  keys: {_keys(topic)}; largest partition {largest:,} bytes, mean {mean:,.0f}"
            )
    bad = sum(not each["ok"] for topic in tree["topics"] for each in topic["partitions"])
    verdict = f"{bad} not ok" if bad else "all ok"
    lines.append(
        f"{count_of(tree['partitions'], 'partition')}: {verdict} ({_size_line(tree['total'])})"
    )
    return [*lines[:-1], *from_file_lines(tree), lines[-1]]


def skew(topic: Tree) -> tuple[int, float]:
    """Bytes of the largest partition, and the mean of all."""
    sizes = [each["bytes"] for each in topic["partitions"]]
    return max(sizes), sum(sizes) / len(sizes)


def _size_line(tree: Tree) -> str:
    return (
        f"{count_with_commas(tree['records'], 'record')} in "
        f"{count_with_commas(tree['batches'], 'batch', 'es')}, "
        f"{count_with_commas(tree['segments'], 'segment')}, {tree['bytes']:,} bytes and "
        f"{tree['index_bytes']:,} of indexes"
    )


def _keys(tree: Tree) -> str:
    found = tree["distinct_keys"]
    return f"about {found['estimate']:,} distinct (standard error {found['standard_error']:.1%})"


def _details(tree: Tree) -> Iterator[str]:
    """Lines on a partition with batches; omits those without a value."""
    if tree["segments_gone"]:
        segments = "segment was" if tree["segments_gone"] == 1 else "segments were"
        yield f"{tree['segments_gone']} {segments} removed before they were read"
    if not tree["batches"]:
        return
    if tree["min_timestamp"] is not None:
        yield f"times: {when(tree['min_timestamp'])} to {when(tree['max_timestamp'])}"
    if tree["without_timestamp"]:
        yield f"{count_with_commas(tree['without_timestamp'], 'record')} without a timestamp"
    formats = ", ".join(f"{name} {of['batches']:,}" for name, of in tree["formats"].items())
    codecs = ", ".join(
        f"{name} {of['batches']:,} ({of['bytes']:,} bytes, {of['compression_ratio']:.2f} to 1)"
        for name, of in tree["codecs"].items()
    )
    yield f"batches: {formats}; {codecs}"
    for name in SPREADS:
        of = tree[name]
        if of["count"]:
            yield (
                f"{name.replace('_', ' ')}: {of['min']:,} to {of['max']:,}, mean {of['mean']:,}, "
                f"p50 at most {of['p50_at_most']:,}, p99 at most {of['p99_at_most']:,}"
            )
    if tree["records"]:
        yield (
            f"keys: {_keys(tree)}, {tree['null_keys']:,} null; "
            f"{count_with_commas(tree['tombstones'], 'tombstone')}; "
            f"{count_with_commas(tree['records_with_headers'], 'record')} with headers"
        )
    if tree["missing_offsets"]:
        gaps = count_with_commas(tree["gaps"], "gap")
        missing = count_with_commas(tree["missing_offsets"], "offset")
        yield f"{missing} without a record, in {gaps}"
    if tree["transactional_batches"] or tree["control_batches"]:
        yield (
            f"transactions: {transactional_records(tree)}, "
            f"{count_with_commas(tree['control_records'], 'control record')}"
        )


def transactional_records(tree: Tree) -> str:
    """``5 records, 2 commits, 1 abort``."""
    return (
        f"{count_with_commas(tree['transactional_records'], 'record')}, "
        f"{count_with_commas(tree['commit_markers'], 'commit')}, "
        f"{count_with_commas(tree['abort_markers'], 'abort')}"
    )


def _damages(tree: Tree) -> Iterator[str]:
    for each in tree["damages"]:
        yield (
            f"  damaged: {each['path']} position {each['position']} offset {each['offset']}: "
            f"{each['reason']}"
        )
    if tree["damage_count"] > len(tree["damages"]):
        yield f"  ... and {tree['damage_count'] - len(tree['damages'])} more"
