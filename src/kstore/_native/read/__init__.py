"""From an offset to bytes, and from bytes to records. By time: :mod:`kstore.log.time_lookup`.

Modules:

- aborted_transactions: open, committed and aborted transactions, from batch headers
- batch_order: whether a batch's offsets fit between its neighbours'
- batch_walk: every batch of a buffer, with its checksum verified and its records decompressed
- decode: batches to columns, lists of values or Record objects
- dump_lines: the output of Kafka's DumpLogSegments
- header_walk: from a known batch to the one that contains an offset, by headers only
- segment_end: where the complete batches of a segment end, and their largest timestamp
- segment_pages: which pages a read needs, and whether they are in memory
- segment_view: from an offset to a slice of a segment's file
- slice: such a slice, and its sendfile; a part of segment_view
"""
