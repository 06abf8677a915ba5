"""One partition: appends, reads, and every change to its segments.

Modules:

- active_segment: The active segment: opening its files, rolling to the next one, closing
- append_errors: Errors for arguments of ``Log.append`` that it does not have, with the call to use
  instead
- append_info: The result of an append of complete batches
- append_split: Splits a batch that is larger than the topic allows, and appends it as several
- batch_headers: The batches of a log by their headers: offsets, codec, producer, sizes; no
  record is read
- delete_segments: Deleting a log's oldest segments, and raising its start (Kafka's
  LocalLog.deleteSegments)
- extend: ``Log.extend``: appends many records of one caller, in batches that the topic allows
- find_removed_ends: How the transactions ended whose end markers a truncation removes
- flush: Flushing: what makes appends survive a power cut (docs/decisions/0004-durability.md)
- flush_together: Flushes many logs at the same time: one call syncs their files
- follow: Follows a log as it grows, for ``for`` and ``async for``
- followed_directory: The directory of a partition that its owner, another process, may move or
  delete
- followed_files: Sets an event of an asyncio loop after changes of the files of another process's
  log
- group_commit: Group commit: appends continue during a sync, and one sync serves all that wait
- guessed_names: What logs and views answer to names of Kafka's clients and to ``len``
- import_segment: Imports a file of record batches that another program wrote: a rename makes it a
  segment
- last_stable_offset: The last stable offset of a log whose producer state is not current
- latest_records: The latest record of every key, as a dict: what a compacted topic stands for
- leader_errors: The errors of Kafka's leader, as exceptions with Kafka's error code
- list_rolled_segments: The rolled segments of a partition, for a reader in another process
- log: A log: one partition, to append to and to read
- offset_and_timestamp: The result of a lookup by time
- parallel_scan: A scan in which threads read ahead, range by range and in order, with bounded
  memory
- read_committed: What read_committed needs: where a reader ends, and walks of the log's
  transactions
- read_only_log: The log of another process: :class:`kstore.Log` on a reader of its files
- read_segment_file: Reads batches from a segment's log file without mapping it, because its owner
  may truncate it
- readable_log: A log as its readers use it: the interface for reading a partition
- reader: Reads a partition that another process may be writing: kstore or a Kafka broker
- record_errors: Which records of a client batch a leader refuses, with the messages of Kafka's
  LogValidator
- relocate: Moves an open log to another directory: the writer's side of a move
- replace_segments: Replaces segments by compacted ones, as Kafka's replaceSegments
- retention: Kafka's retention rules: which segments are to be deleted
- retention_report: The result of applying retention: how many segments it deleted, and which
  records went
- roll_jitter: The jitter of rolls by time, drawn once for each log (Kafka's
  LogConfig.randomSegmentJitter)
- segment_access: Reads of a writer's segments, while truncation, retention and compaction change
  the log
- segment_source: How a log accesses its segments: those of its writer, or of its reader
- shared_committer: One committer for many logs: their syncs are issued together, and the disk
  commits once
- skip_corrupt: Continues to read after corrupt batches: every valid batch of a log once
- statistics: Statistics of a log: sizes, keys, codecs, offsets and times, of ranges that add up
- time_lookup: Finds offsets by time, and collects the facts for retention
- transaction_outcomes: Which transactions of a log were aborted, for a read_committed reader that
  scans its records
- truncate: Moves a log's end: truncation, or a higher end offset
- view: A window of a log: iterated as records, scanned as columns, followed as it grows
- watch: Calls the callbacks that watch a log after each change of it, on the thread that made the
  change
- writable_log: A log that is open for writing, with its high watermark: :class:`kstore.Log` on a
  :class:`kstore.log.writer.LogWriter`
- writer: The writer of one partition: one state, and a component for each kind of change
- writer_state: The shared state of a log's writer: its segments, its locks, and whether it may
  write

The steady append, with its sparse index entries, is native: ``_native/append`` (``log_end``,
``record_appender``); so are reads: ``_native/read``.
"""
