"""Errors for arguments that Kafka's clients take, with kstore's equivalent."""

from collections.abc import Callable, Mapping

from kstore.errors import InvalidConfigError
from kstore.hints.close_names import close_names

# Settings of Kafka's clients that kstore spells differently or does not need.
_NEEDED = "nothing: "
_NAMES = {
    "compression_type": "compression",
    "group_id": "group",
    "transaction_timeout_ms": "timeout_ms",
}
_INSTEAD = {
    **_NAMES,
    "topic": "topics, the first argument",
    "partitions": "assignment=[(topic, partition), ...]",
    "consumer_timeout_ms": "timeout, in seconds",
    "timeout_ms": "timeout, in seconds",
    "partition": "assignment=[('orders', 0)], without topics",
    **dict.fromkeys(
        ("from_beginning", "offset_reset", "start", "start_from"),
        "auto_offset_reset='earliest' (the default) or 'latest', or seek(('orders', 0), 42)",
    ),
    **dict.fromkeys(("offset", "start_offset"), "seek(('orders', 0), 42) of the consumer"),
    **dict.fromkeys(("since", "start_time", "timestamp"), "seek_to_time(when) of the consumer"),
    **dict.fromkeys(("key", "filter", "where"), "a condition in the loop"),
    **dict.fromkeys(("durable", "flush", "fsync", "sync"), "acks='all', which is the default"),
    **dict.fromkeys(
        ("auto_commit", "auto_commit_interval_ms", "enable_auto_commit"),
        "`with batch:`, which commits what was processed, or consumer.commit()",
    ),
    "delivery_timeout_ms": "delivery.result(timeout), in seconds",
    "max_in_flight_requests_per_connection": "nothing: batches of a partition keep their order",
    "request_timeout_ms": "delivery.result(timeout), in seconds",
    "isolation": "isolation_level",
    "linger": "linger_ms",
    **dict.fromkeys(
        (
            "fetch_max_bytes",
            "fetch_max_wait_ms",
            "fetch_min_bytes",
            "heartbeat_interval_ms",
            "max_partition_fetch_bytes",
            "session_timeout_ms",
        ),
        "nothing: a store's consumer reads the files, without heartbeats and fetch requests",
    ),
    "client_id": "nothing: a consumer or producer of a store has no name",
    "bootstrap_servers": "nothing: a store needs no broker",
    "value_serializer": "json.dumps(value).encode(), text.encode() in send(): values are bytes",
    "key_serializer": "key=key.encode() in send(): keys are bytes",
    "value_deserializer": "json.loads(record.value), record.value.decode(): values are bytes",
    "key_deserializer": "record.key.decode(): keys are bytes",
}
# Accepted since Kafka's clients have them; no setting that one would look for.
_NOT_NAMED = {*_NAMES, "enable_auto_commit", "retries"}
_OF_POLL = {
    "timeout_ms": "timeout, in seconds",
    "num_messages": "max_records",
    "max_poll_records": "max_records",
}
_COMMIT = (
    "commit() takes {(topic, partition): next offset}; without arguments it commits all that was "
    "read; a batch commits by `with batch:`"
)


def unknown_setting(method: Callable[..., object], name: str) -> TypeError:
    """The error for a setting that a method does not have."""
    settings = [each for each in method.__kwdefaults__ or () if each not in _NOT_NAMED]
    spelled = name.replace(".", "_")
    instead = _INSTEAD.get(spelled)
    if instead is None:
        close = close_names(spelled, settings, 1)
        instead = close[0] if close else f"one of {', '.join(settings)}"
    sentence = f"{method.__name__}() has no setting {name!r}"
    if instead.startswith(_NEEDED):
        return TypeError(f"{sentence} and needs none: {instead.removeprefix(_NEEDED)}")
    return TypeError(f"{sentence}: use {instead}")


def settings_in_a_dict(
    method: Callable[..., object], settings: Mapping[object, object], first: str = ""
) -> TypeError:
    """The error for a dict of settings, as in confluent-kafka, with the same settings as keywords.

    Settings that the method does not have are omitted, with their values.
    """
    names = {name: str(name).replace(".", "_") for name in settings}
    keywords = [
        f"{_NAMES.get(names[name], names[name])}={value!r}"
        for name, value in settings.items()
        if _NAMES.get(names[name], names[name]) in (method.__kwdefaults__ or ())
    ]
    call = ", ".join([first] * bool(first) + (keywords or ["name=value"]))
    return TypeError(f"settings are keywords: store.{method.__name__}({call})")


_SEND = {
    **dict.fromkeys(
        ("acks", "durable", "flush", "fsync", "sync"),
        "flush() after it, or config={'flush.messages': 1} of the topic, or "
        "store.producer(acks='all')",
    ),
    "timestamp_ms": "timestamp, an aware datetime or milliseconds",
    **dict.fromkeys(("callback", "on_success", "on_error"), "on_delivery=f: f(error, position)"),
    "topic": "a producer without a topic: store.producer().send(topic, value)",
    "timeout": "send(...).result(timeout), in seconds",
    "offset": "without it: the log assigns the offset",
}


def wrong_send(call: str, topic: str | None, unknown: Mapping[str, object]) -> TypeError:
    """The error for arguments that ``send`` and ``append`` have in Kafka's clients only.

    ``call`` is the right call, ``send(value, key=...)``; ``topic`` is that of a producer of one
    topic. Without ``unknown``, it is the error for positional arguments.
    """
    for name in unknown:
        instead = _SEND.get(name, "one of key, headers, timestamp, partition")
        return TypeError(f"{call.partition('(')[0]}() has no argument {name!r}: use {instead}")
    sentence = f"key, headers and the other arguments are named: {call}"
    if topic is None:
        return TypeError(sentence)
    return TypeError(
        f"this producer sends to topic {topic!r}; {sentence}. One of store.producer(), without a "
        "topic, sends to any: send(topic, value, key=...)"
    )


def wrong_poll(unnamed: tuple[object, ...], unknown: Mapping[str, object]) -> TypeError:
    """The error for arguments as in Kafka's clients, whose first one is a time, in either unit."""
    for name in unknown:
        instead = _OF_POLL.get(name, "max_records or timeout")
        return TypeError(f"poll() has no argument {name!r}: use {instead}")
    return TypeError(
        f"the arguments of poll() are named: use poll(timeout={unnamed[0]!r}), in seconds, or "
        f"poll(max_records={unnamed[0]!r})"
    )


def wrong_commit(offsets: object, unknown: Mapping[str, object]) -> TypeError:
    """The error for offsets that are not a mapping, and for unknown arguments of commit."""
    for name in unknown:
        return TypeError(f"commit() has no argument {name!r}: {_COMMIT}")
    return TypeError(f"offsets are a mapping, not a {type(offsets).__name__}: {_COMMIT}")


def nothing_to_read() -> InvalidConfigError:
    """The error for a poll of a consumer without partitions."""
    return InvalidConfigError(
        "nothing to read: store.consumer('orders') names a topic; or call assign()"
    )
