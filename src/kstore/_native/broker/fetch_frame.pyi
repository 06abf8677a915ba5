from typing import final

from _typeshed import ReadableBuffer

@final
class WantedFrame:
    """A parsed request of one partition, and the encoding of its answer. Made by :func:`parse`.

    Of ``topic`` and ``topic_id`` one is None: the id since version 13, the name before.
    ``max_bytes`` is the limit for the records (bytes), of the partition, the request and the
    broker. ``session_id`` is 0, with ``session_epoch`` -1, for a request without a session.
    ``is_committed``: the isolation level is read_committed.
    """

    @property
    def version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def topic_id(self) -> bytes | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def session_id(self) -> int: ...
    @property
    def session_epoch(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def partition_max_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def min_bytes(self) -> int: ...
    @property
    def max_wait_ms(self) -> int: ...
    @property
    def is_committed(self) -> bool: ...
    def answer_around(
        self, high_watermark: int, last_stable_offset: int, log_start: int, size: int
    ) -> tuple[bytes, bytes]:
        """What stands before and behind the records of the answer, the answer's size included.

        ``size`` is that of the records.
        """

    def complete_answer(
        self, high_watermark: int, last_stable_offset: int, log_start: int, records: ReadableBuffer
    ) -> bytes:
        """The answer with a copy of the records, without aborted transactions.

        For few bytes: one send(2) of a copy is faster than a send and a sendfile(2).
        """

def parse(frame: ReadableBuffer, most_bytes: int) -> WantedFrame | None:
    """The request in a frame without its size; None for a request of another form.

    ``most_bytes`` is the broker's limit for the records of one answer (``fetch.max.bytes``).
    """
