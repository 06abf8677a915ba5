"""Kafka's record formats: bounds-checked reading and writing of batches, records, checksums.

Modules:

- argument: buffers that callers pass to kernels, held for the duration of a call
- ascii_text: whether bytes are ASCII text
- batch_assembly: builds a v2 batch, a wrapper or uncompressed messages from rows
- batch_fields: single fields of a header, for Python
- batch_header: the header of a batch of any magic
- batch_scan: checks the checksums of many batches, by threads; their headers as columns
- buffer_view: columns of native memory, exported through the buffer protocol
- committed_offsets: sorts the commits of ``__consumer_offsets`` by group
- converter: converts batches to another magic or codec
- crc: CRC-32C and CRC-32, by the fastest path for this CPU
- cursor: bounded reads and writes of integers and varints
- delete_horizon: when compaction may remove the tombstones of a batch (KIP-534)
- end_marker: the control records that end a transaction, read and written
- integer: bounds checks of integer arguments
- layout: sizes, positions and attribute bits of every structure on disk
- legacy_message: writes v0 and v1 messages
- murmur2: Kafka's hash of keys, and its choice of the partition
- ragged_bytes: columns of bytes of varying length
- record: the class ``Record``
- record_rows: decodes records into columns
- record_span: parses and encodes one record of a v2 batch
- status: status codes of kernels, and their exceptions
- subclass_tuple: allocates a tuple of a subclass, for the caller to fill
"""
