"""One table of the medians: a row for each figure, a column for each broker, ratios, limits.

A ratio is kstore's median divided by Kafka's; it meets the target ``wanted`` (yes) or misses it
(NO).
"""

from collections.abc import Sequence

from load.rounds import Results, median
from load.workloads import WORKLOADS

_WANTED = {
    (workload.name, figure): bar
    for workload in WORKLOADS
    for figure, bar in workload.wanted.items()
}


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _verdict(ratio: float, bar: float) -> str:
    is_met = ratio >= bar if bar > 0 else ratio <= -bar
    sign = ">=" if bar > 0 else "<="
    return f"{sign} {abs(bar):.2g}  {'yes' if is_met else 'NO'}"


def table(results: Results, brokers: Sequence[str], judged: str, reference: str) -> str:
    """The table as text. ``judged`` and ``reference``: the two brokers of the ratio."""
    rows = [["work", "figure", *brokers, "ratio", "wanted"]]
    for work, figure in results:
        medians = {name: median(results, work, figure, name) for name in brokers}
        row = [work, figure, *(_number(medians[name]) for name in brokers)]
        mine, its = medians.get(judged), medians.get(reference)
        ratio = mine / its if mine is not None and its else None
        bar = _WANTED.get((work, figure))
        row.append("" if ratio is None else f"{ratio:.2f}")
        row.append("" if ratio is None or bar is None else _verdict(ratio, bar))
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
