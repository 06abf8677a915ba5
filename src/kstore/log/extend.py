"""Many records of one caller appended in batches that the topic takes: ``Log.extend``.

A batch is bounded by ``batch.size``, ``max.message.bytes`` and ``segment.bytes`` before it is
compressed. It may grow beyond them where its records do not compress, or are converted to an old
format: then fewer are appended at once. Only a single item that does not fit is refused.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from kstore._native.format.record import holds_records
from kstore.errors import KStoreError, MessageTooLargeError, RecordListTooLargeError

if TYPE_CHECKING:
    from kstore._native.append.record_appender import RecordAppender
    from kstore.log.log import Timestamp

_CHUNK = 1000  # values taken from an iterable at a time


class DoesNotFitError(Exception):
    """A single item is larger than the log takes; for the caller, who knows its index."""

    def __init__(self, refusal: MessageTooLargeError | RecordListTooLargeError) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def describe(self, first: int, end: int) -> KStoreError:
        """The error to raise, where offsets [first, end) were appended: one for each item."""
        there = f"offsets {first} to {end - 1} were" if end > first else "nothing was"
        return type(self.refusal)(
            f"item {end - first} does not fit: {self.refusal.reason}; {there} appended",
            path=self.refusal.path,
        )


def split_into_chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """The values in lists, as they are appended."""
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise TypeError("extend takes many values, not one: use append, or put it in a list")
    if isinstance(values, list):
        yield values
        return
    source = iter(values)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def append_chunk(appender: "RecordAppender", chunk: list[Any], when: "Timestamp") -> None:
    """Append a chunk of values, of Records, or of both, batch by batch; the lock is held.

    Raises DoesNotFitError for a single item that the log does not take.
    """
    put = appender.append_records if holds_records(chunk) else appender.append_values
    done = 0
    while done < len(chunk):
        try:
            done += put(chunk, done, when)
        except (MessageTooLargeError, RecordListTooLargeError):
            done += _put_fewer(appender, partial(put, chunk, done, when))


def _put_fewer(appender: "RecordAppender", put: Callable[[], int]) -> int:
    """Append fewer items at once: what does not compress, or an old format, takes more bytes."""
    usual = limit = appender.batch_size
    try:
        while True:
            limit //= 2
            appender.batch_size = limit  # with 0 a batch is of one record
            try:
                return put()
            except (MessageTooLargeError, RecordListTooLargeError) as error:
                if limit == 0:
                    raise DoesNotFitError(error) from None
    finally:
        appender.batch_size = usual
