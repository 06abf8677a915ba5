"""Encoding, validation and writing of batches at the end of a log.

Modules:

- append_info: the result of an append
- batch_appender: appends batches from clients (as leader) and from a leader (as follower)
- batch_run: appends consecutive batches from clients with one write
- clock: the wall clock
- encode: records to one batch v2
- log_end: rolls, writes, publishes and adds index entries, for every kind of append
- offset_and_time_index: adds an entry to both indexes about every index.interval.bytes
- producer_table: epochs, sequences and open transactions of producers
- record_appender: appends records of this process
- reentrant_lock: the lock of a log
- roll_due: whether a batch belongs to the next segment
- stamp_batch: sets offset, leader epoch and timestamps of a batch
- validate_batch: validates a v2 batch as a leader does
- validate_messages: validates v0 and v1 messages as a leader does
"""
