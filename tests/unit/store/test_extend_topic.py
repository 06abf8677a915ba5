"""``Topic.extend``: the note on its errors, and the bound of its memory."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Record, Store, StoreConfig, Topic
from kstore.errors import KStoreError, MessageTooLargeError, StorageError
from kstore.files.files import Files
from kstore.record.memory_size import RECORD_OVERHEAD
from kstore.store import extend_topic

QUIET = StoreConfig(background=False)
BUFFER = 1000 * RECORD_OVERHEAD


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        yield opened


def note_of(error: BaseException) -> str:
    (note,) = error.__notes__
    return str(note)


def expected_note(topic: Topic) -> str:
    """The note where nothing else appended to the topic."""
    ends = {partition: [range(end)] for partition, end in topic.end_offsets().items() if end}
    count = sum(topic.end_offsets().values())
    were = "item was" if count == 1 else "items were"
    return f"before this error {count} {were} appended; offsets by partition: {ends}"


def in_turn(topic: Topic) -> None:
    """Distribute values by their first byte."""
    topic.partition_by(lambda key, value, count: value[0] % count)


def test_the_note_has_the_batches_before_the_refused_item(store: Store) -> None:
    """Those of the call that failed used to be missing."""
    topic = store.create_topic("t", config={"max.message.bytes": 20_000, "batch.size": 1000})
    headers = [("h", b"x" * 900)]
    items = [Record(value=b"a", key=b"k", headers=headers) for _ in range(10)]
    with pytest.raises(MessageTooLargeError, match=r"item 10 does not fit") as caught:
        topic.extend([*items, b"z" * 30_000])
    assert topic.end_offsets() == {0: 10}
    assert note_of(caught.value) == expected_note(topic)
    assert "nothing was appended" not in str(caught.value)


def test_the_note_has_the_items_of_the_failing_call(store: Store) -> None:
    topic = store.create_topic("t", config={"max.message.bytes": 20_000})
    with pytest.raises(MessageTooLargeError) as caught:
        topic.extend([b"a" * 500] * 20 + [b"z" * 30_000])
    assert topic.end_offsets() == {0: 20}
    assert note_of(caught.value) == expected_note(topic)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_error_of_the_source_has_the_note(store: Store, error: type[BaseException]) -> None:
    topic = store.create_topic("t", 3, config={"batch.size": 50})
    in_turn(topic)

    def source() -> Iterator[bytes]:
        for n in range(100):
            yield bytes([n]) * 10
        raise error

    with pytest.raises(error) as caught:
        topic.extend(source())
    assert set(topic.end_offsets().values()) == {33 // 5 * 5}
    assert note_of(caught.value) == expected_note(topic)


def test_the_note_of_an_item_that_is_no_value(store: Store) -> None:
    topic = store.create_topic("t", config={"batch.size": 50})
    text: Any = "text"
    with pytest.raises(TypeError, match="a value is bytes") as caught:
        topic.extend([b"x" * 60, b"y", text])
    assert note_of(caught.value) == expected_note(topic)
    assert "1 item was appended" in note_of(caught.value)


def test_an_error_before_any_append_has_an_empty_note(store: Store) -> None:
    topic = store.create_topic("t")
    with pytest.raises(KStoreError) as caught:
        topic.extend([b"x" * 2_000_000])
    assert note_of(caught.value) == "before this error nothing was appended"
    with pytest.raises(TypeError, match="put it in a list") as refused:
        topic.extend(b"one")
    assert note_of(refused.value) == "before this error nothing was appended"


class FailingSync(Files):
    """A disk whose syncs fail for one partition."""

    partition = "none"

    def fdatasync(self, fd: int) -> None:
        if f"/{self.partition}/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise StorageError("cannot sync", errno=errno.EIO)
        super().fdatasync(fd)


def test_the_note_has_records_whose_sync_failed(tmp_path: Path) -> None:
    files = FailingSync()
    store = Store(tmp_path, config=QUIET, files=files)
    topic = store.create_topic("t", 2, config={"flush.messages": 1})
    in_turn(topic)
    files.partition = "t-1"
    with pytest.raises(StorageError) as caught:
        topic.extend([b"0", b"1", b"2", b"3"])
    ends = "{0: [range(0, 2)], 1: [range(0, 2)]}"
    assert note_of(caught.value) == (
        f"before this error 4 items were appended; offsets by partition: {ends}"
    )
    files.partition = "none"
    with pytest.raises(KStoreError):
        store.close()


@pytest.mark.parametrize(
    ("item", "size"),
    [
        (lambda n: b"", 0),
        (lambda n: None, 0),
        (lambda n: (b"%08d" % n, b"x" * 100), 108),
        (lambda n: Record(value=b"v", headers=[("name", b"x" * 500)]), 1 + 514),
        (lambda n: Record(value=b"v", headers=[("n", None)] * 30), 1 + 30 * 11),
        (lambda n: bytes(5000), 5000),
    ],
    ids=["empty", "null", "pair", "header", "null headers", "large"],
)
def test_the_memory_of_an_extend_is_bounded(
    store: Store, monkeypatch: pytest.MonkeyPatch, item: Callable[[int], Any], size: int
) -> None:
    """Records without bytes, and headers, used to count nothing; a chunk of 1000 was taken."""
    monkeypatch.setattr(extend_topic, "_BUFFER_MEMORY", BUFFER)
    topic = store.create_topic("t", 4, config={"batch.size": 1 << 20})
    count = 3 * BUFFER // (RECORD_OVERHEAD + size)
    waiting: list[int] = []

    def source() -> Iterator[Any]:
        for n in range(count):
            waiting.append(n - sum(topic.end_offsets().values()))
            yield item(n)

    appended = topic.extend(source())
    assert sum(len(each) for ranges in appended.values() for each in ranges) == count
    limit = BUFFER // (RECORD_OVERHEAD + size)
    assert limit // 2 <= max(waiting) <= limit
