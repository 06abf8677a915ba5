"""Small state files of a partition, a log directory or a store, and the directory that has them."""
