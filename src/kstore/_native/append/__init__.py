"""Encoding, validation and writing of batches at the end of a log.

Modules:

- append_info: the result of an append
- batch_appender: appends batches of clients (as leader) and of leaders (as follower)
- clock: the wall clock
- encode: records to one batch v2
- log_end: makes room, writes, publishes and adds index entries, for every kind of append
- producer_table: epochs, sequences and open transactions of producers
- record_appender: appends records of this process
- reentrant_lock: the lock of a log
- stamp_batch: sets offset, leader epoch and timestamps of a batch, outside of its checksum
- validate_batch: checks of a batch v2, as a leader makes them
- validate_messages: checks of messages v0 and v1, as a leader makes them
"""
