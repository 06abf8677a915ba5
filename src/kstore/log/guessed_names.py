"""What logs and their views answer to names of Kafka's clients and to ``len``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Never

from kstore.hints.kafka_names import OF_LOGS, OF_VIEWS
from kstore.hints.missing_names import answer_names
from kstore.record import Record


class GuessedNames:
    """Explains names and calls that a log lacks."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take a length for valid

        def __len__(self) -> Never:
            raise TypeError(
                "a log has no len(): log.count() reads and counts its records, "
                "log.end_offset - log.start_offset are its offsets, which may have gaps"
            )

        def __contains__(self, item: object) -> bool:
            return _contains(self, item, "log")

        def __reversed__(self) -> Never:
            raise TypeError("a log is read forwards: reversed(list(log.tail(10))), or any slice")

        def __bool__(self) -> bool:
            return True


class GuessedNamesOfViews:
    """Explains names and calls that a view lacks."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __len__(self) -> Never:
            raise TypeError(
                "a view has no len(): view.count() reads and counts its records; list(view) has one"
            )

        def __contains__(self, item: object) -> bool:
            return _contains(self, item, "view")

        def __reversed__(self) -> Never:
            raise TypeError("a view is read forwards: reversed(list(view))")

        def __bool__(self) -> bool:
            return True


def _contains(records: Iterable[Record], item: object, what: str) -> bool:
    """Whether a record is among these; TypeError for a value, a key or an offset, never found."""
    if not isinstance(item, Record):
        raise TypeError(
            f"a {what} holds records, not {type(item).__name__}: any(record.value == b'x' for "
            f"record in {what}), b'key' in {what}.latest()"
        )
    return any(record == item for record in records)


answer_names(GuessedNames, OF_LOGS)
answer_names(GuessedNamesOfViews, OF_VIEWS)
