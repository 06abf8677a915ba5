"""One partition: appends, reads, and every change to its segments."""
