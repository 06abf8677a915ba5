"""The files that command lines of `tool_cases` name by FILE:name."""

import json


def _partitions(*entries: dict[str, object], **more: object) -> str:
    return json.dumps({"version": 1, "partitions": list(entries), **more})


_ORDERS = {"topic": "orders", "partition": 1}
FILES = {
    "offsets": _partitions({**_ORDERS, "offset": 2}),
    "offsets-all": _partitions({**_ORDERS, "offset": -1}),
    "offsets-beyond": _partitions({**_ORDERS, "offset": 99_999}),
    "offsets-twice": _partitions({**_ORDERS, "offset": 2}, {**_ORDERS, "offset": 3}),
    "offsets-none": _partitions(_ORDERS),
    "offsets-text": _partitions({"topic": "orders", "partition": "x", "offset": 2}),
    "version-2": _partitions(version=2),
    "no-partitions": json.dumps({"version": 1}),
    "no-json": "{nope",
    "elected": _partitions(_ORDERS),
    "elected-twice": _partitions(_ORDERS, _ORDERS),
    "elected-unknown": _partitions({"topic": "nope", "partition": 0}),
    "moved": _partitions({**_ORDERS, "replicas": [1]}),
    "moved-away": _partitions({**_ORDERS, "replicas": [2]}),
    "config": "retention.ms=1000\n",
    "topics": json.dumps({"version": 1, "topics": [{"topic": "orders"}, {"topic": "other"}]}),
    "topics-twice": json.dumps({"version": 1, "topics": [{"topic": "orders"}] * 2}),
    "topics-unknown": json.dumps({"version": 1, "topics": [{"topic": "nope"}]}),
}
