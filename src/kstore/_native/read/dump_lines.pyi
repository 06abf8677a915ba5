from collections.abc import Callable
from typing import final

from _typeshed import ReadableBuffer

@final
class LineDumper:
    """The lines that Kafka's DumpLogSegments prints of a log's batches, made in bulk.

    Parameters
    ----------
    deep
        A line for every record too.
    contents
        Keys and payloads as text in it; bytes that are not UTF-8 show as U+FFFD, as in Java.
    metadata
        False leaves only key and payload of each record, and no control records.
    decompress
        ``(codec, magic, data) -> bytes``; needed as soon as a compressed batch is met.
    render
        ``(offset, key, value) -> text`` replaces `` key: ... payload: ...``.
    render_control
        ``(key, value) -> text`` for what stands behind a control record's metadata.

    Not safe to share between threads. Memory: a block of lines of about 1 MiB, or one batch's.
    """

    gaps: list[tuple[int, int]]
    """(offset, the next one) wherever a record does not follow its predecessor; deep only."""
    damaged: list[tuple[int, int, str]]
    """(position, base offset, reason) of batches whose records could not be read; deep only."""
    """How many batches had a checksum that is not that of their bytes."""

    def __init__(
        self,
        *,
        deep: bool = False,
        contents: bool = False,
        metadata: bool = True,
        decompress: Callable[[int, int, memoryview], bytes] | None = None,
        render: Callable[[int, bytes | None, bytes | None], str] | None = None,
        render_control: Callable[[bytes | None, bytes | None], str] | None = None,
    ) -> None: ...
    wanted: int
    """Size that the batch at ``position`` claims to have, where it is incomplete; else 0."""
    def feed(self, chunk: ReadableBuffer, position: int) -> None:
        """Continue with bytes of the log, any magic, that lie at position; held until ``close``."""
    @property
    def position(self) -> int:
        """Where in the log the walk stands: behind the last complete batch."""
    @property
    def stop(self) -> str | None:
        """Why no batch can start at ``position``; None if there is merely none, or not all."""
    def next_lines(self) -> bytes | None:
        """The next lines of the chunk, each with its newline; None at its last complete batch."""
    def close(self) -> None:
        """Release the buffer."""
