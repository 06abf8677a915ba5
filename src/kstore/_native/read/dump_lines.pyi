from collections.abc import Callable
from typing import final

from _typeshed import ReadableBuffer

@final
class LineDumper:
    """Formats batches as Kafka's DumpLogSegments prints them, many lines at a time.

    Parameters
    ----------
    deep
        Print a line for each record, too.
    contents
        Include keys and payloads as text; invalid UTF-8 shows as U+FFFD, as in Java.
    metadata
        False prints only the key and payload of each record, and no control records.
    decompress
        ``(codec, magic, data) -> bytes``; required if a batch is compressed.
    render
        ``(offset, key, value) -> text`` replaces `` key: ... payload: ...``.
    render_control
        ``(key, value) -> text`` to print after a control record's metadata.

    Not safe to share between threads. Memory: about 1 MiB of lines, or those of one batch.
    """

    gaps: list[tuple[int, int]]
    """(offset, next offset) where two consecutive offsets are not adjacent; deep only."""
    damaged: list[tuple[int, int, str]]
    """(position, base offset, reason) of batches whose records could not be read; deep only."""

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
    """Declared size of the incomplete batch at ``position``; else 0."""
    def feed(self, chunk: ReadableBuffer, position: int) -> None:
        """Continue with a chunk of the log at ``position``, of any magic; held until ``close``."""
    @property
    def position(self) -> int:
        """Position in the log after the last complete batch."""
    @property
    def stop(self) -> str | None:
        """Why no batch can start at ``position``; None at the end or at an incomplete batch."""
    def next_lines(self) -> bytes | None:
        """The next lines of the chunk, each with its newline; None after the last batch."""
    def close(self) -> None:
        """Release the buffer."""
