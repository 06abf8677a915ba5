"""Minimal C loops: the ceilings of the benchmarks, not used by the engine.

Modules:

- disk_loops: writes and reads of blocks, and page cache residency
- memory_loops: reads and copies of memory, frame walks, index searches
- record_loops: encodes and decodes records without checks
- socket_loops: ways to send a file to a socket
"""
