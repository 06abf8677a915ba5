"""Kafka's record formats: batches, records and checksums, read and written with bounds.

Modules:

- argument: arguments of kernels, held for the length of a call
- batch_assembly: rows of any source to a batch v2, a wrapper message or plain messages
- batch_fields: single fields of a header, for Python
- batch_header: the header of a batch of any magic
- batch_table: the headers of many batches as columns, and where batches begin
- buffer_view: columns of native memory, exported through the buffer protocol
- checksum: CRC-32C and CRC-32, by the fastest path of this CPU
- converter: batches of one magic to batches of another
- cursor: bounded reads and writes of integers and varints
- integer: whole numbers that callers pass in, with bounds
- layout: sizes, positions and attribute bits of every structure on disk
- legacy_message: messages v0 and v1, written
- murmur2: Kafka's hash of keys, and the partition that it chooses
- ragged_bytes: columns of bytes of varying length
- record: the class ``Record``
- record_rows: columns of decoded records, under construction
- record_span: one record of a batch v2, parsed and encoded
- status: results of kernels, and the exception for each
"""
