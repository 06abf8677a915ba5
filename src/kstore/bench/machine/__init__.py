"""Workloads of the machine alone: disk, memory, page cache, sockets."""
