"""How far a stream is behind its log, from the progress that Spark reports."""

from collections.abc import Mapping
from typing import Any

from kstore.errors import InvalidConfigError
from kstore.spark.source.offsets_json import parse_offsets


def offsets_behind_latest(source: Any) -> dict[str, float]:
    """The metrics of Spark's Kafka source, for one source of a kstore stream's progress.

    Spark lets a Python source report its latest offsets, but add no metrics of its own
    (``ReportsSourceMetrics`` is for sources in the JVM). Instead, call
    ``offsets_behind_latest(query.lastProgress["sources"][0])``.

    Parameters
    ----------
    source
        An entry of ``sources`` of a ``StreamingQueryProgress``, or of its JSON as a mapping.

    Returns
    -------
    dict
        ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest``: how
        many offsets of a partition the stream had not read when the batch was planned, with the
        names and the arithmetic of ``KafkaMicroBatchStream.metrics``. Empty if the source has no
        partitions.

    Raises InvalidConfigError if the offsets are not those of a kstore source.
    """
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    behind = [offset - end.get(partition, 0) for partition, offset in latest.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(source: Any, name: str) -> dict[tuple[str, int], int]:
    text = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    if not isinstance(text, str):
        raise InvalidConfigError(
            f"this progress has no {name}: pass an entry of query.lastProgress['sources'] of a "
            "stream that reads format('kstore')"
        )
    return parse_offsets(text, name)
