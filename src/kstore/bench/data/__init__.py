"""Files and blocks that the workloads write and read."""
