"""``Log.extend``: appends many records of one caller, in batches that the topic allows.

``batch.size``, ``max.message.bytes`` and ``segment.bytes`` limit a batch before it is compressed.
Where its records do not compress, or are converted to an old format, the batch can exceed them:
then it is built of fewer records. Only a single item that does not fit is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from kstore._native.format.record import holds_records_or_pairs
from kstore.errors import (
    InvalidTxnStateError,
    KStoreError,
    MessageTooLargeError,
    RecordListTooLargeError,
)
from kstore.record import Record, Timestamp
from kstore.record.memory_size import RECORD_OVERHEAD

if TYPE_CHECKING:
    from kstore._native.append.record_appender import RecordAppender

_CHUNK = 1000  # values taken from an iterable at a time


class TopicItems:
    """Items of one partition, of a source with items of several."""

    __slots__ = ("appended", "items", "numbers", "size")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.numbers: list[int] = []  # of the items in the source
        self.size = 0  # in bytes, of keys, values and headers
        self.appended = range(0)  # their offsets, once they are appended

    @property
    def memory(self) -> int:
        return self.size + RECORD_OVERHEAD * len(self.items)


class DoesNotFitError(Exception):
    """A single item is larger than the log allows; the caller adds its index."""

    def __init__(self, refusal: MessageTooLargeError | RecordListTooLargeError) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def describe(self, first: int, end: int, topic: TopicItems | None = None) -> KStoreError:
        """The error to raise, where offsets [first, end) were appended, one for each item.

        That of items of a topic does not say what was appended: other partitions have records too.
        """
        item = end - first if topic is None else topic.numbers[end - first]
        sentence = f"item {item} does not fit: {self.refusal.reason}"
        if topic is None:
            sentence += f"; {_appended(first, end)}"
        return type(self.refusal)(sentence, path=self.refusal.path)


def note_appended(error: BaseException, first: int, end: int) -> None:
    """Note how many items before an error are in the log, at offsets [first, end)."""
    error.add_note(f"before this error {_appended(first, end)}")


def _appended(first: int, end: int) -> str:
    if end == first:
        return "nothing was appended"
    if end == first + 1:
        return f"the first item was appended, at offset {first}"
    return f"the first {end - first} items were appended, at offsets {first} to {end - 1}"


def check_items(values: Iterable[Any]) -> Iterable[Any]:
    """The values; TypeError for what is one value, or no list of them."""
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise TypeError("extend takes many values, not one: use append, or put it in a list")
    if isinstance(values, Mapping):
        raise TypeError("extend takes the pairs of a mapping: extend(mapping.items())")
    if hasattr(values, "columns"):  # a data frame or an Arrow table
        raise TypeError(
            "extend takes values or pairs, not a table: extend(json.dumps(row).encode() for row in "
            "table.to_pylist()), or frame.to_dict('records')"
        )
    if isinstance(values, Record):
        raise TypeError("extend takes many records, not one: put it in a list")
    if hasattr(values, "aborted_transactions") or hasattr(values, "isolation"):
        _check_committed(values)
    return values


def _check_committed(source: Any) -> None:
    """Refuse a log or a view with records of transactions that are aborted or still open: their
    copies would be committed records."""
    from kstore.log.read_committed import UNCOMMITTED  # these import this module
    from kstore.log.readable_log import ReadableLog
    from kstore.log.view import LogView

    view = source.view() if isinstance(source, ReadableLog) else source
    if not isinstance(view, LogView) or view.isolation != UNCOMMITTED:
        return
    log = view.log
    if view.stop > log.last_stable_offset or log.aborted_transactions(view.start, view.stop):
        raise InvalidTxnStateError(
            "the source has records of transactions that are aborted or open, and their copies "
            "would be committed: extend(log.view(isolation_level='read_committed'))",
            path=log.path,
        )


def split_into_chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """The values in lists of bounded length."""
    if isinstance(values, list):
        yield values
        return
    source = iter(check_items(values))
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def append_chunk(appender: "RecordAppender", chunk: list[Any], when: "Timestamp") -> None:
    """Append values, (key, value) pairs and Records in batches; the caller holds the lock.

    Raises DoesNotFitError for a single item that the log refuses.
    """
    append = appender.append_records if holds_records_or_pairs(chunk) else appender.append_values
    done = 0
    while done < len(chunk):
        try:
            done += append(chunk, done, when)
        except (MessageTooLargeError, RecordListTooLargeError):
            done += _append_fewer(appender, partial(append, chunk, done, when))


def _append_fewer(appender: "RecordAppender", append: Callable[[], int]) -> int:
    """Append with a smaller batch size, for records that grow in compression or conversion."""
    usual = limit = appender.batch_size
    try:
        while True:
            limit //= 2
            appender.batch_size = limit  # 0: one record for each batch
            try:
                return append()
            except (MessageTooLargeError, RecordListTooLargeError) as error:
                if limit == 0:
                    raise DoesNotFitError(error) from None
    finally:
        appender.batch_size = usual
