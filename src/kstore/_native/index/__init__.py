"""Kafka's offset and time index files.

Modules:

- index_audit: compares batch headers with both indexes
- index_lookup: lookups in an offset index and a time index, with Kafka's warm section
- search_entries: the search loops: interpolation, then branchless bisection
"""
