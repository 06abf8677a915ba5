from collections.abc import Iterable
from datetime import datetime as _datetime
from typing import Any, final

@final
class Record:
    """One record of a log. Immutable, hashable, comparable, picklable; safe to share.

    ``key`` and ``value`` are bytes or None. ``timestamp`` is milliseconds since 1970 (UTC),
    -1 if none (message v0, or the producer set none). ``headers`` are (name, value) pairs;
    invalid UTF-8 in a name is replaced as in Java. ``leader_epoch`` is that of the record's
    batch, -1 if unknown.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        *,
        timestamp_type: str = "CreateTime",
        leader_epoch: int = -1,
    ) -> None: ...
    @property
    def timestamp_type(self) -> str:
        """Kafka's name: ``CreateTime``, ``LogAppendTime``, or ``NoTimestampType`` (v0)."""
    @property
    def datetime(self) -> _datetime | None:
        """The timestamp as an aware UTC datetime; None if none.

        Raises ``InvalidTimestampError`` for a timestamp beyond the year 9999.
        """
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def holds_records(items: list[Any]) -> bool:
    """Whether any item is a Record."""

def _restore(*fields: Any) -> Record: ...
