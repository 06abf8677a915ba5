"""The demo's picture: what the log contains, and how fast it was read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as dates
import matplotlib.pyplot as plt
import numpy as np
from speeds import Speed

BLUE, RED, GREY, GREEN = "#3b6ea5", "#c44e52", "#c9ccd1", "#4c9f70"


def hours_panel(axes: plt.Axes, start: int, requests: np.ndarray, errors: np.ndarray) -> None:
    hours = [datetime.fromtimestamp(start / 1000 + 3600 * n, UTC) for n in range(len(requests))]
    axes.bar(hours, requests, width=1 / 26, color=BLUE, label="requests", align="edge")
    axes.bar(hours, errors, width=1 / 26, color=RED, label="answered 4xx or 5xx", align="edge")
    axes.xaxis.set_major_locator(dates.DayLocator())
    axes.xaxis.set_major_formatter(dates.DateFormatter("%d %b %Y"))
    axes.set_title("A web server's days, requests an hour", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def clients_panel(axes: plt.Axes, clients: Sequence[tuple[str, int]]) -> None:
    names = [name for name, _ in reversed(clients)]
    counts = [count for _, count in reversed(clients)]
    axes.barh(names, counts, color=BLUE)
    axes.set_title("Busiest clients, requests", loc="left", fontsize=11)
    axes.tick_params(axis="y", labelsize=8)


def speeds_panel(axes: plt.Axes, speeds: Sequence[Speed]) -> None:
    rows = np.arange(len(speeds))[::-1]
    axes.barh(rows + 0.2, [speed.ceiling for speed in speeds], 0.36, color=GREY, label="ceiling")
    axes.barh(rows - 0.2, [speed.reached for speed in speeds], 0.36, color=GREEN, label="kstore")
    for row, speed in zip(rows, speeds, strict=True):
        axes.text(0, row - 0.2, f"  {speed.reached:.1f}", va="center", fontsize=8, color="white")
        axes.text(0, row + 0.2, f"  {speed.ceiling:.1f}  {speed.against}", va="center", fontsize=8)
    axes.set_yticks(rows, [speed.what for speed in speeds], fontsize=9)
    axes.set_title("GB/s on this machine", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def save(
    path: Path,
    start: int,
    requests: np.ndarray,
    errors: np.ndarray,
    clients: Sequence[tuple[str, int]],
    speeds: Sequence[Speed],
) -> None:
    """Draw the three panels into one PNG file."""
    figure = plt.figure(figsize=(11, 7), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    hours_panel(figure.add_subplot(grid[0, :]), start, requests, errors)
    clients_panel(figure.add_subplot(grid[1, 0]), clients)
    speeds_panel(figure.add_subplot(grid[1, 1]), speeds)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
