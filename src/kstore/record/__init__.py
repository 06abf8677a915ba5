"""What a record is: objects, columns, batches, codecs, times."""

from kstore._native.format.record import Record as Record

__all__ = ["Record"]
