"""Arguments that callers guess: the error says what to write instead."""

from collections.abc import Callable
from functools import update_wrapper, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def explain_keywords(
    sentence: str | None = None, /, **instead: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a method so that arguments it does not take raise a TypeError with advice.

    ``instead`` has the advice for a keyword; ``sentence`` follows Python's own error for any other
    argument that does not fit, by default the names of the arguments. Each call costs a frame and
    a check of the keywords: not for methods of a record's path.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        taken, takes_others = _keywords_of(method)
        names = f"its arguments are named {', '.join(taken)}" if taken else "it takes no arguments"

        @wraps(method)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            for name in keywords:
                if name in instead:
                    raise TypeError(f"{method.__name__}() has no {name}=: {instead[name]}")
                if name not in taken and not takes_others and sentence is None:
                    raise TypeError(f"{method.__name__}() has no {name}=: {names}")
            try:
                return method(*args, **keywords)
            except TypeError as error:
                if _fit(method, args, keywords):
                    raise
                raise TypeError(f"{error}: {sentence or names}") from None

        return call

    return decorate


_CO_VARKEYWORDS = 8  # inspect's, whose import takes milliseconds
_ISOLATION = ("isolation", "isolation_level")  # kstore.log.read_committed.Isolation


def _keywords_of(method: Callable[..., object]) -> tuple[tuple[str, ...], bool]:
    """The names of a method's arguments, and whether it takes others, which it passes on."""
    code = getattr(method, "__code__", None)
    if code is None:  # it is decorated once more: that decorator has checked its names
        return (), True
    count = code.co_argcount + code.co_kwonlyargcount
    taken = tuple(name for name in code.co_varnames[:count] if name not in ("self", "cls"))
    if not code.co_flags & _CO_VARKEYWORDS:
        return taken, False
    if code.co_varnames[count + bool(code.co_flags & 4)] == "isolation":
        return taken + _ISOLATION, False
    return taken, True


NO_DRY_RUN = "omit it; log.segments are what retention.ms and retention.bytes apply to"
_DURABLE = (
    "use flush() after it, or config={'flush.messages': 1}, or store.producer(), whose records "
    "are on disk when they are acknowledged (acks='all')"
)
_SYNC = ("acks", "durability", "durable", "flush", "fsync", "sync")
_SETTINGS = "settings are config={'log.retention.ms': 3600000}, or StoreConfig(...)"
explain_open = explain_keywords(
    **dict.fromkeys(("create_if_missing", "exist_ok", "must_exist"), "use create, True or False"),
    **dict.fromkeys(("background", "retention_ms", "segment_bytes"), _SETTINGS),
    **dict.fromkeys(("log_dir", "log_dirs", "bootstrap_servers", "directory"), "use path"),
    **dict.fromkeys(_SYNC, _DURABLE),
    write="mode='a' writes, mode='r' reads",
    settings="use config={'log.retention.ms': 3600000}",
)
_BATCH_SIZE = "batches have batch.size bytes: topic.alter({'batch.size': 1 << 20})"
explain_count = explain_keywords(
    "it counts records, or those that a predicate accepts: count(lambda row: row.key is None)"
)
explain_extend = explain_keywords(
    **dict.fromkeys(("batch_size", "chunk_size", "max_batch_size"), _BATCH_SIZE),
    **dict.fromkeys(_SYNC, _DURABLE),
    compression="use alter({'batch.compression': 'zstd'}) of the topic, or a producer",
    partition="use extend() of a log: topic[0].extend(...)",
    **dict.fromkeys(
        ("headers", "key", "keys", "partitions", "values_and_keys"),
        "items are pairs (key, value), or kstore.Record(value=..., key=..., headers=...)",
    ),
)
explain_follow = explain_keywords(
    **dict.fromkeys(("auto_offset_reset", "from_beginning"), 'use start="earliest"'),
    **dict.fromkeys(("from_offset", "offset", "since", "start_offset"), "use start"),
    **dict.fromkeys(("poll_interval", "timeout_ms"), "use timeout, in seconds"),
)
_BETWEEN = "use log[start:stop], log.since(when, until), or view(start, stop)"
explain_view = explain_keywords(
    **dict.fromkeys(("since", "until", "when"), "use since(when, until)"),
    **dict.fromkeys(("end", "end_offset"), "use stop"),
    **dict.fromkeys(("offset", "start_offset"), "use start"),
    **dict.fromkeys(("limit", "count", "max_records"), "use head(100), or tail(100)"),
)
explain_since = explain_keywords(
    **dict.fromkeys(("end", "stop", "to"), "use until"),
    **dict.fromkeys(("after", "timestamp"), "use when"),
    **dict.fromkeys(
        ("offset", "start", "start_offset"), "use when, a time; from an offset on: view(start)"
    ),
)
explain_partition_count = explain_keywords(
    "partitions is the new total, as in Kafka: add_partitions(len(topic) + 2) adds two"
)
_COMMITTED = "use view(isolation_level='read_committed') of a log, which has these methods"
explain_head = explain_keywords(
    isolation_level=_COMMITTED,
    **dict.fromkeys(("limit", "n", "num"), "use count, or the number alone"),
)
explain_latest = explain_keywords(
    "it has the last record of each key; the last records of a log: log.tail(10)"
)
_SKIP = "use on_damage='skip'"
explain_records = explain_keywords(
    **dict.fromkeys(("errors", "ignore_errors", "on_corrupt", "on_error", "skip_corrupt"), _SKIP),
    **dict.fromkeys(("end", "offset", "start", "stop"), "use log[start:stop], a view"),
    **dict.fromkeys(("since", "until"), "use since(when, until) of a log, a view"),
    **dict.fromkeys(("limit", "max_records"), "use head(100), a view"),
    **dict.fromkeys(
        ("filter", "key", "predicate", "where"),
        "use scan(where=...), which gives columns, or a condition in the loop",
    ),
    **dict.fromkeys(("follow", "timeout"), "use follow(start='earliest', timeout=1) of a log"),
    partition="use records() of a log: topic[0].records()",
)
explain_scan = explain_keywords(
    **dict.fromkeys(
        ("batch_size", "chunk_size", "chunksize"), "a block has up to some ten thousand records"
    ),
    columns="a scan gives every column, without a copy",
    **dict.fromkeys(("end", "offset", "since", "start", "stop", "until"), _BETWEEN),
    **dict.fromkeys(("filter", "predicate"), "use where=lambda row: row.offset > 5"),
    partition="use scan() of a log: topic[0].scan()",
    isolation_level="use view(isolation_level='read_committed').scan()",
    limit="use head(100)",
)
explain_table = explain_keywords(
    isolation_level=_COMMITTED,
    columns="select afterwards: to_pandas()[['value']], to_arrow().select(['value'])",
    limit="use head(100).to_pandas()",
    where="use scan(where=...), which gives columns",
)


class CallFirst:
    """A method whose attributes, asked without the call, raise an AttributeError that names it.

    Python's own text speaks of a function. For methods between properties, such as
    ``max_timestamp`` of a log beside ``end_offset``, which do not read.
    """

    def __init__(self, method: Callable[..., object]) -> None:
        update_wrapper(self, method)
        self._method = method

    def __get__(self, owner: object, kind: type) -> object:
        return self if owner is None else _BoundCall(self._method, owner)

    def __call__(self, *args: object, **keywords: object) -> object:
        return self._method(*args, **keywords)


class _BoundCall:
    """A :class:`CallFirst` of one object."""

    def __init__(self, method: Callable[..., object], owner: object) -> None:
        self.__func__, self.__self__ = method, owner
        self.__doc__ = method.__doc__

    def __call__(self, *args: object, **keywords: object) -> object:
        return self.__func__(self.__self__, *args, **keywords)

    def __getattr__(self, name: str) -> object:
        method = self.__func__.__name__
        if name.startswith("_"):
            return getattr(self.__func__, name)
        raise AttributeError(f"{method} is a method, which reads the log: use {method}().{name}")


def call_first(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method whose callers forget the call; see :class:`CallFirst`."""
    return cast("Callable[P, T]", CallFirst(method))


def _fit(method: Callable[..., object], args: object, keywords: object) -> bool:
    """Whether the arguments are such that the method itself was entered, and raised."""
    from inspect import signature

    try:
        signature(method).bind(*args, **keywords)  # type: ignore[misc, arg-type]
    except TypeError:
        return False
    return True
