"""A read-only audit of partitions: every checksum, record, index entry and loss."""
