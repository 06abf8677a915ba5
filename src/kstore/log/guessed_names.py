"""What logs and their views answer to names of Kafka's clients and to ``len``."""

from typing import TYPE_CHECKING, Never

from kstore.kafka_names import OF_LOGS, OF_VIEWS, answer_names


class GuessedNames:
    """Explains names and calls that a log lacks."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take a length for valid

        def __len__(self) -> Never:
            raise TypeError(
                "a log has no len(): log.count() reads and counts its records, "
                "log.end_offset - log.start_offset are its offsets, which may have gaps"
            )

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

        def __reversed__(self) -> Never:
            raise TypeError("a view is read forwards: reversed(list(view))")

        def __bool__(self) -> bool:
            return True


answer_names(GuessedNames, OF_LOGS)
answer_names(GuessedNamesOfViews, OF_VIEWS)
