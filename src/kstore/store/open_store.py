"""``kstore.open``: log directories of Kafka as a store."""

import os
from collections.abc import Callable, Mapping
from errno import ENOENT
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.checkpoint.log_dir import absolute_paths
from kstore.config import StoreConfig
from kstore.errors import DirectoryNotFoundError, InvalidConfigError
from kstore.files.filenames import parse, parse_partition_directory
from kstore.files.files import DISK, Files
from kstore.hints.keyword_names import explain_open
from kstore.store.finish_interrupted import recover_while_in_use
from kstore.store.parallel_recovery import Progress
from kstore.store.store import Paths, Store

if TYPE_CHECKING:
    from kstore.verify.partition import VerifyReport


@explain_open
def open(
    path: Paths,
    mode: str = "a",
    *,
    readonly: bool = False,
    read_only: bool = False,
    create: bool | None = None,
    config: StoreConfig | Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Store:
    """Open a log directory, or several that make one store.

    Raises StoreLockedError (naming the directory) if another process writes, CorruptFileError if
    two directories have the same partition, NewerFormatError if a newer kstore wrote files here,
    InvalidConfigError for a partition's directory, StorageError for an error of the operating
    system.

    Parameters
    ----------
    path
        A directory, or a sequence of them (Kafka's ``log.dirs``).
    mode
        ``"a"``: create or open for writing; one writer at a time, by Kafka's own ``.lock``.
        ``"r"``: read beside a writer or a running Kafka broker; no lock, no byte changed.
    readonly, read_only
        True: as ``mode="r"``.
    create
        False: the directory must exist (else DirectoryNotFoundError). By default, and with True,
        ``mode="a"`` creates it.
    config
        Settings of the store and the defaults of its topics: a mapping, by Kafka's names
        (``{"log.cleaner.threads": 2, "log.retention.ms": 3600000}``) or Python's, or a
        StoreConfig. A topic's own settings are given where it is created.
    progress
        Called during the recovery of an unclean directory, with the bytes read and the bytes in
        total; from any thread, one call at a time.
    """
    for name, given in (("readonly", readonly), ("read_only", read_only)):
        if not isinstance(given, bool):
            raise TypeError(f"{name} is True or False, not {given!r}")
    mode = "r" if readonly or read_only else mode
    if create and mode == "r":
        raise InvalidConfigError("mode='r' creates nothing: leave out create=True, or mode='r'")
    if mode == "r" or create is False:
        _check_exists(path)
    _check_no_partition(path)
    return Store(path, mode, config=config, progress=progress)


def verify(path: Paths, **options: Any) -> "VerifyReport":
    """Check every batch, record, offset and index entry of a log directory: one report.

    Opens it with ``mode="r"``, beside a writer or a broker, and changes nothing. Options are those
    of :meth:`kstore.Log.verify`; errors those of :func:`open` and :meth:`kstore.Store.verify`.
    Thread safe.
    """
    with open(path, mode="r") as store:
        return store.verify(**options)


def _check_exists(path: Paths) -> None:
    """Raise DirectoryNotFoundError where no directory exists, saying which call creates one.

    If only some of several are missing, the store treats those as offline.
    """
    paths = absolute_paths(path)
    if all(DISK.kind(each) is None for each in paths):
        raise DirectoryNotFoundError(
            "there is no such directory: kstore.open(path) creates it, mode='r' and create=False "
            "open an existing one",
            errno=ENOENT,
            path=paths[0],
        )


def _check_no_partition(path: Paths) -> None:
    """Raise InvalidConfigError for a partition's own directory, in which no topic would be found.

    Only a name such as ``orders-0`` is looked into: a log directory may have one, too.
    """
    for each in absolute_paths(path):
        parent, folder = os.path.split(each)
        name = parse_partition_directory(folder)
        if name is None or DISK.kind(each) is None:
            continue
        if any(parse(entry) is not None for entry in DISK.listdir(each)):
            raise InvalidConfigError(
                f"{each} is the directory of a partition: open {parent}, where "
                f"store[{name.topic!r}][{name.partition}] is its log",
                path=each,
            )


def open_to_serve(
    path: Paths,
    *,
    config: StoreConfig | Mapping[str, object] | None = None,
    files: Files = DISK,
    on_recovered: Callable[[Store], object] = lambda store: None,
) -> Store:
    """Open log directories as :func:`open` does for writing, but recover them in a thread.

    A partition in recovery is not used until it is recovered: its log waits. ``on_recovered`` is
    called with the store when all are, in that thread; or before this returns, where a crash
    interrupted something else that has to be finished first. Raises as :func:`open`.
    """
    store = Store.__new__(Store)
    store._open(path, "a", config, files, partial(recover_while_in_use, on_recovered=on_recovered))
    return store
