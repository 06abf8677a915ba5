"""The files of one segment: log, indexes, transaction index and header checksums.

Modules:

- cleaned_segment: The files of a segment that a compaction writes, with the suffix ``.cleaned``
- find_next_batch: Finds the next valid batch behind corrupt bytes of a segment file
- header_checksums: Checksums over batch headers of a rolled segment, which Kafka's own checksums
  leave out
- index_entry: One entry of an index file, where no complete index is in memory
- index_sanity: Checks whether a segment's offset and time index can be trusted
- largest_timestamp: The largest timestamp of a segment, and whether its time index agrees with its
  log
- preallocate: Zeros ahead of the active segment's end (``preallocate``): written, and cut again
- salvage: Finds valid batches in the segment files of a corrupt partition, and selects those of one
  log
- scan: One pass over a segment file: checks every batch and builds both indexes in memory
- segment: The files of one segment: creates, opens, trims, maps, renames and removes them
- transaction_index: Transaction indexes (``N.txnindex``): the aborted transactions of a segment

Index files and their search (the warm section) are native: ``_native/index``; the sparse index
entries of an append: ``_native/append``; the header walk of a read, and the slice that it
returns: ``_native/read/segment_view``.
"""
