"""What the contests work on: record batches, logs, partition directories."""
