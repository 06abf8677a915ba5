"""A partition's log: segments, indexes, recovery, retention and the small files around them."""
