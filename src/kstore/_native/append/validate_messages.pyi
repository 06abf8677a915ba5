"""A client's messages v0 and v1 on their way into a log; for other kernels only."""
