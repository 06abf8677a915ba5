"""The two passes of the log cleaner.

Modules:

- key_indexer: first pass: finds the latest offset of every key
- offset_map: a bounded map from the hash of a key to its latest offset
- record_filter: second pass: copies or rebuilds batches with the retained records; sets
  delete horizons
"""
