"""The log cleaner: it keeps the latest record of each key.

Modules:

- cleanable_segments: Which segments the cleaner may clean and how it groups them: Kafka's rules,
  without I/O
- cleaned_transactions: Which batches and markers of transactions a compaction removes (Kafka's
  CleanedTransactionMetadata)
- cleaner: Compacts one log: keeps the latest record of each key (Kafka's Cleaner)
- compaction_report: The result of a compaction
- expired_tombstones: Which tombstones of cleaned segments have been kept for delete.retention.ms
- log_cleaner: The cleaner threads: each repeatedly compacts the dirtiest log (Kafka's LogCleaner)
- round_plan: Plans a round of a log's compaction
- throttler: Limits the bytes per second that compactions read and write (Kafka's Throttler)

Both passes are native: ``_native/compaction`` has the offset map, the key indexer and the record
filter, which sets the delete horizon of tombstones.
"""
