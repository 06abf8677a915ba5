"""Partitions that the log cleaner leaves alone: for which errors, who sees it, how it ends."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig, Store, StoreConfig
from kstore.checkpoint.uncleanable_partitions import read_uncleanable
from kstore.cli import main
from kstore.compaction import cleaner, log_cleaner
from kstore.errors import (
    BackgroundFailure,
    ClosedError,
    CompactionAbandonedError,
    CorruptFileError,
    CorruptRecordError,
    ForkedError,
    InvalidConfigError,
    KStoreError,
    LogDirOfflineError,
    LogFailedError,
    NewerFormatError,
    PolicyViolationError,
    RecoveryNeededError,
    StorageError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from kstore.files.filenames import UNCLEANABLE
from kstore.files.files import DISK, Files
from kstore.record import Record
from support.damage import write_damaged

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=2000, file_delete_delay_ms=0)
BOTH = LogConfig(cleanup_policy="compact,delete", segment_bytes=2000, file_delete_delay_ms=0)


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleaner, "_SHORTEST_BACKOFF", 0.0)


@pytest.fixture
def seen() -> list[BackgroundFailure]:
    return []


@pytest.fixture
def config(seen: list[BackgroundFailure]) -> StoreConfig:
    return StoreConfig(background=False, log_cleaner_backoff_ms=0, on_background_error=seen.append)


@pytest.fixture
def store(tmp_path: Path, config: StoreConfig) -> Iterator[Store]:
    with kstore.open(tmp_path, config=config) as store:
        yield store


def fill(log: Log, rounds: int = 4) -> Log:
    for number in range(rounds):
        log.extend([Record(-1, 10**12, b"k%02d" % n, b"%d" % number) for n in range(20)])
        log.roll()
    return log


def make(store: Store, name: str = "t", config: LogConfig = COMPACT) -> Log:
    return fill(store.create_topic(name, config=config)[0])


def clean_once(store: Store) -> Log | None:
    """What a cleaner thread does in one turn; the log that it took."""
    taken: list[Log | None] = []
    of = store._manager.cleaner
    real = of.grab_filthiest

    def grab(manager: object) -> Log | None:
        taken.append(real(manager))
        return taken[-1]

    of.grab_filthiest = grab
    try:
        of._work()
    finally:
        of.grab_filthiest = real
    return taken[0]


def segment(log: Log, number: int) -> Path:
    return Path(log.segments.views[number].path)


def flip(path: Path) -> None:
    """Damage the last byte of the first batch, which its checksum covers."""
    data = bytearray(path.read_bytes())
    end = 12 + int.from_bytes(data[8:12], "big")
    data[end - 1] ^= 0xFF
    assert bytes(data) != path.read_bytes()
    write_damaged(path, data)


def is_compacted(log: Log) -> bool:
    return sum(1 for _ in log) == 20


TRANSIENT = [
    StorageError("full", errno=errno.ENOSPC),
    StorageError("quota", errno=errno.EDQUOT),
    StorageError("descriptors", errno=errno.EMFILE),
    StorageError("descriptors", errno=errno.ENFILE),
    StorageError("interrupted", errno=errno.EINTR),
    StorageError("again", errno=errno.EAGAIN),
    StorageError("gone", errno=errno.ENOENT),
    OSError(errno.ENOMEM, "no memory"),
    MemoryError(),
    PolicyViolationError("not compacted any more"),
]
LOST_RACES = [
    ClosedError("closed"),
    ForkedError("forked"),
    CompactionAbandonedError("truncated"),
    LogFailedError("failed"),
    LogDirOfflineError("offline"),
    UnknownTopicOrPartitionError("deleted"),
]
LASTING = [
    CorruptRecordError("damage"),
    CorruptFileError("damage"),
    RecoveryNeededError("damage"),
    NewerFormatError("newer"),
    UnsupportedCompressionTypeError("codec 7"),
    InvalidConfigError("the key map is too small"),
    ValueError("unexpected"),
]


def of(error: Exception) -> str:
    return f"{type(error).__name__}-{getattr(error, 'errno', None)}"


@pytest.mark.parametrize("error", TRANSIENT, ids=of)
def test_after_a_transient_error_the_partition_is_retried(
    store: Store, seen: list[BackgroundFailure], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    log = make(store)
    with monkeypatch.context() as patch:
        patch.setattr(cleaner, "compact", raising(error))
        assert clean_once(store) is log
    assert [(f.work, f.topic, f.partition, f.is_lasting) for f in seen] == [
        ("compaction", "t", 0, False)
    ]
    assert store.log_dirs[0].uncleanable == ()
    assert store.create_topic("other").append(b"x").offset == 0
    assert clean_once(store) is log
    assert is_compacted(log)
    assert store.background_failures == ()


@pytest.mark.parametrize("error", LOST_RACES, ids=of)
def test_a_lost_race_is_no_failure_and_the_partition_is_retried(
    store: Store, seen: list[BackgroundFailure], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    log = make(store)
    with monkeypatch.context() as patch:
        patch.setattr(cleaner, "compact", raising(error))
        assert clean_once(store) is log
    assert seen == []
    assert clean_once(store) is log
    assert is_compacted(log)


@pytest.mark.parametrize("error", LASTING, ids=of)
def test_a_partition_with_a_lasting_error_is_not_compacted_again(
    store: Store, seen: list[BackgroundFailure], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    make(store)
    with monkeypatch.context() as patch:
        patch.setattr(cleaner, "compact", raising(error))
        clean_once(store)
        assert clean_once(store) is None
    assert clean_once(store) is None
    assert [(f.error, f.is_lasting) for f in seen] == [(error, True)]
    text = str(error) if isinstance(error, KStoreError) else repr(error)
    assert [each[:3] for each in store.log_dirs[0].uncleanable] == [("t", 0, text)]


def fail_at_work(store: Store, times: int) -> None:
    for _ in range(times):
        clean_once(store)


def test_a_file_that_stays_missing_makes_a_partition_uncleanable(
    store: Store, seen: list[BackgroundFailure]
) -> None:
    """It is tried again when the file is back."""
    log = make(store)
    path = segment(log, 1)
    away = path.rename(path.with_suffix(".away"))
    fail_at_work(store, log_cleaner._MAX_ATTEMPTS - 1)
    assert store.log_dirs[0].uncleanable == ()
    fail_at_work(store, 10)
    assert [each.is_lasting for each in seen] == [False, True]
    (shown,) = store.log_dirs[0].uncleanable
    assert (shown.topic, shown.partition, shown.error) == ("t", 0, str(seen[1].error))
    assert path.name in shown.error
    away.rename(path)
    assert clean_once(store) is log
    assert is_compacted(log)
    assert store.log_dirs[0].uncleanable == store.background_failures == ()


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS]
)
def test_tries_are_counted_while_nothing_of_the_log_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = make(store)
    tries: list[int] = []

    def fail(*_: object, **__: object) -> object:
        tries.append(number)
        raise StorageError("failed", errno=number)

    with monkeypatch.context() as patch:
        patch.setattr(cleaner, "compact", fail)
        fail_at_work(store, log_cleaner._MAX_ATTEMPTS - 1)
        log.append(b"x", key=b"k")
        log.roll()
        fail_at_work(store, log_cleaner._MAX_ATTEMPTS - 1)
        assert store.log_dirs[0].uncleanable == ()
        fail_at_work(store, 10)
        assert len(store.log_dirs[0].uncleanable) == 1
        assert len(tries) == 2 * log_cleaner._MAX_ATTEMPTS - 1
        store["t"].alter(config={"segment.bytes": 3000})
        fail_at_work(store, 1)
        assert len(tries) == 2 * log_cleaner._MAX_ATTEMPTS
    store["t"].alter(config={"segment.bytes": 3001})
    assert clean_once(store) is log
    assert store.log_dirs[0].uncleanable == ()


def raising(error: Exception) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def test_a_compaction_by_hand_does_not_end_the_background_one(
    tmp_path: Path, config: StoreConfig, seen: list[BackgroundFailure]
) -> None:
    """The cleaner reads files that the compaction by hand has just replaced and removed."""

    class Racing(Files):
        race: Callable[[], object] | None = None

        def modified_ns(self, path: str | os.PathLike[str]) -> int:
            race, self.race = self.race, None
            if race is not None:
                race()
            return super().modified_ns(path)

    files = Racing()
    with Store(tmp_path, files=files, config=config) as store:
        log = make(store)
        files.race = log.compact
        assert clean_once(store) is None
        assert is_compacted(log), "by hand"
        assert (seen, store.log_dirs[0].uncleanable) == ([], ())
        fill(log)
        assert clean_once(store) is log
        assert is_compacted(log)


def test_a_partition_with_a_corrupt_batch_is_listed_as_uncleanable(
    tmp_path: Path, store: Store, seen: list[BackgroundFailure], capsys: pytest.CaptureFixture[str]
) -> None:
    log, sound = make(store), make(store, "sound")
    flip(segment(log, 1))
    while clean_once(store) is not None:
        pass
    assert is_compacted(sound)
    assert clean_once(store) is None
    (failure,) = seen
    assert (failure.topic, failure.is_lasting) == ("t", True)
    assert isinstance(failure.error, CorruptRecordError)
    (shown,) = store.log_dirs[0].uncleanable
    assert (shown.topic, shown.partition, shown.error) == ("t", 0, str(failure.error))
    assert segment(log, 1).name in shown.error
    with kstore.open(tmp_path, "r") as reader:
        assert reader.log_dirs[0].uncleanable == (shown,)
    assert main(["log-dirs", "--describe", "--log-dir", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["brokers"][0]["logDirs"][0]["uncleanable"] == [
        {"partition": "t-0", "error": shown.error, "sinceMs": shown.since_ms}
    ]
    assert main(["log-dirs", "--describe", "--topic-list", "x", "--log-dir", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["brokers"][0]["logDirs"][0]["uncleanable"] == []
    assert log.append(b"still", key=b"writable") == 80


def truncate(store: Store, log: Log) -> None:
    log.truncate_to(segment_base(log, 1))
    fill(log)


def delete_records(store: Store, log: Log) -> None:
    log.delete_records(segment_base(log, 2))
    log.apply_retention()
    log.remove_retired()


def repair(store: Store, log: Log) -> None:
    flip(segment(log, 1))


def make_again(store: Store, log: Log) -> None:
    store.delete_topic("t")
    make(store)


def segment_base(log: Log, number: int) -> int:
    return log.segments.views[number].base_offset


@pytest.mark.parametrize("end", [truncate, delete_records, repair, make_again])
def test_being_uncleanable_ends_with_its_cause(
    tmp_path: Path, store: Store, end: Callable[[Store, Log], None]
) -> None:
    log = make(store, config=BOTH)
    flip(segment(log, 1))
    assert clean_once(store) is log
    assert clean_once(store) is None
    assert len(store.log_dirs[0].uncleanable) == 1
    end(store, log)
    log = store["t"][0]
    while clean_once(store) is not None:
        pass
    assert is_compacted(log)
    assert store.log_dirs[0].uncleanable == store.background_failures == ()
    assert not (tmp_path / UNCLEANABLE).exists()


def test_other_settings_have_the_partition_tried_again(
    store: Store, seen: list[BackgroundFailure]
) -> None:
    log = make(store)
    flip(segment(log, 1))
    assert clean_once(store) is log
    assert clean_once(store) is None
    store["t"].alter(config={"segment.bytes": 3000})
    assert clean_once(store) is log
    assert clean_once(store) is None
    assert len(store.log_dirs[0].uncleanable) == 1
    assert len(seen) == 1, "the same error is not reported again"
    store["t"].alter(config={"cleanup.policy": "delete"})
    store._manager.cleaner.wake()
    assert store.log_dirs[0].uncleanable == store.background_failures == ()


def test_the_next_opening_shows_an_uncleanable_partition_and_tries_it_again(
    tmp_path: Path, config: StoreConfig
) -> None:
    with kstore.open(tmp_path, config=config) as store:
        log = make(store)
        path = segment(log, 1)
        flip(path)
        clean_once(store)
        shown = store.log_dirs[0].uncleanable
        assert len(shown) == 1
    with kstore.open(tmp_path, config=config) as store:
        assert store.log_dirs[0].uncleanable == shown
        assert clean_once(store) is store["t"][0]
        assert store.log_dirs[0].uncleanable == shown, "since the first time"
    flip(path)
    with kstore.open(tmp_path, config=config) as store:
        assert clean_once(store) is store["t"][0]
        assert store.log_dirs[0].uncleanable == ()
        assert is_compacted(store["t"][0])


def test_an_uncleanable_partition_is_listed_in_its_own_directory_only(
    tmp_path: Path, config: StoreConfig
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths, config=config) as store:
        logs = list(store.create_topic("t", 2, config=COMPACT))
        for log in logs:
            flip(segment(fill(log), 1))
        while clean_once(store) is not None:
            pass
        of_each = [[each.partition for each in about.uncleanable] for about in store.log_dirs]
        assert of_each == [[0], [1]]
        assert [len(read_uncleanable(DISK, str(path))) for path in paths] == [1, 1]
        store.delete_topic("t")
        assert [read_uncleanable(DISK, str(path)) for path in paths] == [(), ()]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", CorruptFileError),
        (b"[]", CorruptFileError),
        (b'{"format": 1, "partitions": [{}]}', CorruptFileError),
        (b'{"format": 2}', NewerFormatError),
    ],
)
def test_a_report_that_does_not_parse_does_not_prevent_opening(
    tmp_path: Path, store: Store, config: StoreConfig, content: bytes, error: type
) -> None:
    log = make(store)
    (tmp_path / UNCLEANABLE).write_bytes(content)
    with pytest.raises(error, match=UNCLEANABLE):
        read_uncleanable(DISK, str(tmp_path))
    with kstore.open(tmp_path, "r") as reader:
        assert reader.log_dirs[0].uncleanable == ()
    store.close()
    with kstore.open(tmp_path, config=config) as again:
        assert clean_once(again) is not None
        assert again["t"][0].end_offset == log.end_offset
