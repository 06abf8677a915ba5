"""Producers and consumers of a store in this process.

Modules:

- argument_errors: Errors for arguments in the form of Kafka's clients: they say what to write
  instead
- consumer: A consumer: its assigned partitions, their positions, and the committed offsets of a
  group
- consumer_batch: The records that a consumer reads at once, and their commit
- consumer_positions: The positions of a consumer: asked, and moved by offset, time or commit
- delivery: The result of sending a record, and the batch that it is in
- metadata: Decides when a consumer refreshes its topics and partitions
- open_clients: Methods of a store that open producers, consumers and transactions
- partitioner: Chooses the partition of a record: murmur2 of the key, else sticky (KIP-794)
- producer: Producers: collect records into batches by partition, which a thread writes
- record_metadata: Where a delivered record is in its topic
- sender: Collects batches up to a limit of memory; one thread appends them and syncs their logs
- topic_batches: A topic's open batches of a producer, and how they are appended to its logs
- transactional_producer: A transactional producer: writes to several partitions atomically

murmur2 is native: ``_native/format/murmur2``.
"""
