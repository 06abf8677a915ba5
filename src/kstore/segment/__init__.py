"""The files of one segment: log, indexes, transaction index and header checksums."""
