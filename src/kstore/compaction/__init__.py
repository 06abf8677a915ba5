"""The log cleaner: of every key, the latest record stays.

Modules:

- cleaner: Compaction of one log: of every key the latest record stays (Kafka's Cleaner)
- policy: What the cleaner may touch, and how its output is cut: Kafka's rules, decided here
- threads: Compaction in the background: threads that take the dirtiest log, again and again

Both passes are native: ``_native/compaction`` has the offset map, the key indexer and the record
filter, which sets the delete horizon of tombstones.
"""
