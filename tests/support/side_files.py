"""A store with all kinds of files beside its logs, and the tools that read them."""

import warnings
from pathlib import Path

import kstore
from kstore.cli import main
from kstore.errors import KStoreError, MissingSettingsWarning
from kstore.files import filenames
from kstore.log.log import Log
from support.disks import HastyDisk
from support.jobs import fill
from support.stores import MARKER, QUIET

FOLDER = "t-0"
SETTINGS = kstore.LogConfig(segment_bytes=2500, index_interval_bytes=200, file_delete_delay_ms=0)

# Valid JSON, or the beginning of a checkpoint, without the contents that kstore expects.
TEXTS = (
    b"null", b"[]", b"{}", b"1", b'"x"', b"1e999", b"[" * 4000 + b"\n", b"0\n0\n", b"0\n1\n",
    b"0\n1\nt 0 1\n", b'{"format":1}', b'{"format":1e999}', b'{"format":null}', b'{"format":true}',
    b'{"format":[]}', b'{"format":-1}', b"version=1\n", b"version: 0\n", b"version: 0\ntopic_id: x",
    b"1" * 5000, b'{"format":' + b"1" * 5000 + b"}", b"0\n" + b"9" * 5000 + b"\n",
)  # fmt: skip


def make_store(root: Path) -> None:
    """Topic ``t`` with transactions and several segments; a group's offsets in a file."""
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=SETTINGS)[0]
        fill(log, 6)
        log.seal()
        with (
            kstore.open(root, "r", config=QUIET) as reader,
            reader.consumer("t", group="g") as consumer,
        ):
            consumer.commit({("t", 0): 1})


def files_of_segments(root: Path) -> list[Path]:
    """The side files of the first segment and of the last one."""
    logs = sorted((root / FOLDER).glob("*.log"))
    kinds = (
        filenames.INDEX, filenames.TIME_INDEX, filenames.TRANSACTION_INDEX, filenames.SNAPSHOT
    )  # fmt: skip
    return [log.with_suffix(f".{kind}") for log in (logs[0], logs[-1]) for kind in kinds]


def other_side_files(root: Path) -> list[Path]:
    """The other side files, including types that this store does not have."""
    first = min((root / FOLDER).glob("*.log")).stem
    in_partition = (
        filenames.SEAL + first,
        filenames.LEADER_EPOCHS,
        filenames.PARTITION_METADATA,
        filenames.KNOWN_GAPS,
        filenames.REMOVED_ENDS,
        filenames.LOST_SEGMENTS,
        filenames.FENCE,
        filenames.MOVED,
        filenames.UNSYNCED,
    )
    in_log_dir = (
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
    )
    return [*(root / FOLDER / name for name in in_partition), *(root / each for each in in_log_dir)]


def dump(path: Path) -> None:
    for more in ([], ["--index-sanity-check"], ["--verify-index-only"]):
        assert main(["dump-log", *more, "--files", str(path)]) in (0, 1)


def use_everything(root: Path, output: Path) -> None:
    """Run each tool on a log directory and on a store; catch only kstore's errors."""
    for words in (["verify"], ["repair", "--output", str(output)]):
        assert main([*words, "--log-dir", str(root)]) in (0, 1, 2, 3)
    for mode in ("r", "a", "r"):
        _open_and_read(root, mode)


def _open_and_read(root: Path, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingSettingsWarning)
        try:
            with kstore.Store(root, mode, config=QUIET, files=HastyDisk()) as store:
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
