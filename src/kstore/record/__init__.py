"""What a record is: objects, columns, batches, codecs, times."""

from kstore._native.record import Record as Record

__all__ = ["Record"]
