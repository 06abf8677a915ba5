"""An answer as lines of text, ``field=value``, so that the answers of two brokers can be compared.

What differs from run to run becomes a word: topic and session ids, producer ids, UUIDs of members,
ports, times of now, the cluster's id, and every text of an error but its being there.
"""

import dataclasses
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kstore.protocol.api_keys import ApiKey
from kstore.protocol.wire import ZERO_UUID
from oracle.reader import read_log

NOW_MARGIN_MS = 3_600_000


def lines_of(
    response: Any,
    api_key: ApiKey,
    version: int,
    topic_ids: Mapping[str, bytes],
    times_of_now: Sequence[float] = (),
) -> list[str]:
    """A line for each field.

    ``topic_ids``: those that have a name. ``times_of_now``: milliseconds, further ones than now.
    """
    shown = _Shown(topic_ids, (*times_of_now, time.time() * 1000))
    lines = [f"{path}={text}" for path, text in shown.lines("", response)]
    if api_key == ApiKey.FETCH and version < 4:
        lines = [line.replace(_INCOMPLETE, "") for line in lines]  # Kafka fills up with it
    return lines


class _Shown:
    def __init__(self, topic_ids: Mapping[str, bytes], times_of_now: Sequence[float]) -> None:
        self._topic_ids = topic_ids
        self._times_of_now = times_of_now

    def lines(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        if dataclasses.is_dataclass(value):
            for each in dataclasses.fields(value):
                yield from self.lines(
                    f"{path}.{each.name}" if path else each.name, getattr(value, each.name)
                )
        elif isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
            # Brokers list topics and settings in any order.
            labels = sorted(
                ((self._label(each), _UUID.sub("UUID", repr(each)), each) for each in value),
                key=_first,
            )
            for label, _, each in labels:
                yield from self.lines(f"{path}[{label}]", each)
        else:
            yield path, self._word(path, value)

    def _label(self, value: Any) -> str:
        for name in _NAMES:
            found = getattr(value, name, None)
            if found not in (None, ""):
                return "DIR" if name == "log_dir" else "P" if name == "producer_id" else str(found)
        topic_id = getattr(value, "topic_id", None)
        return "" if topic_id is None else self._word("topic_id", topic_id)

    def _word(self, path: str, value: Any) -> str:
        name = path.rpartition(".")[2]
        if name == "high_watermark" and path.startswith("topics[__cluster_metadata]"):
            return "a number"
        if name in _TEXTS:
            return repr(value) if not value else "a text"
        if name in _NUMBERS_OF_A_RUN and value > 0:
            return "a number"
        if name in _TIMES and any(abs(value - now) < NOW_MARGIN_MS for now in self._times_of_now):
            return "now"
        if name == "log_dir":
            return "a directory"
        if isinstance(value, bytes) and len(value) == 16:
            names = [known for known, each in self._topic_ids.items() if each == value]
            return names[0] if names else "zero" if value == ZERO_UUID else "an id"
        if isinstance(value, memoryview):
            return _records(bytes(value))
        return _UUID.sub("UUID", repr(value))


def _records(data: bytes) -> str:
    """Each batch: its bytes, or its records where it is compressed, as codecs differ."""
    log = read_log(data)
    found = []
    for batch in log.batches:
        raw = data[batch.position : batch.position + batch.size]
        if batch.codec:
            shown = [(each.offset, each.timestamp, each.key, each.value) for each in batch.records]
            fields = (batch.magic, batch.codec, batch.base_offset, batch.max_timestamp)
            found.append(f"{fields} {batch.timestamp_type} {shown}")
        else:
            found.append(raw.hex())
    return f"{found}" + _INCOMPLETE * (log.tail_position < len(data))


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # in the id of a member
_INCOMPLETE = " and an incomplete one"
_TEXTS = {"error_message", "batch_index_error_message", "cluster_id"}
_NUMBERS_OF_A_RUN = {"session_id", "producer_id", "port", "throttle_time_ms"}
_NUMBERS_OF_A_RUN |= {"usable_bytes", "total_bytes", "log_end_offset", "finalized_features_epoch"}
_TIMES = {"log_append_time_ms", "last_timestamp", "last_fetch_timestamp"}
_TIMES |= {"last_caught_up_timestamp", "timestamp"}
_NAMES: tuple[str, ...] = ("key", "group_id", "group_instance_id")
_NAMES += ("name", "topic", "topic_name", "resource_name", "api_key", "partition_index", "index")
_NAMES += ("partition", "partition_id", "node_id", "broker_id", "replica_id", "producer_id")
_NAMES += ("log_dir", "batch_index")


def _first(labelled: tuple[str, str, Any]) -> tuple[str, str]:
    return labelled[:2]
