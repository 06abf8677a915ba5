"""Kafka's JSON for offsets and partitions, as Spark's Kafka connector writes it.

``{"orders": {"0": 23, "1": -1}}`` is an offset for each partition, ``{"orders": [0, 1]}`` is a
list of partitions. -2 is the earliest offset, -1 the latest. A stream saves the identity of a topic
as a topic without partitions, ``{"orders@<identity>": {}}``: Kafka allows no such topic name, and
the connector, which does not know it, reads no offset there. The identity is the topic id, or the
creation stamp of a topic without an id, or empty if the topic has neither.
"""

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from kstore.errors import InvalidConfigError
from kstore.partition_files import TopicIdentity

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]
EARLIEST, LATEST = -2, -1
_EXAMPLE = '{"orders": {"0": 23, "1": -1}}'
_INT64_MAX = 2**63 - 1


def parse_offsets(text: str, option: str) -> Offsets:
    """Offsets, or milliseconds, by topic and partition; InvalidConfigError names the option."""
    return from_json(_load(text, option, _EXAMPLE), option)


def from_json(found: Any, option: str) -> Offsets:
    """As :func:`parse_offsets`, for parsed JSON."""
    offsets: Offsets = {}
    if not isinstance(found, Mapping):
        raise _wrong(option, found, _EXAMPLE)
    for topic, partitions in found.items():
        if not isinstance(partitions, Mapping):
            raise _wrong(option, found, _EXAMPLE)
        for partition, offset in partitions.items():
            number = _number(str(partition))
            if number is None or isinstance(offset, bool) or not isinstance(offset, int):
                raise _wrong(option, found, _EXAMPLE)
            if not EARLIEST <= offset <= _INT64_MAX:
                raise InvalidConfigError(
                    f"{option}: {offset} for {topic}-{partition} is no offset; -2 is the earliest, "
                    "-1 the latest"
                )
            offsets[topic, number] = offset
    return offsets


def to_json(
    offsets: Mapping[TopicPartition, int],
    identities: Mapping[str, TopicIdentity] | None = None,
) -> dict[str, dict[str, int]]:
    """Offsets, with the identities of their topics, as JSON in a fixed order.

    The order matters because Spark compares the texts.
    """
    document: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        document.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    for topic, identity in sorted((identities or {}).items(), key=itemgetter(0)):
        if topic in document:
            document[f"{topic}@{identity.text or ''}"] = {}
    return document


def identities_from_json(found: Mapping[str, Any]) -> dict[str, str | None]:
    """The saved identities by topic; None for a topic that had neither id nor stamp.

    Omits topics whose identity was not saved (by the connector, or by an older kstore for a topic
    without an id).
    """
    names = [name.partition("@") for name in found]
    return {topic: identity or None for topic, separator, identity in names if separator}


def parse_partitions(text: str, option: str) -> tuple[TopicPartition, ...]:
    """The partitions of a JSON list by topic; InvalidConfigError names the option."""
    example = '{"orders": [0, 1]}'
    found = _load(text, option, example)
    if not isinstance(found, dict) or not found:
        raise _wrong(option, found, example)
    partitions = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list):
            raise _wrong(option, found, example)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise _wrong(option, found, example)
            partitions.add((topic, number))
    return tuple(sorted(partitions))


def format_names(partitions: Iterable[TopicPartition]) -> str:
    """``orders-0, orders-1`` for messages; at most eight names."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _load(text: str, option: str, example: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _wrong(option, text, example) from None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _wrong(option: str, found: object, example: str) -> InvalidConfigError:
    return InvalidConfigError(f"{option} takes JSON such as {example}, not {str(found)[:200]!r}")
