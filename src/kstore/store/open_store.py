"""``kstore.open``: log directories of Kafka as a store."""

from kstore.config import StoreConfig
from kstore.store.parallel_recovery import Progress
from kstore.store.store import Paths, Store


def open(
    path: Paths,
    mode: str = "a",
    *,
    config: StoreConfig | None = None,
    progress: Progress | None = None,
) -> Store:
    """Open a log directory, or several that make one store.

    Raises StoreLockedError (naming the directory) if another process writes, CorruptFileError if
    two directories have the same partition, NewerFormatError if a newer kstore wrote files here,
    StorageError for an error of the operating system.

    Parameters
    ----------
    path
        A directory, or a sequence of them (Kafka's ``log.dirs``).
    mode
        ``"a"``: create or open for writing; one writer at a time, by Kafka's own ``.lock``.
        ``"r"``: read beside a writer or a running Kafka broker; no lock, no byte changed.
    config
        Settings of the store; those of its topics are given where they are created.
    progress
        Called during the recovery of an unclean directory, with the bytes read and the bytes in
        total; from any thread, one call at a time.
    """
    return Store(path, mode, config=config, progress=progress)
