"""Loops in C that the benchmarks divide by: no part of the engine.

Modules:

- disk_loops: writes and reads of blocks, and page cache residency
- memory_loops: reads and copies of memory, frame walks, index searches
- record_loops: encodes and decodes records without checks
- socket_loops: ways to put a file into a socket
"""
