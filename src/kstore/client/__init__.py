"""Producers and consumers of a store in this process.

Modules:

- argument_errors: Errors for arguments that Kafka's clients take, with kstore's equivalent
- assignment: The partitions that a consumer reads now, with its position in each
- block_errors: Closes the object of a ``with`` block without hiding an error of the block itself
- chosen_partitions: The partitions that a consumer reads because its caller chose them or their
  topics
- consumer: A consumer: its assigned partitions, their positions, and the committed offsets of a
  group
- consumer_batch: The records of one read of a consumer, and their commit
- consumer_positions: The positions of a consumer: asked, and moved by offset, time or commit
- consumer_wait: What a consumer waits for: records in its logs, and changes of its topics, group
  and positions
- delivery: The result of sending a record, and its batch
- fetcher: Reads the records of a consumer's partitions from their logs, each partition in turn
- group_methods: Methods of a store that show and change consumer groups
- group_partitions: The partitions that a consumer gets from its group, which shares its topics
  among its members
- loop_signal: Wakes a task of an event loop, from any thread
- metadata: Decides when a consumer refreshes its topics and partitions
- open_clients: Methods of a store that open producers, consumers and transactions
- partitioner: Chooses the partition of a record: murmur2 of the key, else sticky (KIP-794)
- producer: Producers: collect records into batches by partition, which a thread writes
- record_metadata: Where a delivered record is in its topic
- sender: Collects batches up to a memory limit; one thread appends them and syncs their logs
- topic_batches: A producer's open batches of one topic, and their appends
- topic_changes: What a consumer does when a topic that it reads was deleted and recreated
- transactional_producer: A transactional producer: writes to several partitions atomically
- uncommitted_reads: Warns where a consumer of a group has read records and committed nothing

murmur2 is native: ``_native/format/murmur2``.
"""
