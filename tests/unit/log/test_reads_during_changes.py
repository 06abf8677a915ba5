"""Reads continue while segments are compacted, dropped and cut: at every step of every read.

The change is made between two steps of the read: before a call of the disk, or of the writer's own
steps where it holds no lock. A read returns the records of before, or those of afterwards.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstore.errors import OffsetOutOfRangeError, StorageError
from kstore.log.log import Log
from kstore.log.time_lookup import newest_offset
from kstore.log.view import LogView
from oracle import writer as oracle
from oracle.plain import PlainRecord
from support.disks import HastyDisk
from support.logs import open_log, read_log

SETTINGS: dict[str, Any] = {
    "cleanup_policy": "compact,delete",
    "file_delete_delay_ms": 0,
    "segment_bytes": 500,
    "index_interval_bytes": 100,
}
NOW = 1_700_000_000_000
Read = Callable[[Log], Any]

LOOKUPS: dict[str, Read] = {
    "offset_at, of a key that goes": lambda log: log.offset_at(NOW + 5_000_000),
    "offset_at, beyond": lambda log: log.offset_at(NOW + 90_000_000),
    "the newest": newest_offset,
}
SCANS: dict[str, Read] = {
    "a record": lambda log: [record.offset for record in LogView(log, 10, 11)],
    "all records": lambda log: [record.offset for record in log],
    "columns": lambda log: [int(o) for part in log.view().scan() for o in part.offsets],
    "on damage": lambda log: [record.offset for record in log.view().records(on_damage="skip")],
    "committed": lambda log: [r.offset for r in log.view(isolation="read_committed")],
}
# A writer holds the lock under which segments leave.
STATES: dict[str, Read] = {
    "aborted": lambda log: [each.first_offset for each in log.aborted_transactions(0, 99)],
    "producers": lambda log: [each.producer_id for each in log.producers()],
    "stable end": lambda log: log.last_stable_offset,
}
READS = LOOKUPS | SCANS | STATES

CHANGES: dict[str, Callable[[Log], object]] = {
    "compaction": lambda log: log.compact(),
    "retention": lambda log: log.apply_retention(),
    "deletion": lambda log: log.delete_records(11),
    "truncation": lambda log: log.truncate_to(11),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five keys again and again, two in the middle much too late; an aborted transaction."""
    directory = tmp_path_factory.mktemp("original") / "t-0"
    log = open_log(directory, files=HastyDisk(), **SETTINGS)
    sequence = 0
    for n in range(18):
        late = 10_000_000 if n in (4, 9) else 0
        if n in (3, 12):
            row = PlainRecord(0, NOW + 1000 * n, b"%d" % (n % 5), b"x" * 60)
            log.append_as_leader(
                oracle.batch(
                    [row], producer_id=7, producer_epoch=0, base_sequence=sequence,
                    transactional=True,
                )
            )  # fmt: skip
            sequence += 1
            log.append_end_marker(7, 0, commit=n == 12, timestamp=NOW + 1000 * n)
        else:
            key = b"%d" % (n % 5)
            log.append(b"x" * 60, key=key, timestamp=NOW + 1000 * n + late)
    log.close()
    assert len(list(directory.glob("*.log"))) > 3
    assert list(directory.glob("*.txnindex"))
    return directory


class Interrupted(HastyDisk):
    """Makes a change, once, at a step of what another one does."""

    def __init__(self) -> None:
        self.change: Callable[[], object] | None = None
        self.is_free: Callable[[], bool] = lambda: True
        self.steps = 0
        self.at = -1

    def arm(self, at: int, change: Callable[[], object]) -> None:
        self.steps, self.at, self.change = 0, at, change

    def step(self) -> None:
        if self.change is None:
            return
        self.steps += 1
        if self.steps > self.at and self.is_free():
            change, self.change = self.change, None
            change()


def _interrupted(name: str) -> Callable[..., Any]:
    original_of = getattr(HastyDisk, name)

    def call(self: Interrupted, *arguments: Any, **named: Any) -> Any:
        self.step()
        return original_of(self, *arguments, **named)

    return call


for _name in ("open", "pread", "size", "stamp", "kind", "about", "listdir", "read", "map"):
    setattr(Interrupted, _name, _interrupted(_name))


def in_a_thread(run: Callable[[], object]) -> None:
    """To its end: a lock that the reading thread holds would show as a hang."""
    failed: list[BaseException] = []

    def target() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


def hook_steps(log: Log, files: Interrupted) -> None:
    """Make the steps of a writer's reads, too, steps that can be interrupted."""
    writer: Any = log._writer
    reading = threading.current_thread()

    def hooked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if threading.current_thread() is reading:
                files.step()
            return function(*arguments)

        return call

    for name in ("learn_times", "load_entries", "read_segment"):
        setattr(writer.access, name, hooked(getattr(writer.access, name)))
    for view in log.segments.views:
        view.opener = hooked(view.opener)
    files.is_free = lambda: (
        not (writer.state.names_lock._is_owned() or writer.state.lock._is_owned())
        and threading.current_thread() is reading
    )


def settings_of(change: str) -> dict[str, Any]:
    return SETTINGS | ({"retention_bytes": 800} if change == "retention" else {})


def every_step(
    directory: Path, original: Path, change: str, role: str, stride: int
) -> Iterator[Log]:
    """A log that reads, fresh for each step at which the change is made."""
    for at in range(0, 1000, stride):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(original, directory)
        files = Interrupted()
        own = {"files": files} if role == "writer" else {"files": HastyDisk()}
        writer = open_log(directory, **own, **settings_of(change))
        log = writer
        if role == "writer":
            hook_steps(log, files)
        else:
            start = partial(getattr, writer, "start_offset")  # as the checkpoint says it
            log = read_log(directory, files=files, own=role == "reader", log_start_offset=start)
        files.arm(
            at,
            lambda writer=writer: in_a_thread(lambda: CHANGES[change](writer)),
        )
        yield log
        is_over = files.change is not None
        files.change = None
        log.close()
        writer.close()
        if is_over:
            assert at > 0
            return
    raise AssertionError("it does not end")


READERS = ("reader", "reader of Kafka's")
CASES = (
    # A reader takes what was truncated for lost, and says so: see test_lost_ends.
    *((name, "truncation", "writer") for name in LOOKUPS),
    *((n, c, r) for n in LOOKUPS for c in list(CHANGES)[:3] for r in ("writer", *READERS)),
    *((n, c, "writer") for n in SCANS for c in ("compaction", "retention")),
    *((n, c, READERS[0]) for n in (*SCANS, *STATES) for c in ("compaction", "retention")),
)


@pytest.mark.parametrize(("name", "change", "role"), CASES)
def test_a_read_survives_a_change_at_any_step(
    tmp_path: Path, original: Path, name: str, change: str, role: str
) -> None:
    read = READS[name]
    expected = outcomes(tmp_path / "expected", original, change, read)
    stride = 1 if name in LOOKUPS else 3
    for log in every_step(tmp_path / "t-0", original, change, role, stride):
        try:
            found = read(log)
        except OffsetOutOfRangeError:
            assert change != "compaction", "no offset was out of range"
            continue
        if not isinstance(found, list):
            assert found in expected
        else:  # in parts, each of them from before or from afterwards
            before, after = (set(each) for each in expected)
            assert found == sorted(found) or name == "aborted"
            assert (before & after) <= set(found) <= (before | after)


def outcomes(directory: Path, original: Path, change: str, read: Read) -> list[Any]:
    shutil.copytree(original, directory)
    log = open_log(directory, files=HastyDisk(), **settings_of(change))
    before = read(log)
    CHANGES[change](log)
    after = read(log)
    log.close()
    return [before, after]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("step", ["learn_times", "load_entries", "read_segment"])
def test_a_new_file_under_an_old_name_is_not_read_for_the_old_one(
    tmp_path: Path, original: Path, step: str, own: bool
) -> None:
    directory = tmp_path / "t-0"
    shutil.copytree(original, directory)
    writer = open_log(directory, files=HastyDisk(), **SETTINGS)
    reader = read_log(directory, own=own)
    listed = reader.segments.views[0]
    writer.compact()
    with pytest.raises(StorageError, match="replaced"):
        getattr(reader._source, step)(listed, *((0, 100) if step == "read_segment" else ()))
    assert reader.segments.views[0] is not listed
    reader.close()
    writer.close()


@pytest.mark.parametrize("step", ["learn_times", "load_entries"])
def test_a_writer_learns_nothing_of_a_segment_from_the_one_that_replaced_it(
    tmp_path: Path, original: Path, step: str
) -> None:
    shutil.copytree(original, tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", files=HastyDisk(), **SETTINGS)
    listed = log.segments.views[1]
    log.truncate_to(listed.next_offset - 1)
    listed.unmap()
    with pytest.raises(StorageError, match="not part of the log"):
        getattr(log._source, step)(listed)
    log.close()
