from collections.abc import Iterable, KeysView, Mapping
from datetime import datetime as _datetime
from typing import Any, SupportsIndex, final, overload

class RecordHeaders(tuple[tuple[str, bytes | None], ...]):
    """The headers of a record: (name, value) pairs in their order.

    ``headers["trace"]`` is the value of the last header of that name, as Kafka's
    ``Headers.lastHeader``; KeyError if there is none. ``"trace" in headers`` and ``get`` take a
    name, too. All else is a tuple's: iterate it for every pair; ``dict(headers)`` and
    ``{**headers}`` have the last of each name. Immutable.
    """

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> tuple[str, bytes | None]: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[tuple[str, bytes | None], ...]: ...
    @overload
    def __getitem__(self, index: str, /) -> bytes | None: ...
    def __contains__(self, item: object, /) -> bool: ...
    def get(self, name: str, default: bytes | None = None) -> bytes | None:
        """The value of the last header of a name; the default if there is none."""
    def items(self) -> RecordHeaders:
        """The pairs, as a dict's."""
    def keys(self) -> KeysView[str]:
        """The names, each once, as a dict's."""

@final
class Record:
    """One record, of a log or for a log. Immutable, hashable, comparable, picklable; safe to share.

    ``log.extend([kstore.Record(value=b"12.50", key=b"alice", headers={"currency": b"EUR"})])``
    appends one: the log assigns its offset, and the time if the record has no timestamp.

    ``key`` and ``value`` are bytes or None. ``timestamp`` is milliseconds since 1970 (UTC),
    -1 if none (message v0, or the producer set none). ``headers`` are (name, value) pairs;
    invalid UTF-8 in a name is replaced as in Java. ``leader_epoch`` is that of the record's
    batch, -1 if unknown.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int

    def __init__(
        self,
        offset: int = -1,
        timestamp: _datetime | int | None = None,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None = None,
        *,
        timestamp_type: str = "CreateTime",
        leader_epoch: int = -1,
    ) -> None:
        """Name the arguments: a record to append needs only ``value=``, and often ``key=``.

        Parameters
        ----------
        offset
            -1: none yet. An append ignores it, and ``timestamp_type`` and ``leader_epoch``.
        timestamp
            An aware datetime, or milliseconds since 1970; None: the time of the append.
        key, value
            Bytes, or None for null.
        headers
            A dict, or (name, value) pairs where a name occurs twice or order matters.

        Raises TypeError for text and other types, and InvalidTimestampError.
        """
    @property
    def headers(self) -> RecordHeaders:
        """A tuple of (name, value) pairs, which a name finds, too: ``record.headers["trace"]``."""
    @property
    def timestamp_type(self) -> str:
        """Kafka's name: ``CreateTime``, ``LogAppendTime``, or ``NoTimestampType`` (v0)."""
    @property
    def datetime(self) -> _datetime | None:
        """The timestamp as an aware UTC datetime; None if none.

        Raises ``InvalidTimestampError`` for a timestamp beyond the year 9999.
        """
    @property
    def topic(self) -> str:
        """The topic that a consumer read the record from.

        AttributeError for a record that no consumer read: a log knows its own. Records that
        differ only in topic and partition are equal.
        """
    @property
    def partition(self) -> int:
        """The partition that a consumer read the record from; AttributeError as for ``topic``."""
    def replace(self, **changes: Any) -> Record:
        """A record with other values of the named fields: ``record.replace(value=b"12.50")``.

        Also for ``copy.replace`` of Python 3.13. Takes the constructor's arguments and raises its
        errors. The result has no topic and partition.
        """
    def __replace__(self, **changes: Any) -> Record: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def name_partition(records: list[Record], topic: str, partition: int) -> None:
    """Let records know their topic and partition; only for new ones, which no other code has.

    TypeError for a list with anything else. Thread safe.
    """

def holds_records_or_pairs(items: list[Any]) -> bool:
    """Whether any item is a Record or a tuple."""

def _restore(*fields: Any) -> Record: ...
