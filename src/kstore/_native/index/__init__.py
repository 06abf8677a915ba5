"""Kafka's offset and time index files.

Modules:

- bisection: the search loops: interpolation, then branchless bisection
- index_audit: compares batch headers with both indexes
- index_lookup: lookups in an offset index and a time index
- warm_section: where a search starts: Kafka's warm section (KAFKA-6432)
"""
