"""The expected results of the pipeline, computed from the same files by plain Python."""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from queries import CPU, DAYS, METRICS, QUAKES, START, WEB

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))
import datasets

FIVE_MINUTES = 300_000


@dataclass
class Hour:
    count: int = 0
    total: float = 0.0
    highest: float = 0.0

    def add(self, amount: float) -> None:
        self.highest = amount if self.count == 0 else max(self.highest, amount)
        self.count += 1
        self.total += amount


@dataclass
class Expected:
    records: dict[str, int] = field(default_factory=dict)  # by topic
    size: int = 0  # bytes that the web server served
    errors: int = 0
    hours: dict[str, Hour] = field(default_factory=lambda: defaultdict(Hour))
    incidents: int = 0


def expect(weeks: int) -> Expected:
    found = Expected()
    errors: dict[int, int] = defaultdict(int)
    loads: dict[int, int] = defaultdict(int)
    for dataset in datasets.DATASETS:
        events = [
            event for event in dataset.lines()
            if dataset.topic != METRICS or event[0].startswith(b"ec2_cpu")
        ]  # fmt: skip
        first: dict[bytes, int] = {}
        for key, _, timestamp in events:
            series = key if dataset.topic == METRICS else b""
            first[series] = min(first.get(series, timestamp), timestamp)
        count = 0
        for key, line, timestamp in events:
            moved = _moved(timestamp, first[key if dataset.topic == METRICS else b""])
            if moved is None:
                continue
            count += weeks
            amount, failed = _take_apart(dataset.topic, line)
            if dataset.topic == WEB:
                found.size += int(amount) * weeks
                found.errors += failed * weeks
                errors[moved // FIVE_MINUTES] += failed
            elif key == CPU.encode():
                loads[moved // FIVE_MINUTES] += 1
            if dataset.topic != METRICS or key == CPU.encode():
                for week in range(weeks):
                    when = datetime.fromtimestamp(moved / 1000, UTC) + timedelta(week * DAYS)
                    found.hours[f"{dataset.topic} {when:%Y-%m-%dT%H}"].add(amount)
        found.records[dataset.topic] = count
    found.incidents = sum(number * loads[window] for window, number in errors.items()) * weeks
    return found


def _moved(timestamp: int, first: int) -> int | None:
    """A time on the days of the replay; None if it lies after them."""
    day = 86_400_000
    start = int(datetime.combine(date.fromisoformat(START), datetime.min.time(), UTC).timestamp())
    offset = timestamp - first // day * day
    return start * 1000 + offset if offset < DAYS * day else None


def _take_apart(topic: str, line: bytes) -> tuple[float, bool]:
    """The amount that a line counts for, and whether it is a failed request."""
    if topic == QUAKES:
        return json.loads(line)["properties"]["mag"] or 0.0, False
    if topic == METRICS:
        return float(line.split(b",")[2]), False
    _, _, behind = line.split(b'"', 2)[0:3]
    status, size = behind.split()[:2]
    return float(size) if size.isdigit() else 0.0, int(status) >= 400
