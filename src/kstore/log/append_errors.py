"""Errors for arguments of ``Log.append`` that it does not have, with the call to use instead."""

_ARGUMENTS = ("value", "key", "headers", "timestamp")
_CALL = "append(value, key=..., headers=..., timestamp=...)"
_TIME = "use timestamp, an aware datetime or milliseconds"
_INSTEAD = {
    **dict.fromkeys(
        ("acks", "durable", "flush", "fsync", "sync"),
        "use flush() after it, or config={'flush.messages': 1} of the topic, or "
        "store.producer(acks='all')",
    ),
    **dict.fromkeys(("time", "timestamp_ms", "ts", "when"), _TIME),
    **dict.fromkeys(
        ("callback", "on_delivery"),
        "it returns the offset; callbacks are those of store.producer().send(...)",
    ),
    "partition": "a log is one partition: store['orders'].append(value, partition=0)",
    "topic": "a log is of one topic: store['orders'].append(value)",
    **dict.fromkeys(
        ("expected_offset", "offset"),
        "the log assigns the offset: log.end_offset is the next one, and one process writes",
    ),
    **dict.fromkeys(
        ("batch_size", "compression", "compression_type"),
        "use extend(), or alter({'batch.compression': 'zstd'}) of the topic",
    ),
}


def check_append_arguments(count: int, names: tuple[str, ...] | None) -> None:
    """Raise TypeError for arguments that do not fit; ``count`` are positional, with the log."""
    for name in names or ():
        if name not in _ARGUMENTS:
            advice = _INSTEAD.get(name, f"use {_CALL}")
            raise TypeError(f"append() has no argument {name!r}: {advice}")
    if count > 2:
        raise TypeError(f"key, headers and the other arguments are named: {_CALL}")
