"""What logs and their views answer to names of Kafka's clients and to ``len``."""

from typing import TYPE_CHECKING, Never

from kstore.kafka_names import OF_LOGS, OF_VIEWS, answer_names


class GuessedNames:
    """Explains names and calls that a log lacks."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take a length for valid

        def __len__(self) -> Never:
            raise TypeError(
                "a log and its slices have no len(), since offsets may have gaps: end_offset - "
                "start_offset is the number of offsets, sum(1 for _ in log) reads and counts the "
                "records"
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
                "a view has no len(), since offsets may have gaps: list(view) has one, and "
                "sum(1 for _ in view) reads and counts the records"
            )

        def __reversed__(self) -> Never:
            raise TypeError("a view is read forwards: reversed(list(view))")

        def __bool__(self) -> bool:
            return True


answer_names(GuessedNames, OF_LOGS)
answer_names(GuessedNamesOfViews, OF_VIEWS)
