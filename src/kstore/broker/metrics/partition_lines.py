"""The metrics of all partitions as text, the part of a scrape that grows with the store.

This module formats the lines itself, because prometheus-client takes 8 us for each line. The thread
sleeps after each slice of partitions, so that the event loop's thread, which shares the
interpreter, waits for at most one slice.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.broker.metrics.idle_partitions import IdlePartitions, PartitionSize
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.log.log import Log

SLICE = 64  # partitions read without a pause
_PAUSE_SECONDS = 0.0002

# Names with their help; topic names have no character that the format escapes.
_FAMILIES = (
    ("kafka_log_log_size", "Bytes of the log segments of a partition"),
    ("kafka_log_log_numlogsegments", "Log segments of a partition"),
    ("kafka_log_log_logstartoffset", "The first offset of a partition"),
    ("kafka_log_log_logendoffset", "The next offset of a partition"),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "Offsets from the last stable offset to the high watermark: read_committed consumers wait "
        "for transactions that began there",
    ),
)


class PartitionLines:
    """Renders the metrics of all partitions. For one thread at a time, not the event loop's."""

    def __init__(self, services: "Services", pause: Callable[[float], object] = time.sleep) -> None:
        self._services = services
        self._pause = pause
        self._idle = IdlePartitions(services.store)

    def render(self) -> str:
        """The lines of all families, in the text format of Prometheus."""
        lines: list[list[str]] = [
            [f"# HELP {name} {text}\n# TYPE {name} gauge\n"] for name, text in _FAMILIES
        ]
        image, logs = self._services.metadata.image, self._services.store._manager.logs
        count = 0
        for topic in image.topics.values():
            for number in topic.partitions:  # numbers only: creating each image would read a file
                count += 1
                if count % SLICE == 0:
                    self._pause(_PAUSE_SECONDS)
                key = topic.name, number
                log = logs.get(key)
                lag: int | None = None  # only the log would know an open transaction
                if log is None or log.closed:
                    found = self._idle.get(key, topic.topic_id)
                else:
                    self._idle.forget(key)
                    found, lag = _measure(log)
                labels = f'{{topic="{topic.name}",partition="{number}"}}'
                if found is not None:
                    _add(lines, labels, found, lag)
        self._idle.forget_deleted(image.topics, count)
        return "".join("".join(family) for family in lines)


def _measure(log: "Log") -> tuple[PartitionSize | None, int | None]:
    try:
        views = log.segments.views
        found = PartitionSize(
            sum(view.size for view in views), len(views), log.start_offset, log.end_offset
        )
        return found, max(0, log.high_watermark - log.last_stable_offset)
    except (KStoreError, OSError):  # closed meanwhile, or the disk has failed
        return None, None


def _add(lines: list[list[str]], labels: str, found: PartitionSize, lag: int | None) -> None:
    lines[0].append(f"{_FAMILIES[0][0]}{labels} {found.size}\n")
    lines[1].append(f"{_FAMILIES[1][0]}{labels} {found.segments}\n")
    lines[2].append(f"{_FAMILIES[2][0]}{labels} {found.start_offset}\n")
    if found.end_offset >= 0:
        lines[3].append(f"{_FAMILIES[3][0]}{labels} {found.end_offset}\n")
        if lag is not None:
            lines[4].append(f"{_FAMILIES[4][0]}{labels} {lag}\n")
