"""What a record is: objects, columns, batches, codecs, times."""

from collections.abc import Sequence

from kstore._native.format.record import Record as Record

# The headers of a record, as a caller gives them.
Headers = Sequence[tuple[str | bytes, bytes | None]]

__all__ = ["Headers", "Record"]
