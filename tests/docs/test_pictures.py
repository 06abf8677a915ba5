"""The demo's picture: a panel for each topic, and every bar with its share of the ceiling."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HOME = Path(__file__).resolve().parents[2] / "docs" / "demo"


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HOME))
    import picture

    return picture


def draw(picture: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figure that ``save`` writes: shares of 5, 80 and 104 percent."""
    drawn = []
    monkeypatch.setattr(picture.plt, "close", drawn.append)
    hours = np.arange(60)
    speeds = [
        picture.Speed("checksum", "reading the memory", 8.0, 10.0),
        picture.Speed("append", "writing a file", 0.1, 2.0),
        picture.Speed("scan", "reading the pages", 10.4, 10.0),
    ]
    picture.save(
        path,
        "kstore wrote three logs.",
        picture.Requests(0, hours, hours // 10),
        picture.Load("one machine", hours * picture.HOUR, hours % 100),
        [picture.Quake(n / 10, n * picture.HOUR, f"{n}km N of Somewhere") for n in hours],
        speeds,
    )
    (figure,) = drawn
    return figure


def test_every_bar_shows_its_share_and_every_topic_has_a_panel(
    picture: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "demo.png"
    figure = draw(picture, path, monkeypatch)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert figure.get_suptitle() == "kstore wrote three logs."
    *panels, speeds = figure.axes
    topics = [axes.get_title(loc="left").partition(":")[0] for axes in panels]
    assert topics == ["web-access", "server-metrics", "earthquakes"]
    texts = [text.get_text() for text in speeds.texts]
    assert [found[0] for text in texts if (found := re.match(r"\d+%", text))] == [
        "80%", "5%",
    ]  # fmt: skip
    assert "as fast   10.4 GB/s" in texts  # medians of 104 percent: no share of a bound
    assert [text for text in texts if "reading" in text or "writing" in text] == [
        "reading the memory: 10 GB/s", "writing a file: 2 GB/s", "reading the pages: 10 GB/s",
    ]  # fmt: skip


def test_labels_of_bars_stay_in_the_panel_and_off_each_other(
    picture: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = draw(picture, tmp_path / "demo.png", monkeypatch)
    figure.canvas.draw()
    speeds = figure.axes[-1]
    boxes = [text.get_window_extent() for text in speeds.texts]
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
