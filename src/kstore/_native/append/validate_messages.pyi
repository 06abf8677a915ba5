"""Validation of a client's v0 and v1 messages; for other kernels only."""
