def inode_and_size(path: bytes) -> tuple[int, int]:
    """(inode, size) of the file of this name; an OSError with its errno where that fails."""
