def fdatasync_each(descriptors: list[int]) -> list[int]:
    """Sync the data of all; returns the errno of each, 0 if it is on disk."""
