"""Kernels for Spark's tasks: Arrow columns to batches, and statistics of records.

Modules:

- encode_arrow: encodes Arrow columns into v2 batches; assigns offsets to staged batches
- log_statistics: counts, sizes, keys and timestamps of a log in one walk
- tally: counts and sizes of records by key and time window
"""
