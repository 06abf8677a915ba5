"""``Record`` under the name that pickles written by kstore 0.1 have."""

from kstore._native.format.record import Record, _restore

__all__ = ["Record", "_restore"]
