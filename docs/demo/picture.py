"""The demo's picture: what kstore found in three logs, and how near it came to the ceilings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as dates
import matplotlib.pyplot as plt
import numpy as np
from speeds import Speed

BLUE, RED, GREY, GREEN = "#3b6ea5", "#c44e52", "#8a9099", "#4c9f70"
FAINT = "#e9ecef"
HOUR = 3_600_000
SMALL = 0.25  # a bar of this share is too short for its label


@dataclass(frozen=True)
class Requests:
    """The web server's log by the hour, from the hour that begins at start (milliseconds)."""

    start: int
    requests: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True)
class Load:
    """One machine's CPU load in percent, in order of time (milliseconds)."""

    machine: str
    times: np.ndarray
    percent: np.ndarray


@dataclass(frozen=True)
class Quake:
    """An earthquake: magnitude, time in milliseconds, and the region in words."""

    magnitude: float
    time: int
    region: str


def moments(times: Sequence[int] | np.ndarray) -> list[datetime]:
    return [datetime.fromtimestamp(time / 1000, UTC) for time in times]


def by_day(axes: plt.Axes, title: str, first: datetime, last: datetime) -> None:
    """A title, and a scale with three to five labelled midnights."""
    axes.set_title(title, loc="left", fontsize=10)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    days = (last - midnight).days
    axes.set_xticks([midnight + timedelta(days=n) for n in range(0, days + 1, days // 4 + 1)])
    axes.xaxis.set_major_formatter(dates.DateFormatter("%-d %b"))
    axes.set_xlabel(str(first.year), loc="right", fontsize=8, color=GREY)


def requests_panel(axes: plt.Axes, found: Requests) -> None:
    hours = moments(found.start + HOUR * np.arange(len(found.requests)))
    axes.bar(hours, found.requests, 1 / 24, color=BLUE, label="all", align="edge")
    axes.bar(hours, found.errors, 1 / 24, color=RED, label="answered 4xx or 5xx", align="edge")
    by_day(axes, "web-access: requests an hour", hours[0], hours[-1])
    axes.set_ylim(0, 1.3 * found.requests.max())
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)


def load_panel(axes: plt.Axes, found: Load) -> None:
    times = moments(found.times)
    axes.plot(times, found.percent, color=GREEN, linewidth=0.8)
    by_day(axes, f"server-metrics: CPU of {found.machine}, %", times[0], times[-1])
    axes.set_ylim(0, 110)


def quakes_panel(axes: plt.Axes, found: Sequence[Quake]) -> None:
    times = moments([quake.time for quake in found])
    magnitudes = [quake.magnitude for quake in found]
    axes.scatter(times, magnitudes, 6, color=GREY, alpha=0.5, linewidths=0)
    strongest = max(found, key=lambda quake: quake.magnitude)
    (when,) = moments([strongest.time])
    axes.scatter([when], [strongest.magnitude], 18, color=RED)
    axes.annotate(
        f"{strongest.magnitude:.1f}  {strongest.region.rpartition(' of ')[2]}",
        (when, strongest.magnitude), (0, 5), textcoords="offset points", fontsize=8, color=RED,
        ha="right" if when > times[0] + (times[-1] - times[0]) / 2 else "left",
    )  # fmt: skip
    by_day(axes, "earthquakes: magnitude of each", times[0], times[-1])
    axes.set_ylim(0, strongest.magnitude * 1.15)


def speeds_panel(axes: plt.Axes, speeds: Sequence[Speed]) -> None:
    """Bars in percent of what the machine can do with the same bytes."""
    rows = np.arange(len(speeds))[::-1]
    axes.barh(rows, 100, 0.62, color=FAINT)
    axes.barh(rows, [100 * min(speed.share, 1) for speed in speeds], 0.62, color=GREEN)
    for row, speed in zip(rows, speeds, strict=True):
        fits = speed.share > SMALL
        axes.text(
            1 if fits else 100 * speed.share + 1, row,
            f"{speed.percent}   {speed.reached:.3g} GB/s",
            va="center", fontsize=11, weight="bold", color="white" if fits else "black",
        )  # fmt: skip
        axes.text(
            101, row, f"{speed.against}: {speed.ceiling:.3g} GB/s",
            va="center", fontsize=9,
        )  # fmt: skip
    axes.axvline(100, color="black", linewidth=1)
    axes.set_yticks(rows, [speed.what for speed in speeds], fontsize=10)
    axes.set_xlim(0, 130)
    axes.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    axes.set_title(
        "kstore's speed in percent of this machine's ceiling: the bare operation on as many bytes",
        loc="left", fontsize=10,
    )  # fmt: skip


def save(
    path: Path,
    caption: str,
    requests: Requests,
    load: Load,
    quakes: Sequence[Quake],
    speeds: Sequence[Speed],
) -> None:
    """Draw one panel for each topic, and the speeds below them, into one PNG file."""
    figure = plt.figure(figsize=(12, 6.4), layout="constrained")
    figure.suptitle(caption, x=0.01, ha="left", fontsize=12)
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 0.6))
    requests_panel(figure.add_subplot(grid[0, 0]), requests)
    load_panel(figure.add_subplot(grid[0, 1]), load)
    quakes_panel(figure.add_subplot(grid[0, 2]), quakes)
    speeds_panel(figure.add_subplot(grid[1, :]), speeds)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
