"""What must hold of a directory that was left behind in any way, and what a witness said of it."""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kstore import Log, Store, StoreConfig
from kstore.errors import (
    CorruptRecordError,
    KStoreError,
    RecoveryNeededError,
    StoreLockedError,
)
from kstore.files.files import Files
from oracle.reader import read_log as oracle_read
from support.recording_disk import Tree, read_tree
from torture.witness import History, TopicPartition, Witness
from torture.world import GROUP, QUIET, paths_of

CUTTING = StoreConfig(background=False, recovery="kafka", num_recovery_threads_per_data_dir=1)
MARKER = ".kafka_cleanshutdown"
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")
DERIVED_NAMES = (
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
Row = tuple[int, bytes | None]


class Violation(AssertionError):
    """Something that must never happen has happened."""


class TmpfsDisk(Files):
    """A disk in memory has nothing to sync."""

    def fdatasync(self, fd: int) -> None:
        return

    def fsync(self, fd: int) -> None:
        return

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        return

    def sync_all(
        self, fds: Sequence[int], directories: Iterable[str] = (), *, only_data: bool = False
    ) -> None:
        return  # and no threads for it, which cost more than all else in a state's check


TMPFS = TmpfsDisk()


class CheckedDirectories:
    """What stores that were recovered and closed held, by all that is in their directories.

    What comes after a recovery depends on nothing else, so a directory that many crash states
    recover to is checked once. No process reads what a recovery kept aside; a
    seal names the inode of its segment, so of these only the size counts.
    """

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}  # digests of both: there are hundreds of thousands

    @staticmethod
    def digest(root: str) -> int:
        found: list[tuple[str, bytes | int]] = []
        stack = [root]
        while stack:
            directory = stack.pop()
            with os.scandir(directory) as entries:
                for entry in entries:
                    path = entry.path
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(path)
                        found.append((path, 0))
                    elif entry.name.startswith(("kstore.cut.", "kstore.seal.")):
                        found.append((path, entry.stat().st_size))
                    else:
                        fd = os.open(path, os.O_RDONLY)
                        found.append((path, os.read(fd, 1 << 20)))
                        os.close(fd)
        return hash(tuple(sorted(found, key=lambda item: item[0])))


class Checked(NamedTuple):
    """What a check came by.

    ``by_word``: only an explicit word of the user opened it. ``gaps``: a rolled segment that was
    never synced lost its end, a later one kept its data; the records between are missing.
    """

    by_word: bool
    gaps: int


def materialise(tree: Tree, root: str) -> None:
    """Make root exactly this tree; what stood there goes."""
    if os.path.isdir(root):
        _clear(root)
    else:
        os.mkdir(root)
    for path in sorted(tree):
        content = tree[path]
        if content is None:
            os.mkdir(f"{root}/{path}")
            continue
        fd = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(fd, content)
        finally:
            os.close(fd)
    for path in (path for path, content in tree.items() if content is None):
        os.utime(f"{root}/{path}", (1.0, 1.0))  # a process that opens it after a crash comes later


def _clear(directory: str) -> None:
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _clear(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)


def expect(holds: object, *what: object) -> None:
    if not holds:
        raise Violation(" ".join(map(str, what)))


def check(
    root: str,
    witness: Witness,
    *,
    power: bool,
    deep: bool,
    again: bool = False,
    checked: CheckedDirectories | None = None,
) -> Checked:
    """Everything that must hold; raises Violation. The directory is changed by it.

    ``power``: the power failed, so only what was flushed must be there. ``deep``: also that a
    second opening changes nothing and that every derived file may be deleted; with ``checked``
    only of a directory that is not among these yet. ``again``: a recovery that had begun
    crashed too; it may have reported what it found already.
    """
    around = sorted(os.listdir(os.path.dirname(root)))
    topic_partitions = _topic_partitions(witness)
    paths = paths_of(root, witness.dirs)
    swapping = _swapping(paths, topic_partitions)
    beside = _read_beside(root, paths, topic_partitions)
    by_word, gaps = False, 0
    try:
        store = Store(paths, config=QUIET, files=TMPFS)
        first = {tp: _recovered(store, tp) for tp in topic_partitions if tp[0] in store}
    except RecoveryNeededError as error:
        by_word = _allowed_refusal(error, witness, root, power=power)
        with suppress(UnboundLocalError):
            store.close()
        store = Store(paths, config=CUTTING, files=TMPFS)
        first = {tp: _recovered(store, tp) for tp in topic_partitions if tp[0] in store}
    with store:
        _check_topics(store, witness)
        for tp, rows in first.items():
            floor = witness.floor(tp, power=power)
            bases = _bases(_home(paths, tp)) if power else frozenset()
            found_gaps = _check_rows(rows, witness.log(tp), floor, tp, bases)
            reported = again or not found_gaps or is_gap_reported(store, tp)
            expect(reported, tp, "a gap, and not a word of it")
            gaps += found_gaps
            log = store[tp[0]][tp[1]]
            _check_lookups(log, rows, tp)
            if not by_word:
                if tp in swapping:
                    kept = floor if power else log.end_offset
                    report = log.recovery
                    cut = power and report is not None and report.cut_size > 0
                    _check_during_swap(beside.get(tp), rows, tp, witness.log(tp), kept, cut=cut)
                else:
                    _check_beside(beside.get(tp), log, rows, tp)
        _check_groups(store, witness, power=power)
        check_transactions(store, witness, lambda: _committed(store))
        _check_publications(witness, first)
        _check_locked(paths)
        if not deep:
            _append_to(store, first)
    if deep and checked is not None:
        found = checked.digest(root)
        rows = hash(tuple((tp, tuple(its)) for tp, its in first.items()))
        if (known := checked.rows.get(found)) is not None:
            expect(known == rows, "the same directory has other records")
            return Checked(by_word, gaps)
        checked.rows[found] = rows
    if deep:
        _check_again(root, paths, first)
    _check_oracle(paths, first)
    if deep:
        _check_disposable(root, paths, first)
    expect(sorted(os.listdir(os.path.dirname(root))) == around, "something outside was touched")
    return Checked(by_word, gaps)


def _topic_partitions(witness: Witness) -> list[TopicPartition]:
    return [
        (name, partition)
        for name, (_, _, partitions) in sorted(witness.topics.items())
        for partition in range(partitions)
        if not name.startswith("__")  # Kafka's own: what they say is checked, not how
    ]


def rows_of(log: Log) -> list[Row]:
    return [(record.offset, record.value) for record in log]


def _recovered(store: Store, tp: TopicPartition) -> list[Row]:
    topic = store[tp[0]]
    expect(tp[1] in topic.partitions, tp, "has lost its partition")
    return rows_of(topic[tp[1]])


def _read_beside(
    root: str, paths: list[str], topic_partitions: list[TopicPartition]
) -> dict[TopicPartition, tuple[list[Row], KStoreError | None]]:
    """What a reader sees before anybody recovers; it changes nothing."""
    if not all(map(os.path.isdir, paths)):  # to a reader that is a disk that failed
        return {}
    before = _stamps(root)
    seen: dict[TopicPartition, tuple[list[Row], KStoreError | None]] = {}
    with Store(paths, mode="r", config=QUIET) as store:
        for tp in topic_partitions:
            if tp[0] not in store or tp[1] not in store[tp[0]].partitions:
                continue
            rows: list[Row] = []
            error = None
            try:
                for record in store[tp[0]][tp[1]]:
                    rows.append((record.offset, record.value))
            except KStoreError as caught:
                error = caught
            seen[tp] = rows, error
    expect(_stamps(root) == before, "a reader changed the directory")
    return seen


def _swapping(paths: list[str], topic_partitions: list[TopicPartition]) -> set[TopicPartition]:
    """Partitions in which a compaction's swap is in progress."""
    folders = {f"{topic}-{partition}": (topic, partition) for topic, partition in topic_partitions}
    return {
        folders[name]
        for path in paths
        if os.path.isdir(path)
        for name in os.listdir(path)
        if name in folders
        if any(file.endswith(".swap") for file in os.listdir(f"{path}/{name}"))
    }


def _stamps(root: str) -> list[tuple[str, int, int]]:
    found = []
    stack = [root]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    stat = entry.stat()
                    found.append((entry.path, stat.st_size, stat.st_mtime_ns))
    return sorted(found)


def _check_beside(
    seen: tuple[list[Row], KStoreError | None] | None, log: Log, rows: list[Row], tp: TopicPartition
) -> None:
    """A reader saw what recovery then gave.

    A rolled segment that was torn before it was synced is damage to a reader, which cannot cut;
    it has shown everything in front of it then.
    """
    if seen is None:
        return
    found, error = seen
    report = log.recovery
    assert report is not None
    if error is not None:
        expect(report.cut_size, tp, "a reader failed where nothing was cut:", error)
        expect(isinstance(error, CorruptRecordError), tp, "a reader met", error)
        expect(found == rows[: len(found)], tp, "a reader saw what recovery then cut")
    elif not report.cut_size or found:
        expect(found == rows, tp, "a reader saw", found[-3:], "not", rows[-3:])


def _check_during_swap(
    seen: tuple[list[Row], KStoreError | None] | None,
    rows: list[Row],
    tp: TopicPartition,
    history: History,
    kept: int,
    *,
    cut: bool,
) -> None:
    """A reader during a compaction's swap saw all that stays below ``kept``, in order.

    It may see records that are compacted away, too. What was not flushed may be in the finished
    copy alone, which recovery renames to the segment. ``cut``: a power cut had torn what was not
    flushed, which in a rolled segment is damage to a reader.
    """
    if seen is None:
        return
    found, error = seen
    end = rows[-1][0] + 1 if rows else 0
    expect(error is None or kept < end or cut, tp, "a reader met", error)
    offsets = [offset for offset, _ in found]
    expect(offsets == sorted(set(offsets)), tp, "a reader saw disorder", offsets)
    expect({value for _, value in found} <= history.tried, tp, "invented for a reader")
    lost = [offset for offset, _ in rows if offset < kept and offset not in offsets]
    expect(not lost, tp, "a reader during a swap did not see", lost)


def _allowed_refusal(
    error: RecoveryNeededError, witness: Witness, root: str, *, power: bool
) -> bool:
    """Only unsynced damage before later segments may need the user's word."""
    expect(power, "refused after a mere kill:", error)
    name = os.path.basename(os.path.dirname(str(error.path)))
    topic, _, partition = name.rpartition("-")
    floor = witness.floor((topic, int(partition)), power=True)
    expect(
        error.offset is not None and error.offset >= floor,
        f"refused at {error.offset}, below what was flushed ({floor}):",
        error,
    )
    return True


def _check_topics(store: Store, witness: Witness) -> None:
    for name, (state, topic_id, partitions) in witness.topics.items():
        there = name in store
        if state == "live":
            expect(there, "topic", name, "is gone")
        elif state == "gone":
            expect(not there, "topic", name, "is back")
        if there and state == "live":
            topic = store[name]
            expect(len(topic) == partitions, "topic", name, "has", len(topic), "partitions")
            found = topic.topic_id
            expect(found == topic_id, "topic", name, "has the id", found, "not", topic_id)
    for name in (name for path in store.paths for name in os.listdir(path)):
        # What a partition moved out of goes in the background, as with Kafka.
        moved = witness.dirs and witness.topics.get(name.rpartition("-")[0].rpartition("-")[0])
        expect(moved or not name.endswith("-delete"), name, "was left")


def _home(paths: list[str], tp: TopicPartition) -> str:
    """The one directory in which a partition is."""
    found = [each for path in paths if os.path.isdir(each := f"{path}/{tp[0]}-{tp[1]}")]
    expect(len(found) == 1, tp, "is in", found)
    return found[0]


def _bases(directory: str) -> frozenset[int]:
    names = os.listdir(directory)
    return frozenset(int(name[:-4]) for name in names if name.endswith(".log"))


def _check_rows(
    rows: list[Row], history: History, floor: int, tp: TopicPartition, bases: frozenset[int]
) -> int:
    """Acknowledged records exist, in order, nothing invented; returns how many gaps.

    A gap is accepted only where the power failed, above what was flushed, and before a segment:
    Kafka's format does not say where the segment before it once ended. Recovery has to report it.
    """
    serial, gaps = None, 0
    following = rows[0][0] if rows else 0
    for offset, value in rows:
        if history.may_lack.issuperset(range(following, offset)):
            serial = serial if offset == following else None
        elif offset != following:
            before = following >= floor and offset > following and offset in bases
            expect(before, tp, "hole or disorder at offset", offset)
            gaps, serial = gaps + 1, None
        following = offset + 1
        expect(value in history.tried, tp, "invented at offset", offset, value)
        assert value is not None
        own, current, last = value.split(b":")[:3]
        expect(int(own) == offset, tp, "record of", own, "at offset", offset)
        expect(serial is None or int(last) == serial, tp, f"{offset} does not follow", serial)
        serial = int(current)
    start = max(history.start, history.base)
    found = dict(rows)
    expect(not history.lacks & found.keys(), tp, "has what was compacted away")
    for offset in range(start, floor):
        at = offset - history.base
        if offset in history.may_lack and offset not in found:
            continue
        expect(offset in found, tp, f"lost offset {offset} of {floor}")
        expect(found[offset] == history.acked[at], tp, "another record at offset", offset)
    return gaps


def is_gap_reported(store: Store, tp: TopicPartition) -> bool:
    report = store[tp[0]][tp[1]].recovery
    # Of a gap between two segments, of one in a compacted log, of a lost segment.
    words = "between them may be lost", "between, or they are lost", "their segment is gone"
    return report is not None and any(word in step for step in report.steps for word in words)


def _check_lookups(log: Log, rows: list[Row], tp: TopicPartition) -> None:
    """Each offset is found by way of the indexes too."""
    for offset, value in (*rows[:: max(1, len(rows) // 5)], *rows[-1:]):
        expect(log[offset].value == value, tp, "lookup of offset", offset)
    expect(log.end_offset >= (rows[-1][0] + 1 if rows else 0), tp, "end", log.end_offset)


def _check_groups(store: Store, witness: Witness, *, power: bool) -> None:
    for group, (low, high, synced) in witness.committed.items():
        if "t" not in store:
            continue
        with store.consumer("t", group=group) as consumer:
            found = consumer.committed(("t", 0)) or 0
        lowest = synced if power else low
        expect(lowest <= found <= high, "group", group, "is at", found, "not in", lowest, high)


def _check_publications(witness: Witness, rows: dict[TopicPartition, list[Row]]) -> None:
    for number, parts in enumerate(witness.publications):
        shown = set()
        for tp, values in parts.items():
            there = {value for _, value in rows[tp]}
            shown |= {value in there for value in values}
        expect(len(shown) == 1, "publication", number, "shows in part")


def _committed(store: Store) -> int | None:
    """Where the group is that transactions commit offsets of."""
    with store.consumer("t", group=GROUP) as consumer:
        return consumer.committed(("t", 0))


def check_transactions(store: Store, witness: Witness, committed: Callable[[], int | None]) -> None:
    """All of a transaction or nothing is seen, and what was answered holds.

    Its records with read_committed, its offset by the group, which is at the offset of the last
    transaction that shows.
    """
    shown: dict[TopicPartition, set[bytes | None]] = {}
    offset: int | None = None
    for number, (state, parts, commits) in witness.transactions.items():
        seen: list[bool] = []
        for tp, values in parts.items():
            if tp not in shown:
                view = store[tp[0]][tp[1]].view(isolation="read_committed")
                shown[tp] = {record.value for record in view}
            seen += [value in shown[tp] for value in values]
        expect(all(seen) or not any(seen), "transaction", number, "shows in part:", seen)
        expect(all(seen) or state != "committed", "transaction", number, "is lost")
        ends = state in ("committed", "committing")
        expect(ends or not any(seen), "transaction", number, "shows, but is", state)
        if any(seen) and commits is not None:
            offset = commits
    if any(commits is not None for *_, commits in witness.transactions.values()):
        found = committed()
        expect(found == offset, "the group is at", found, "and the records say", offset)


def _append_to(store: Store, first: dict[TopicPartition, list[Row]]) -> None:
    """The store takes appends, where the records ended."""
    for tp, rows in first.items():
        log = store[tp[0]][tp[1]]
        end = log.end_offset
        expect(log.append(b"on", key=b"on") == end, tp, "append after", end)
        rows.append((end, b"on"))


def _check_locked(paths: list[str]) -> None:
    """No other process may write: a store's opening begins with this lock."""
    for path in paths:
        with suppress(StoreLockedError):
            TMPFS.lock(f"{path}/.lock").release()
            raise Violation("two writers at once")


def _check_again(root: str, paths: list[str], first: dict[TopicPartition, list[Row]]) -> None:
    """What was recovered and closed needs no more recovery, and opening it changes nothing."""
    before = read_tree(root)
    with Store(paths, config=QUIET, files=TMPFS) as store:
        for tp, rows in first.items():
            log = store[tp[0]][tp[1]]
            expect(rows_of(log) == rows, tp, "a second opening gives other records")
            report = log.recovery
            assert report is not None
            again = report.bytes_scanned or report.cut_size
            expect(not again, tp, "recovered again:", report)
    after = read_tree(root)
    # An empty segment gets empty indexes when it is first opened again; a snapshot that a later
    # one has overtaken goes, as with Kafka; so does the note of a loss below the log start, which
    # a log that lost its first segment has when it is opened again.
    changed = [
        path
        for path in sorted(before.keys() | after.keys())
        if (before.get(path) or b"") != (after.get(path) or b"")
        and not (path.endswith((".snapshot", "/kstore.lost")) and path not in after)
    ]
    expect(not changed, "a second opening changed", changed)
    for path, content in after.items():
        if (
            content is not None
            and path.endswith((".index", ".timeindex"))
            and "-delete/" not in path
        ):
            _check_index(path, content)
    with Store(paths, config=QUIET, files=TMPFS) as store:
        with suppress(StoreLockedError):
            Store(paths, config=QUIET, files=TMPFS).close()
            raise Violation("two stores at once")
        _append_to(store, first)


def _check_index(path: str, content: bytes) -> None:
    """After a clean close entries grow, and no preallocated tail is left."""
    size = 8 if path.endswith(".index") else 12
    expect(len(content) % size == 0, path, "has the odd size", len(content))
    keys = [content[at : at + size - 4] for at in range(0, len(content), size)]
    expect(all(a < b for a, b in itertools.pairwise(keys)), path, "does not grow")


def _check_oracle(paths: list[str], first: dict[TopicPartition, list[Row]]) -> None:
    """A reader that shares no code with kstore finds the same."""
    for tp, rows in first.items():
        directory = _home(paths, tp)
        found: list[Row] = []
        for name in sorted(os.listdir(directory)):
            if not name.endswith(".log"):
                continue
            with open(f"{directory}/{name}", "rb") as file:
                plain = oracle_read(file.read())
            expect(plain.tail_reason is None, tp, name, "has a tail:", plain.tail_reason)
            expect(all(b.crc_ok for b in plain.batches), tp, name, "has a wrong checksum")
            found += [
                (r.offset, r.value) for b in plain.batches if not b.control for r in b.records
            ]
        start = rows[0][0] if rows else 0
        found = [row for row in found if row[0] >= start]
        expect(found == rows, tp, "the oracle reads otherwise:", found[-3:], rows[-3:])


def _check_disposable(root: str, paths: list[str], first: dict[TopicPartition, list[Row]]) -> None:
    """Without every derived file, and without the marker: the same records."""
    for directory, _, names in os.walk(root):
        for name in names:
            derived = name.endswith(DERIVED) or name.startswith("kstore.seal.")
            if derived or name in DERIVED_NAMES or name == MARKER:
                os.unlink(f"{directory}/{name}")
    with Store(paths, config=QUIET, files=TMPFS) as store:
        for tp, rows in first.items():
            found = rows_of(store[tp[0]][tp[1]])
            expect(found == rows, tp, "without derived files:", found[-3:], rows[-3:])
