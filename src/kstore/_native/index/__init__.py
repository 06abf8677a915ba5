"""Kafka's offset and time index files.

Modules:

- index_files: lookups in an offset index and a time index, the warm section first
- search_entries: the search loops: interpolation, then branchless bisection
"""
