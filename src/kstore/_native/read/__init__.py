"""From an offset or a time to bytes, and from bytes to records.

Modules:

- aborted_transactions: open, committed and aborted transactions, from batch headers
- batch_order: whether the offsets and sequences of batches rise
- batch_walk: every batch of a buffer, with its checksum checked and its records unpacked
- decode: batches to columns, lists of values or Record objects
- dump_lines: the output of Kafka's DumpLogSegments
- header_walk: from a batch to the one that holds an offset, by headers
- segment_end: where the complete batches of a segment end, and their largest timestamp
- segment_view: from an offset to a slice of a segment's file
"""
