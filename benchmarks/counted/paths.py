"""Operations of the public API on files: append, read, look up, open."""

from pathlib import Path
from typing import Any

import kstore
from counted.kernels import TIME, Prepared, batches, one_batch, values
from counted.operation import Workspace, operation
from engine.data.batches import message
from engine.data.partitions import make_unclean
from kstore._native.append.encode import BatchBuffer
from kstore._native.format.crc import crc32c
from kstore.config import LogConfig, StoreConfig

QUIET = StoreConfig(background=False)
COMPACT = LogConfig(cleanup_policy="compact", file_delete_delay_ms=0)


def new_log(workspace: Workspace, **settings: Any) -> kstore.Log:
    store = workspace.enter(kstore.open(workspace.directory / "logs", config=QUIET))
    return store.create_topic("counted", config=LogConfig(**settings))[0]


def filled(workspace: Workspace, records: int = 3000) -> kstore.Log:
    """A log with flushed batches of 150 records, one millisecond apart."""
    log = new_log(workspace)
    given = values(150)
    for first in range(0, records, 150):
        log.append_as_follower(one_batch_of(given, first))
    log.flush()
    return log


def one_batch_of(given: list[bytes], first: int) -> bytes:
    return first.to_bytes(8, "big") + stamped(one_batch(len(given)), TIME + first)[8:]


def stamped(batch: bytes, first_timestamp: int) -> bytes:
    """The batch with other timestamps in its header, and a new checksum."""
    changed = bytearray(batch)
    span = int.from_bytes(batch[35:43], "big") - int.from_bytes(batch[27:35], "big")
    last_timestamp = first_timestamp + span
    changed[27:43] = first_timestamp.to_bytes(8, "big") + last_timestamp.to_bytes(8, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


# --- append -------------------------------------------------------------------------------------


@operation("append one record", rounds=200, by_path=True)
def append_one(workspace: Workspace) -> Prepared:
    log, value = new_log(workspace), values(1)[0]

    def append() -> bool:
        return log.append(value, timestamp=TIME) == log.end_offset - 1

    return append, True


@operation("append one record with key and header", rounds=200)
def append_keyed(workspace: Workspace) -> Prepared:
    log, value = new_log(workspace), values(1)[0]
    headers = [("kind", b"counted")]

    def append() -> bool:
        log.append(value, key=b"00000042", headers=headers, timestamp=TIME)
        return True

    return append, True


@operation("append a thousand records", 1000, "record", by_path=True)
def append_many(workspace: Workspace) -> Prepared:
    log, given = new_log(workspace), values(1000)
    return lambda: len(log.extend(given, timestamp=TIME)), 1000


@operation("append to a topic by key", rounds=50)
def append_to_topic(workspace: Workspace) -> Prepared:
    store = workspace.enter(kstore.open(workspace.directory / "logs", config=QUIET))
    topic, value = store.create_topic("counted", partitions=3), values(1)[0]
    return lambda: topic.append(value, key=b"00000042", timestamp=TIME).partition, 1


@operation("append a batch as leader", rounds=20, by_path=True)
def append_batch(workspace: Workspace) -> Prepared:
    log, batch = new_log(workspace), one_batch(150)

    def append() -> bool:
        return log.append_as_leader(batch).last_offset == log.end_offset - 1

    return append, True


@operation("append a small batch as leader", rounds=20)
def append_small_batch(workspace: Workspace) -> Prepared:
    log, batch = new_log(workspace), one_batch(10)

    def append() -> bool:
        return log.append_as_leader(batch).last_offset == log.end_offset - 1

    return append, True


@operation("append a batch of an idempotent producer", rounds=20)
def append_idempotent(workspace: Workspace) -> Prepared:
    log = new_log(workspace)
    given = iter([produced(n * 10) for n in range(100)])

    def append() -> bool:
        return log.append_as_leader(next(given)).last_offset == log.end_offset - 1

    return append, True


def produced(sequence: int) -> bytes:
    buffer = BatchBuffer()
    buffer.set_producer(7, 0, sequence)
    for value in values(10):
        buffer.put(value, None, None, TIME)
    return buffer.to_bytes()


@operation("append messages v1 as leader", rounds=20)
def append_messages(workspace: Workspace) -> Prepared:
    log = new_log(workspace, message_format_version="0.10.2")
    given = message(134)
    return lambda: log.append_as_leader(given).last_offset == log.end_offset - 1, True


@operation("append batches as follower", 10, "batch", rounds=20)
def append_follower(workspace: Workspace) -> Prepared:
    log = new_log(workspace)
    one = one_batch(10)[8:]

    def append() -> bool:
        first = log.end_offset
        given = b"".join((first + n * 10).to_bytes(8, "big") + one for n in range(10))
        return log.append_as_follower(given).last_offset == log.end_offset - 1

    return append, True


@operation("append one record and flush", rounds=20)
def append_durably(workspace: Workspace) -> Prepared:
    log, value = new_log(workspace), values(1)[0]

    def append() -> bool:
        log.append(value, timestamp=TIME)
        log.flush()
        return log.recovery_point == log.end_offset

    return append, True


# --- read ---------------------------------------------------------------------------------------


@operation("read a slice at an offset", rounds=50)
def read_slice(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: len(log.read(1234, 4096) or b"") > 0, True


@operation("send a slice of 16 KiB", rounds=20)
def send_slice(workspace: Workspace) -> Prepared:
    data = filled(workspace).read(0, 16384)
    assert data is not None
    target = workspace.enter((workspace.directory / "sent").open("wb", buffering=0))
    return lambda: data.send_to(target.fileno(), 0, 16384), 16384


@operation("one record by its offset", rounds=50)
def read_record(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: log[1234].offset, 1234


@operation("iterate a view", 3000, "record", rounds=3)
def iterate(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: sum(len(record.value or b"") for record in log.view()), 300_000


@operation("iterate a view with isolation read_committed", 3000, "record", rounds=3)
def iterate_committed(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: sum(1 for _ in log.view(isolation="read_committed")), 3000


@operation("scan columns", 3000, "record", rounds=3, by_path=True)
def scan(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: sum(len(columns) for columns in log.view().scan()), 3000


@operation("poll a follower", rounds=20)
def follow(workspace: Workspace) -> Prepared:
    log, value = new_log(workspace), values(1)[0]
    log.append(value, timestamp=TIME)
    records = iter(log.view().follow(timeout=60.0))
    next(records)

    def poll() -> bool:
        offset = log.append(value, timestamp=TIME)
        return next(records).offset == offset

    return poll, True


# --- look up ------------------------------------------------------------------------------------


@operation("offset at a time", rounds=20)
def offset_at(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: log.offset_at(TIME + 1234), 1234


@operation("end offset", rounds=50)
def end_offset(workspace: Workspace) -> Prepared:
    log = filled(workspace, 300)
    return lambda: log.end_offset, 300


@operation("last stable offset", rounds=50)
def last_stable(workspace: Workspace) -> Prepared:
    log = filled(workspace, 300)
    return lambda: log.last_stable_offset, 300


# --- open, close, recover, verify ---------------------------------------------------------------


def closed(workspace: Workspace, records: int = 3000) -> Path:
    """Creates a store with one log and closes it cleanly."""
    root = workspace.directory / "logs"
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("counted")[0]
        log.append_as_follower(batches(150, records // 150))
    return root


@operation("open a store to read", rounds=5)
def open_to_read(workspace: Workspace) -> Prepared:
    root = closed(workspace)

    def run() -> int:
        with kstore.open(root, "r") as store:
            return store["counted"][0].end_offset

    return run, 3000


@operation("open a store to write, and close it", rounds=5)
def open_to_write(workspace: Workspace) -> Prepared:
    root = closed(workspace)

    def run() -> int:
        with kstore.open(root, config=QUIET) as store:
            return store["counted"][0].end_offset

    return run, 3000


@operation("open after a kill", rounds=3)
def open_unclean(workspace: Workspace) -> Prepared:
    root = closed(workspace)

    def run() -> int:
        make_unclean(root)
        with kstore.open(root, config=QUIET) as store:
            return store["counted"][0].end_offset if store.recovery.unclean else -1

    return run, 3000


@operation("create a topic", rounds=5)
def create_topic(workspace: Workspace) -> Prepared:
    store = workspace.enter(kstore.open(workspace.directory / "logs", config=QUIET))
    names = iter(f"topic{n:03}" for n in range(100))
    return lambda: len(store.create_topic(next(names))), 1


@operation("roll a segment", rounds=5)
def roll(workspace: Workspace) -> Prepared:
    log, value = new_log(workspace), values(1)[0]

    def run() -> bool:
        log.append(value, timestamp=TIME)
        before = len(log.segments)
        log.roll()
        return len(log.segments) == before + 1

    return run, True


@operation("verify a log", rounds=3)
def verify(workspace: Workspace) -> Prepared:
    log = filled(workspace)
    return lambda: log.verify().batches, 20


@operation("compact a log", rounds=1)
def compact(workspace: Workspace) -> Prepared:
    roots = iter(range(100))

    def run() -> int:
        with kstore.open(workspace.directory / f"logs{next(roots)}", config=QUIET) as store:
            log = store.create_topic("counted", config=COMPACT)[0]
            log.append_as_follower(batches(150, 10, keyed=True))
            log.roll()
            log.compact()
            return sum(1 for _ in log.view())

    return run, 61
