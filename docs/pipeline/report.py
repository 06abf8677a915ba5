"""The pipeline's report: one HTML file with its pictures inside."""

import base64
import html
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as dates
import matplotlib.pyplot as plt
from queries import CPU, METRICS, QUAKES, WEB

BLUE, RED, GREY, GREEN = "#3b6ea5", "#c44e52", "#8a9099", "#4c9f70"
HOUR = timedelta(hours=1)
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .2rem .8rem; text-align: left;
border-bottom: 1px solid #ddd } td.n { text-align: right; font-variant-numeric: tabular-nums }
img { max-width: 100% } .bad { color: #c44e52 }
"""


@dataclass(frozen=True)
class Check:
    """A figure of the pipeline, and the same figure computed by plain Python."""

    what: str
    found: float
    expected: float

    @property
    def ok(self) -> bool:
        return abs(self.found - self.expected) <= 1e-9 * abs(self.expected)


@dataclass(frozen=True)
class Batch:
    """A micro-batch that Spark ran."""

    query: str
    number: int
    started: float  # seconds since the epoch
    seconds: float
    rows: int


def save(
    path: Path,
    where: str,
    checks: Sequence[Check],
    hours: dict[str, dict[str, Any]],
    incidents: Sequence[tuple[datetime, float]],
    batches: Sequence[Batch],
    killed: Sequence[float],
) -> None:
    parts = [
        f"<!doctype html><meta charset=utf-8><title>kstore pipeline</title><style>{STYLE}</style>"
        "<h1>Logs to tables, over Kafka's files, on Spark</h1>"
        f"<p>{html.escape(where)} kstore wrote real lines of different years (a web server's log "
        "of 2015, servers' metrics of 2014, earthquakes of 2018) into topics, and Spark read them "
        "from there. They are replayed side by side, all from the same Monday on: that they "
        "coincide is invented, their counts are real.</p>",
        "<h2>Checked</h2>" + _checks(checks),
        "<h2>Hour by hour</h2><p>From the compacted topic, the last record of each key.</p>"
        + _picture(_hours(hours)),
        "<h2>Two streams joined</h2><p>Requests that were answered by an error, and how busy the "
        f"server {html.escape(CPU)} was in the same five minutes.</p>"
        + _picture(_incidents(incidents)),
        "<h2>How it ran</h2><p>Each bar is a micro-batch"
        + (f"; each red line an executor that was killed ({len(killed)})." if killed else ".")
        + f"</p>{_picture(_run(batches, killed))}{_queries(batches)}",
    ]
    path.write_text("\n".join(parts))


def _checks(checks: Sequence[Check]) -> str:
    rows = "".join(
        f"<tr{'' if each.ok else ' class=bad'}><td>{html.escape(each.what)}</td>"
        f"<td class=n>{each.found:,.10g}</td><td class=n>{each.expected:,.10g}</td>"
        f"<td>{'equal' if each.ok else 'WRONG'}</td></tr>"
        for each in checks
    )
    return f"<table><tr><th><th>pipeline<th>plain Python<th></tr>{rows}</table>"


def _queries(batches: Sequence[Batch]) -> str:
    rows = ""
    for name in dict.fromkeys(each.query for each in batches):
        own = [each for each in batches if each.query == name]
        rows += (
            f"<tr><td>{name}</td><td class=n>{len(own)}</td>"
            f"<td class=n>{sum(each.rows for each in own):,}</td>"
            f"<td class=n>{sum(each.seconds for each in own):.1f}</td></tr>"
        )
    return f"<table><tr><th>query<th>batches<th>rows read<th>seconds</tr>{rows}</table>"


def _picture(figure: Any) -> str:
    data = io.BytesIO()
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(data, dpi=110, format="png")
    plt.close(figure)
    return f'<img src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'


def _hours(hours: dict[str, dict[str, Any]]) -> Any:
    """One panel for each topic, each with another figure of the hour: sum, mean, highest."""
    figure, panels = plt.subplots(3, 1, figsize=(11, 7), layout="constrained", sharex=True)
    served, cpu, quakes = panels

    times, found = _in_order(hours, WEB)
    served.bar(times, [each["total"] / 1e6 for each in found], 1 / 24, align="edge", color=BLUE)
    served.set_title("web-access: MB served in the hour", loc="left", fontsize=10)

    times, found = _in_order(hours, METRICS)
    cpu.plot(times, [each["highest"] for each in found], color=GREY, linewidth=1, label="highest")
    means = [each["total"] / each["count"] for each in found]
    cpu.plot(times, means, color=GREEN, linewidth=2, label="mean")
    cpu.set_title("server-metrics: CPU in the hour, %", loc="left", fontsize=10)
    cpu.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)

    times, found = _in_order(hours, QUAKES)
    sizes = [4 * each["count"] for each in found]
    quakes.scatter(times, [each["highest"] for each in found], sizes, color=RED, alpha=0.6)
    quakes.set_title("earthquakes: largest magnitude of the hour; a larger dot: more of them",
                     loc="left", fontsize=10)  # fmt: skip
    quakes.xaxis.set_major_locator(dates.AutoDateLocator())
    quakes.xaxis.set_major_formatter(dates.DateFormatter("%-d %b %Y"))
    return figure


def _in_order(
    hours: dict[str, dict[str, Any]], topic: str
) -> tuple[list[datetime], list[dict[str, Any]]]:
    """The hours of a topic by time; a gap in them has one hour of NaN, where a line ends."""
    own = sorted(
        (each for each in hours.values() if each["topic"] == topic), key=lambda each: each["hour"]
    )
    times: list[datetime] = []
    found: list[dict[str, Any]] = []
    for each in own:
        time = datetime.strptime(each["hour"], "%Y-%m-%dT%H")
        if times and time - times[-1] > HOUR:
            times.append(times[-1] + HOUR)
            found.append({"count": math.nan, "total": math.nan, "highest": math.nan})
        times.append(time)
        found.append(each)
    return times, found


def _incidents(incidents: Sequence[tuple[datetime, float]]) -> Any:
    """How many requests failed at which load: the join's result, without its times."""
    figure, axes = plt.subplots(figsize=(11, 3), layout="constrained")
    counts = Counter(int(cpu) for _, cpu in incidents)
    bars = axes.bar(list(counts), list(counts.values()), 0.9, align="edge", color=RED)
    axes.bar_label(bars, fontsize=8)
    axes.set_title("requests that failed, by the server's CPU load at the time", loc="left",
                   fontsize=10)  # fmt: skip
    axes.set_xlabel("CPU, %")
    axes.set_ylabel("requests")
    return figure


def _run(batches: Sequence[Batch], killed: Sequence[float]) -> Any:
    figure, axes = plt.subplots(figsize=(11, 2.4), layout="constrained")
    names = list(dict.fromkeys(each.query for each in batches))
    zero = min([each.started for each in batches] + list(killed), default=0.0)
    for each in batches:
        row = names.index(each.query)
        axes.barh(row, each.seconds, left=each.started - zero, height=0.6, color=BLUE,
                  edgecolor="white")  # fmt: skip
    for when in killed:
        axes.axvline(when - zero, color=RED, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()  # the first query on top
    axes.set_xlabel("seconds")
    return figure


def started(text: str) -> float:
    """Spark's time of a progress report, as seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).timestamp()
