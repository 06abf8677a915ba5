from typing import Any, final

@final
class ProduceFrame:
    """A parsed request, transactional or not. Made by :func:`parse_request`.

    Either ``topic`` or ``topic_id`` is None. ``batch`` is a slice of the frame; ``producer_id`` and
    ``producer_epoch`` are the batch's.
    """

    @property
    def version(self) -> int: ...
    @property
    def transactional_id(self) -> str | None: ...
    @property
    def acks(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def topic_id(self) -> bytes | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def batch(self) -> memoryview: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    def answer(self, base_offset: int, append_time: int, log_start: int) -> bytes:
        """The frame of the answer without an error."""

def parse(frame: Any) -> tuple[str | bytes, int, int, int, int] | None: ...
def parse_request(frame: Any) -> ProduceFrame | None:
    """The request in a frame without its size; None for a request of another form.

    It may have a transactional id, and its batch may be transactional.
    """
