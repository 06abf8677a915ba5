"""A store with a file of every kind beside its logs, and every tool that reads them."""

import shutil
import warnings
from pathlib import Path

import kstore
from kstore.cli import main
from kstore.errors import KStoreError, MissingSettingsWarning
from kstore.files import filenames
from kstore.files.files import DISK
from kstore.log.log import Log
from support.jobs import fill
from support.stores import MARKER, QUIET

SETTINGS = kstore.LogConfig(segment_bytes=1500, index_interval_bytes=200, file_delete_delay_ms=0)
FOLDER = "t-0"
_BASE = 0

# Texts that are valid JSON, or begin as a checkpoint does, but have not what kstore expects.
TEXTS = (
    b"null", b"[]", b"{}", b"1", b'"x"', b"1e999", b"[[[[", b"0\n0\n", b"0\n1\n", b"0\n1\nt 0 1\n",
    b'{"format":1}', b'{"format":1e999}', b'{"format":null}', b'{"format":true}', b'{"format":"1"}',
    b'{"format":[]}', b'{"format":-1}', b"version=1\n", b"version: 0\n", b"version: 0\ntopic_id: x",
    b"[" * 5000, b"1" * 5000, b'{"format":' + b"1" * 5000 + b"}", b"0\n" + b"9" * 5000 + b"\n",
)  # fmt: skip


def make_store(root: Path) -> None:
    """Topic ``t`` with transactions and several segments; a group's offsets in a file."""
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=SETTINGS)[0]
        fill(log, 8)
        log.flush()
        log.seal()
        with (
            kstore.open(root, "r", config=QUIET) as reader,
            reader.consumer("g", topics=["t"]) as consumer,
        ):
            consumer.commit({("t", 0): 1})


def find_side_files(root: Path) -> list[Path]:
    """The names of all side files, also of those that this store has no reason to have."""
    first = sorted((root / FOLDER).glob("*.log"))[_BASE].name.removesuffix(".log")
    last = sorted((root / FOLDER).glob("*.log"))[-1].name.removesuffix(".log")
    of_segments = [
        f"{base}.{kind}"
        for base in (first, last)
        for kind in ("index", "timeindex", "txnindex", "snapshot")
    ]
    of_partition = [
        *of_segments,
        f"{filenames.SEAL}{first}",
        filenames.LEADER_EPOCHS,
        filenames.PARTITION_METADATA,
        filenames.KNOWN_GAPS,
        filenames.LOST_SEGMENTS,
        filenames.FENCE,
        filenames.MOVED,
        filenames.UNSYNCED,
        filenames.HANDOVER,
    ]
    of_log_dir = [
        MARKER,
        filenames.META_PROPERTIES,
        filenames.RECOVERY_POINTS,
        filenames.LOG_STARTS,
        filenames.HIGH_WATERMARKS,
        filenames.CLEANER_OFFSETS,
        filenames.TOPICS_FILE,
        filenames.UNCLEANABLE,
        filenames.OFFSETS_PREFIX + "g",
        filenames.PUBLISHING_PREFIX + "x",
        filenames.PUBLISHED_PREFIX + "x",
        filenames.UNFINISHED,
    ]
    return [*(root / FOLDER / name for name in of_partition), *(root / each for each in of_log_dir)]


def use_everything(root: Path, output: Path) -> None:
    """Run each tool on a log directory; only errors of kstore may come out, as one line each."""
    folder = root / FOLDER
    for path in sorted(folder.iterdir()):
        for more in ([], ["--index-sanity-check"], ["--verify-index-only"]):
            assert main(["dump-log", *more, "--files", str(path)]) in (0, 1)
    for words in (["verify"], ["verify", "--json"], ["log-dirs", "--describe"], ["get-offsets"]):
        assert main([*words, "--log-dir", str(root)]) in (0, 1, 2, 3)
    assert main(["repair", "--log-dir", str(root), "--output", str(output)]) in (0, 1, 2, 3)
    for mode in ("r", "a", "a"):
        open_and_read(root, mode)
    assert main(["verify", "--log-dir", str(root)]) in (0, 1, 2, 3)


def open_and_read(root: Path, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingSettingsWarning)
        try:
            with kstore.open(root, mode, config=QUIET) as store:
                for topic in list(store):
                    for partition in store[topic].partitions:
                        _read(store[topic][partition], mode)
        except KStoreError:
            return


def _read(log: Log, mode: str) -> None:
    for act in (
        lambda: list(log),
        lambda: log.offset_at(0),
        lambda: log.aborted_transactions(0, log.end_offset),
        log.producers,
        lambda: log.truncate_to(log.end_offset - 1) if mode == "a" else None,
    ):
        try:
            act()
        except KStoreError:
            continue


def put(root: Path, path: Path, data: bytes) -> None:
    """Replace a side file, as another program would: the log keeps its inode and change time."""
    assert DISK.kind(root) == "directory"
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def copy(template: Path, target: Path) -> Path:
    shutil.copytree(template, target)
    return target
