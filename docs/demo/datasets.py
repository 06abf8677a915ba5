"""The demo's data: real lines as (key, value, milliseconds), each stream with its own time.

A record's timestamp is the time of the event, taken from the line itself. Its key (a client, a
metric's series, an earthquake's id) groups the events that belong together, so that one partition
holds all of them in order.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).with_name("data")

Line = tuple[bytes, bytes, int]


@dataclass(frozen=True)
class Dataset:
    """One file and how to read a line of it."""

    topic: str
    file: str
    partitions: int
    parse: Callable[[bytes], tuple[bytes, int]]
    header_lines: int = 0

    def lines(self) -> Iterator[Line]:
        with gzip.open(DATA / self.file, "rb") as stream:
            for number, line in enumerate(stream):
                if number < self.header_lines:
                    continue
                value = line.rstrip(b"\n")
                key, timestamp = self.parse(value)
                yield key, value, timestamp


def milliseconds(when: datetime) -> int:
    return int(when.timestamp()) * 1000 + when.microsecond // 1000


def access(line: bytes) -> tuple[bytes, int]:
    """Apache's combined format: the client comes first, the time stands in brackets."""
    client = line[: line.index(b" ")]
    start = line.index(b"[") + 1
    stamp = line[start : line.index(b"]", start)].decode("ascii")
    return client, milliseconds(datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z"))


def metric(line: bytes) -> tuple[bytes, int]:
    """``series,timestamp,value``; times are UTC."""
    series, stamp, _ = line.split(b",")
    when = datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC)
    return series, milliseconds(when)


def earthquake(line: bytes) -> tuple[bytes, int]:
    """One GeoJSON feature; its time is in milliseconds already."""
    feature = json.loads(line)
    return feature["id"].encode(), int(feature["properties"]["time"])


ACCESS = Dataset("web-access", "apache-access.log.gz", 4, access)
METRICS = Dataset("server-metrics", "nab-metrics.csv.gz", 4, metric, header_lines=1)
EARTHQUAKES = Dataset("earthquakes", "usgs-earthquakes-week.jsonl.gz", 2, earthquake)
DATASETS = (ACCESS, METRICS, EARTHQUAKES)
