"""A read-only audit of partitions: every checksum, record, index entry and loss.

The package is called, too: ``kstore.verify("data")`` audits a log directory.

Modules:

- distributed: An audit in separate ranges of segments, merged into the report of one complete
  audit
- log_dir_state: The state of a partition in its log directory, for an audit of the partition's
  files
- losses: Finds lost records of a partition from its segments, side files and checkpoints
- missing_folders: Finds partitions without a folder, according to their log directory
- moving_partition: Audits a partition whose owner may move it to another log directory meanwhile
- partition: A read-only audit of one partition directory: every checksum, record, offset and index
  entry
- report_lines: The report of an audit as lines of text, and as an exit status
- segment: The audit of one segment: its batches, indexes, header checksums and transactions
- segment_walk: Walks one segment for an audit, window by window and in order, and reports what it
  finds
- transactions: The transactional side files of a partition, compared with the markers in its log
"""

import sys

# Its name in the public face is a function's, too, which opens a store: a class from there.
sys.modules[__name__].__class__ = sys.modules["kstore"]._CallablePackage
