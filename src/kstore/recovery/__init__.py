"""From the files of a partition, as a crash left them, to what a log needs to start.

Modules:

- apply_changes: The changes of a recovery on disk: truncates, quarantines, rewrites indexes and
  epochs
- emptied_segments: Empty segments that had records: what their side files say, and whether the loss
  is certain
- epoch_after_loss: The leader epoch that follows a loss of acknowledged records
- failed_sync: ``kstore.unsynced``: a sync of a partition's files failed, so the disk may lack what
  reads show
- gap_reasons: Reasons for offsets between two segments that no record has; recovery reports other
  gaps
- loader: Loads a partition directory for a writer: segments, epochs, recovery point
- lost_segments: ``kstore.lost``: offsets whose segments disappeared while no program had the log
  open
- recover_partition: Recovers a partition directory before a writer opens it: Kafka's LogLoader
- removed_ends: ``kstore.ends``: how the transactions ended whose end markers a truncation removes
- report: Reports of a recovery: immutable values that :mod:`kstore.recovery.recover_partition`
  creates
- swap_files: Finishes or undoes an interrupted compaction, split or deletion in a partition
  directory
- torn_tail: Cuts the torn tail of a segment, which the scan found; keeps its bytes as
  ``kstore.cut.*``

The scan of a segment is native: ``_native/recovery/segment_scan``.
"""
