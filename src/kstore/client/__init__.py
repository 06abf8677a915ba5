"""Producers and consumers of a store in this process.

Modules:

- consumer: A consumer: its assigned partitions, their positions, and the committed offsets of a
  group
- consumer_batch: The records that a consumer reads at once, and their commit
- metadata: Decides when a consumer refreshes its topics and partitions
- open_clients: Methods of a store that open producers, consumers and transactions
- partitioner: Chooses the partition of a record: murmur2 of the key, else sticky (KIP-794)
- producer: A producer: collects records into batches by partition; one thread writes them
- transactional_producer: A transactional producer: writes to several partitions atomically

murmur2 is native: ``_native/format/murmur2``.
"""
