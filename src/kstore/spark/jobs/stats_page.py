"""The report of ``kstore spark stats`` as an HTML page: tables, and plots if matplotlib exists."""

from collections.abc import Iterator
from html import escape
from typing import Any

from kstore.partition_files import DAY_MS, HOUR_MS, count_of
from kstore.spark.jobs.reports import count_with_commas
from kstore.spark.jobs.stats_report import Tree, skew, transactional_records, when
from kstore.svg_diagrams import STYLE, SvgDiagrams

_MAX_BARS = 400  # more hours than these are drawn as days
_MAX_PARTITIONS = 60
_BLUE, _RED = "#2a6fb0", "#b3261e"


def html(tree: Tree) -> str:
    """The page of a report as :func:`kstore.spark.jobs.stats_report.as_tree` gives it."""
    try:
        pictures = _TopicDiagrams()
    except ImportError:
        pictures = None
    total = tree["total"]
    sections = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>kstore stats</title><style>{STYLE}.bad {{ color: {_RED} }}</style>",
        f"<h1>kstore stats</h1><p>{count_of(len(tree['topics']), 'topic')}, "
        f"{count_of(tree['partitions'], 'partition')}, "
        f"{count_with_commas(total['records'], 'record')}, {total['bytes']:,} bytes of logs and "
        f"{total['index_bytes']:,} of indexes. p50 and p99 are upper bounds (powers of two); "
        f"distinct keys are estimated (HyperLogLog, standard error "
        f"{total['distinct_keys']['standard_error']:.1%}). Times are UTC.</p>",
    ]
    if pictures is None:
        sections.append("<p>Without pictures: matplotlib is not installed.</p>")
    sections += _damages(tree)
    for topic in tree["topics"]:
        sections.append(f"<h2>{escape(topic['topic'])}</h2>")
        sections.append(_facts(topic))
        if pictures is not None and topic["records"]:
            sections += [pictures.rate(topic), pictures.sizes(topic)]
            sections += [pictures.codecs(topic), pictures.skew(topic)]
        sections.append(_partitions(topic))
    return "\n".join(section for section in sections if section) + "\n"


def _damages(tree: Tree) -> Iterator[str]:
    for topic in tree["topics"]:
        for each in topic["partitions"]:
            name = f"{topic['topic']}-{each['partition']}"
            if "error" in each:
                yield f"<p class='bad'>{escape(name)}: {escape(each['error'])}</p>"
            for damage in each["damages"]:
                text = (
                    f"{damage['path']} position {damage['position']} offset {damage['offset']}: "
                    f"{damage['reason']}"
                )
                yield f"<p class='bad'>damaged: {escape(text)}</p>"
            more = each["damage_count"] - len(each["damages"])
            if more > 0:
                yield f"<p class='bad'>{escape(name)}: {more:,} more damaged</p>"


def _facts(topic: Tree) -> str:
    keys, records, values = topic["distinct_keys"], topic["record_sizes"], topic["value_sizes"]
    largest, mean = skew(topic)
    codecs = ", ".join(
        f"{name} {of['bytes']:,} bytes ({of['compression_ratio']:.2f} to 1)"
        for name, of in topic["codecs"].items()
    )
    facts = {
        "records": f"{topic['records']:,} in "
        f"{count_with_commas(topic['batches'], 'batch', 'es')}; formats "
        + ", ".join(f"{name} {of['batches']:,}" for name, of in topic["formats"].items()),
        "times": f"{when(topic['min_timestamp'])} to {when(topic['max_timestamp'])}",
        "codecs": codecs,
        "sizes of records": _sizes(records),
        "sizes of keys": _sizes(topic["key_sizes"]),
        "sizes of values": _sizes(values),
        "keys": f"about {keys['estimate']:,} distinct, {topic['null_keys']:,} null; "
        f"{count_with_commas(topic['tombstones'], 'tombstone')}",
        "headers": f"{topic['headers']:,} in "
        f"{count_with_commas(topic['records_with_headers'], 'record')}, "
        f"{topic['header_bytes']:,} bytes",
        "offsets without a record": f"{topic['missing_offsets']:,} in "
        f"{count_with_commas(topic['gaps'], 'gap')}",
        "transactions": transactional_records(topic),
        "largest partition": f"{largest:,} bytes, {largest / mean if mean else 1:.2f} times the "
        "mean",
    }
    rows = [f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts.items()]
    return f"<table>{''.join(rows)}</table>"


def _sizes(spread: Tree) -> str:
    if not spread["count"]:
        return "none"
    return (
        f"{spread['min']:,} to {spread['max']:,} bytes, mean {spread['mean']:,}, p50 at most "
        f"{spread['p50_at_most']:,}, p99 at most {spread['p99_at_most']:,}"
    )


_COLUMNS = ("segments", "bytes", "index_bytes", "batches", "records", "null_keys", "tombstones")
_MORE = ("missing_offsets", "control_records", "first_offset", "end_offset")


def _partitions(topic: Tree) -> str:
    names = (*_COLUMNS, "distinct_keys", *_MORE)
    head = "".join(f"<th class='n'>{name.replace('_', ' ')}</th>" for name in names)
    rows = []
    for each in topic["partitions"]:
        values = {**each, "distinct_keys": each["distinct_keys"]["estimate"]}
        cells = "".join(
            f"<td class='n'>{'' if values[name] is None else format(values[name], ',')}</td>"
            for name in names
        )
        kind = "" if each["ok"] else " class='bad'"
        rows.append(f"<tr{kind}><th>{each['partition']}</th>{cells}</tr>")
    return f"<table><tr><th>partition</th>{head}</tr>{''.join(rows)}</table>"


class _TopicDiagrams(SvgDiagrams):
    """The plots of the page; ImportError if matplotlib is not installed."""

    def rate(self, topic: Tree) -> str:
        """Bytes of keys and values by time."""
        rates = topic["rates"]
        windows, width = rates["windows"], rates["window_ms"]
        if not windows:
            return ""
        if rates["days"] is not None and len(windows) > _MAX_BARS:
            windows, width = rates["days"], DAY_MS
        figure, axes = self.axes(2.8)
        first = windows[0]["start"]
        days = [(each["start"] - first) / DAY_MS for each in windows]
        axes.bar(
            days,
            [each["bytes"] for each in windows],
            width=width / DAY_MS,
            align="edge",
            color=_BLUE,
        )
        unit = {HOUR_MS: "hour", DAY_MS: "day"}.get(width, f"{width // DAY_MS} days")
        axes.set_xlabel(f"days since {when(first)}")
        axes.set_ylabel(f"bytes a{'n' if unit == 'hour' else ''} {unit}")
        axes.set_title("keys and values, by the records' timestamps", fontsize=9)
        return self.svg(figure)

    def sizes(self, topic: Tree) -> str:
        """The number of records by size."""
        buckets = topic["record_sizes"]["buckets"]
        figure, axes = self.axes(2.8)
        axes.bar(range(len(buckets)), [each["count"] for each in buckets], color=_BLUE)
        names = [_range(each) for each in buckets]
        axes.set_xticks(range(len(buckets)), names, rotation=45, ha="right", fontsize=7)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.8)
        axes.set_xlabel("bytes of a record: key, value and headers")
        axes.set_ylabel("records")
        return self.svg(figure)

    def codecs(self, topic: Tree) -> str:
        """The stored and the uncompressed bytes of each codec's batches."""
        found = topic["codecs"]
        figure, axes = self.axes(0.9 + 0.4 * len(found))
        rows = range(len(found))
        plain = [of["bytes_uncompressed"] for of in found.values()]
        axes.barh(rows, plain, color="#c8d2dc", label="uncompressed")
        axes.barh(rows, [of["bytes"] for of in found.values()], 0.4, color=_BLUE, label="stored")
        axes.set_yticks(rows, list(found))
        axes.set_xlabel("bytes of batches")
        axes.legend(fontsize=7)
        return self.svg(figure)

    def skew(self, topic: Tree) -> str:
        """The bytes of each partition, and the mean."""
        drawn: list[Any] = topic["partitions"][:_MAX_PARTITIONS]
        if len(drawn) < 2:
            return ""
        figure, axes = self.axes(2.4)
        axes.bar(
            [str(each["partition"]) for each in drawn],
            [each["bytes"] for each in drawn],
            color=_BLUE,
        )
        axes.axhline(skew(topic)[1], color=_RED, linewidth=1)
        omitted = len(topic["partitions"]) - len(drawn)
        axes.set_xlabel("partition" + (f" ({omitted} more are not drawn)" if omitted else ""))
        axes.set_ylabel("bytes (red: mean)")
        return self.svg(figure)


def _range(bucket: Tree) -> str:
    low, high = bucket["at_least"], bucket["at_most"]
    return f"{low:,}" if low >= high else f"{low:,} to {high:,}"
