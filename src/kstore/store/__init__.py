"""A store: log directories, their topics, and the partitions that are open in them."""
