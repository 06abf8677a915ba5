"""Arrow's columns to batches, and statistics of columns, for Spark's tasks.

Modules:

- arrow_batches: arrow columns to batches v2, and offsets for prepared batches
- log_statistics: counts, sizes, keys and times of a log in one walk
- tally: counts and sizes by key and time window
"""
