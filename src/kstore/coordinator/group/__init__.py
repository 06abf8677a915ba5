"""Committed offsets of consumer groups, and the claims that prevent two readers of a partition.

Modules:

- committed_offsets: Committed offsets of consumer groups, in ``__consumer_offsets`` or in files
  beside it
- offset_records: Encodes and decodes the offset commits of ``__consumer_offsets``, byte for byte as
  Kafka
- offsets: Committed offsets: a writer keeps them in ``__consumer_offsets``, other processes in a
  file
- verify_keys: Extends the audit of ``__consumer_offsets``: decodes the keys of its records
"""
