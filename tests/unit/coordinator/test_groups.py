"""Committed offsets: Kafka's record format, the file beside it, and claims on partitions."""

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstore
from kstore.coordinator.group import offsets_table
from kstore.coordinator.group.embedded_offsets import EmbeddedOffsets
from kstore.coordinator.group.offset_records import (
    OffsetCommit,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
    newest_commits,
)
from kstore.coordinator.group.offsets_table import OffsetsTable, commit_records
from kstore.coordinator.group.partition_claims import Claims
from kstore.coordinator.group.reader_offsets_file import group_file_name
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    GroupConflictError,
    InvalidRecordError,
    NewerFormatError,
)
from kstore.files.files import DISK
from kstore.protocol.fields import java_hash, partition_for_name
from kstore.record import Record

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=50)
OFFSETS = st.integers(0, 2**63 - 1)


class Stored(NamedTuple):
    key: bytes | None
    value: bytes | None
    offset: int = 0


class FakeLog:
    """A list that looks like the log of one partition of ``__consumer_offsets``."""

    def __init__(self) -> None:
        self.records: list[Stored] = []
        self.start_offset = 0
        self.partition = 0
        self.flushes = 0
        self.writable = True
        self._truncations: list[int] = []

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, value: bytes | None, *, key: bytes | None = None) -> int:
        self.records.append(Stored(key, value))
        return len(self.records) - 1

    def extend(self, values: Iterable[Record]) -> range:
        first = len(self.records)
        self.records += [Stored(record.key, record.value) for record in values]
        return range(first, len(self.records))

    def flush(self) -> None:
        self.flushes += 1

    @property
    def closed(self) -> bool:
        return False

    @property
    def last_stable_offset(self) -> int:
        return len(self.records)

    def settled(self, start: int) -> Iterable[Stored]:
        return [each._replace(offset=n) for n, each in enumerate(self.records)][start:]

    def _settled_columns(self, start: int, stop: int) -> Iterable[Any]:
        raise AssertionError("few records are read one by one")


def embedded_offsets(directory: Path, group: str, *gone: str) -> EmbeddedOffsets:
    """Offsets of a group where all topics are what they were, but for those that are named."""
    log_dirs = [str(directory)]
    return EmbeddedOffsets(DISK, lambda: log_dirs, group, lambda topic, known: topic not in gone)


# --- messages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "hashed", "partition"),
    [
        ("test-group", 627841412, 12),
        ("my-group", -1906497762, 12),
        ("g1", 3242, 42),
        ("txn-1", 110810510, 10),
        ("", 0, 0),
        ("\U0001f600", 1772899, 49),
        ("polygenelubricants", -(2**31), 0),  # abs() of it does not fit an int32: Kafka takes 0
    ],
)
def test_a_group_lives_where_kafka_looks(group: str, hashed: int, partition: int) -> None:
    assert java_hash(group) == hashed
    assert partition_for_name(group, 50) == partition


def test_a_stored_commit_has_kafkas_bytes() -> None:
    key = OffsetKey("g1", "t", 0)
    assert encode_offset_key(key).hex() == "00010002673100017400000000"
    value = OffsetCommit(offset=258, commit_timestamp=1, metadata="m", leader_epoch=3)
    expected = "000300000000000001020000000300016d0000000000000001"
    assert encode_offset_value(value).hex() == expected


@given(NAMES, NAMES, st.integers(0, 2**31 - 1))
def test_offset_keys_round_trip(group: str, topic: str, partition: int) -> None:
    key = OffsetKey(group, topic, partition)
    assert decode_offset_key(encode_offset_key(key)) == key


@given(OFFSETS, OFFSETS, NAMES, st.integers(-1, 2**31 - 1))
def test_an_offset_commit_is_equal_after_encoding_and_decoding(
    offset: int, timestamp: int, metadata: str, epoch: int
) -> None:
    commit = OffsetCommit(offset, timestamp, metadata, epoch)
    assert decode_offset_value(encode_offset_value(commit)) == commit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000 0000000000000007 00016d 0000000000000009", OffsetCommit(7, 9, "m")),
        (
            "0001 0000000000000007 00016d 0000000000000009 000000000000000a",
            OffsetCommit(7, 9, "m", -1, 10),
        ),
        ("0002 0000000000000007 0000 0000000000000009", OffsetCommit(7, 9)),
        ("0004 0000000000000007 00000002 026d 0000000000000009 00", OffsetCommit(7, 9, "m", 2)),
        (
            "0004 0000000000000007 00000002 01 0000000000000009 01 00 10" + "ab" * 16,
            OffsetCommit(7, 9, "", 2),
        ),
    ],
)
def test_every_version_of_a_value_is_read(text: str, expected: OffsetCommit) -> None:
    assert decode_offset_value(bytes.fromhex(text)) == expected


def test_other_keys_are_no_groups_offset() -> None:
    assert decode_offset_key(bytes.fromhex("0002 0002 6731")) is None
    assert decode_offset_key(bytes.fromhex("0003 ff")) is None


@given(st.binary(max_size=60))
def test_hostile_bytes_raise_by_name(data: bytes) -> None:
    for decode in (decode_offset_key, decode_offset_value):
        with suppress(CorruptRecordError):
            assert decode(data) is None or data[:1] == b"\0"


def test_every_cut_of_a_commit_is_seen() -> None:
    key = encode_offset_key(OffsetKey("group", "topic", 3))
    value = encode_offset_value(OffsetCommit(1, 2, "note"))
    for cut in range(len(key)):
        with pytest.raises(CorruptRecordError):
            decode_offset_key(key[:cut])
    for cut in range(len(value)):
        with pytest.raises(CorruptRecordError):
            decode_offset_value(value[:cut])
    with pytest.raises(CorruptRecordError):
        decode_offset_value(value + b"x")


def test_metadata_and_names_have_limits() -> None:
    for metadata in ("é" * 4096, "\U0001f600" * 2048):  # Kafka counts UTF-16 units
        assert encode_offset_value(OffsetCommit(1, 2, metadata))
        with pytest.raises(InvalidRecordError):
            encode_offset_value(OffsetCommit(1, 2, metadata + "x"))
    with pytest.raises(InvalidRecordError):
        encode_offset_key(OffsetKey("g" * 32768, "t", 0))


# --- log and file ---------------------------------------------------------------------------


def test_commits_go_to_the_log_and_are_read_on(tmp_path: Path) -> None:
    log = FakeLog()
    writer = embedded_offsets(tmp_path, "g")
    table = OffsetsTable(log)
    writer.commit({("t", 0): OffsetCommit(5, -1, "note")}, table, {}, to_log=True)
    reader = embedded_offsets(tmp_path, "g")
    other = OffsetsTable(log)
    assert reader.fetch(other)["t", 0]._replace(commit_timestamp=0) == OffsetCommit(5, 0, "note")
    writer.commit(
        {("t", 0): OffsetCommit(6, -1), ("t", 1): OffsetCommit(1, -1)}, table, {}, to_log=True
    )
    assert {tp: each.offset for tp, each in reader.fetch(other).items()} == {
        ("t", 0): 6,
        ("t", 1): 1,
    }
    assert len(log.records) == 3
    assert not list(tmp_path.iterdir())


def test_many_records_are_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kstore.open(tmp_path / "data") as store:
        log = store.create_topic("log", 1)[0]
        for offset in range(3):
            for group in ("g", "h"):
                commits = {("t", n): OffsetCommit(offset, 1) for n in range(20)}
                log.extend(commit_records(group, commits))
        log.append(None, key=encode_offset_key(OffsetKey("g", "t", 3)))
        log.append(b"no key")
        log.append(b"", key=b"\0\1broken")
        expected = OffsetsTable(log)
        monkeypatch.setattr(offsets_table, "_BY_COLUMNS", 10)
        found = OffsetsTable(log)
        for group in ("g", "h"):
            assert found.group(group) == expected.group(group)
        assert len(found.group("g")) == 19
        log.extend(commit_records("g", {("t", 3): OffsetCommit(9, 2)}))
        assert found.group("g")["t", 3].offset == 9
        assert found.forget_topic("t") == 40


def test_a_tombstone_removes_a_committed_offset(tmp_path: Path) -> None:
    log = FakeLog()
    log.append(
        encode_offset_value(OffsetCommit(5, 1)), key=encode_offset_key(OffsetKey("g", "t", 0))
    )
    log.append(None, key=encode_offset_key(OffsetKey("g", "t", 0)))
    log.append(b"x", key=bytes.fromhex("000200026731"))
    log.append(b"no key")
    assert OffsetsTable(log).group("g") == {}


def test_a_shortened_log_is_read_again() -> None:
    log = FakeLog()
    table = OffsetsTable(log)
    for offset in (5, 6):
        key = encode_offset_key(OffsetKey("g", "t", 0))
        log.append(encode_offset_value(OffsetCommit(offset, 1)), key=key)
    assert table.group("g")["t", 0].offset == 6
    log.records.pop()
    assert table.group("g")["t", 0].offset == 5


def test_the_file_of_commits_counts_if_it_is_newer_and_is_merged(tmp_path: Path) -> None:
    log = FakeLog()
    writer = embedded_offsets(tmp_path, "g/1")
    writer.commit({("t", 0): OffsetCommit(5, -1)}, OffsetsTable(log), {}, to_log=True)
    reader = embedded_offsets(tmp_path, "g/1")
    reader.commit(
        {("t", 0): OffsetCommit(3, -1), ("u", 9): OffsetCommit(8, -1, "x", 4)},
        OffsetsTable(log),
        {"t": "id of t", "u": None},
        to_log=False,
    )
    file = tmp_path / group_file_name("g/1")
    assert json.loads(file.read_bytes())["group"] == "g/1"
    late = embedded_offsets(tmp_path, "g/1")
    seen = late.fetch(OffsetsTable(log))
    assert seen["t", 0].offset == 3  # the later commit, though the smaller offset
    assert late.fold(OffsetsTable(log), {"t", "u"}.__contains__) == (2, {}, {}, ())
    assert not file.exists()
    assert log.flushes == 1
    assert OffsetsTable(log).group("g/1") == seen
    assert late.fold(OffsetsTable(log), {"t", "u"}.__contains__) == (0, {}, {}, ())


def test_committed_offsets_in_the_file_are_dropped_if_their_topic_was_recreated(
    tmp_path: Path,
) -> None:
    log = FakeLog()
    ids = {"t": "id of t", "u": None, "v": "id of v"}
    commits = {(topic, 0): OffsetCommit(5, -1) for topic in ids}
    embedded_offsets(tmp_path, "g").commit(commits, OffsetsTable(log), ids, to_log=False)
    late = embedded_offsets(tmp_path, "g", "t", "v")
    assert set(late.fetch(OffsetsTable(log))) == {("u", 0)}
    folded = late.fold(OffsetsTable(log), {"t", "u"}.__contains__)
    assert folded.moved == 1
    assert set(folded.dropped) == {("t", 0)}
    assert set(folded.left) == {("v", 0)}  # whose log directory may be elsewhere
    assert set(OffsetsTable(log).group("g")) == {("u", 0)}
    document = json.loads((tmp_path / group_file_name("g")).read_bytes())
    assert (document["format"], document["topic_ids"]) == (2, {"v": "id of v"})
    assert list(document["offsets"]) == ["v"]


def test_a_commit_in_a_recreated_topic_replaces_those_of_the_old_one(tmp_path: Path) -> None:
    partitions = [("t", 0), ("t", 1), ("u", 0)]
    embedded_offsets(tmp_path, "g").commit(
        dict.fromkeys(partitions, OffsetCommit(5, -1)), None, {"t": "old", "u": "u"}, to_log=False
    )
    embedded_offsets(tmp_path, "g", "t").commit(
        {("t", 0): OffsetCommit(1, -1)}, None, {"t": "new"}, to_log=False
    )
    found = embedded_offsets(tmp_path, "g").fetch(None)
    assert {tp: each.offset for tp, each in found.items()} == {("t", 0): 1, ("u", 0): 5}


def test_offsets_of_format_1_count_as_before(tmp_path: Path) -> None:
    text = """{"format": 1, "group": "g",
        "offsets": {"t": {"0": {"offset": 4, "commit_timestamp": 7}}}}"""
    (tmp_path / group_file_name("g")).write_text(text)
    offsets = embedded_offsets(tmp_path, "g", "t")
    assert offsets.fetch(None)["t", 0].offset == 4
    assert offsets.forget_topic("other") == 0
    assert (tmp_path / group_file_name("g")).read_text() == text
    assert offsets.forget_topic("t") == 1
    assert not (tmp_path / group_file_name("g")).exists()


def test_tombstones_have_the_keys_of_the_commits_and_are_written_once(tmp_path: Path) -> None:
    log = FakeLog()
    value = encode_offset_value(OffsetCommit(5, 1))
    keys = [encode_offset_key(OffsetKey(g, "t", n)) for g in ("g", "h") for n in (0, 1)]
    keys.append(b"\x00\x00" + keys[0][2:])  # as Kafka wrote it before 0.9
    for key in (*keys, encode_offset_key(OffsetKey("g", "u", 0))):
        log.append(value, key=key)
    log.append(None, key=keys[1])
    table = OffsetsTable(log)
    assert table.forget_topic("t") == 4
    assert {each.key for each in log.records[7:]} == set(keys) - {keys[1]}
    assert all(each.value is None for each in log.records[7:])
    assert log.flushes == 1
    assert table.forget_topic("t") == 0
    assert len(log.records) == 11
    assert set(table.group("g")) == {("u", 0)}
    assert table.group("h") == {}


def test_a_later_commit_wins_even_if_the_clock_went_back(tmp_path: Path) -> None:
    log = FakeLog()
    ahead = OffsetCommit(5, 2**62)
    log.append(encode_offset_value(ahead), key=encode_offset_key(OffsetKey("g", "t", 0)))
    offsets = embedded_offsets(tmp_path, "g")
    offsets.commit({("t", 0): OffsetCommit(9, -1)}, OffsetsTable(log), {}, to_log=False)
    assert embedded_offsets(tmp_path, "g").fetch(OffsetsTable(log))["t", 0].offset == 9


def test_the_newest_commit_wins_and_the_later_table_wins_a_tie() -> None:
    old, new, tie = OffsetCommit(1, 10), OffsetCommit(2, 20), OffsetCommit(3, 20)
    tp = ("t", 0)
    assert newest_commits({tp: new}, {tp: old}) == {tp: new}
    assert newest_commits({tp: new}, {tp: tie}) == {tp: tie}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"format": 1, "group": "g"}',
        '{"format": 1, "group": 1, "offsets": {}}',
        '{"format": true, "group": "g", "offsets": {}}',
        '{"format": 1, "group": "other", "offsets": {}}',
        '{"format": 2, "group": "g", "offsets": {}, "topic_ids": []}',
        '{"format": 2, "group": "g", "offsets": {}, "topic_ids": {"t": 1}}',
        '{"format": 1, "group": "g", "offsets": {"t": []}}',
        '{"format": 1, "group": "g", "offsets": {"t": {"x": {}}}}',
        '{"format": 1, "group": "g", "offsets": {"t": {"0": {}}}}',
        '{"format": 1, "group": "g", "offsets": {"t": {"0": {"offset": -1}}}}',
        '{"format": 1, "group": "g", "offsets": {"t": {"0": {"offset": 1}}}}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / group_file_name("g")
    path.write_text(text)
    with pytest.raises(CorruptFileError) as caught:
        embedded_offsets(tmp_path, "g").fetch(None)
    assert caught.value.path == str(path)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / group_file_name("g")).write_text('{"format": 3}')
    with pytest.raises(NewerFormatError):
        embedded_offsets(tmp_path, "g").fetch(None)


@pytest.mark.parametrize("group", ["a", "a.tmp", "a/b", "../../etc/passwd", "ü" * 300, "~" * 65])
def test_a_group_name_becomes_a_safe_file_name(group: str) -> None:
    name = group_file_name(group)
    assert "/" not in name
    assert len(name.encode()) < 250
    assert not name.endswith(".tmp")


def test_group_file_names_do_not_meet() -> None:
    groups = ["a", "A", "a.b", "a%2Eb", "a/b", "a-b", "~" + "0" * 64, "x" * 300, "x" * 301]
    assert len({group_file_name(group) for group in groups}) == len(groups)


# --- claims ---------------------------------------------------------------------------------

CLAIM = """
import sys
from kstore.coordinator.group.partition_claims import (Claims)
from kstore.files.files import DISK
claims = Claims(DISK, lambda: sys.argv[1:2], sys.argv[2])
claims.take(("t", int(sys.argv[3])))
print("taken", flush=True)
sys.stdin.readline()
"""


def claim(directory: Path, group: str, partition: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(directory), group, str(partition)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_partition_has_one_reader_of_a_group_in_all_processes(tmp_path: Path) -> None:
    with claim(tmp_path, "g", 0) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        claims = Claims(DISK, lambda: [str(tmp_path)], "g")
        with pytest.raises(GroupConflictError) as caught:
            claims.take(("t", 0))
        assert caught.value.code == 25
        claims.take(("t", 1))
        Claims(DISK, lambda: [str(tmp_path)], "h").take(("t", 0))
        other.communicate("\n", timeout=30)
    claims.take(("t", 0))
    claims.take(("t", 0))
    claims.release_all()
    with claim(tmp_path, "g", 0) as other:
        assert other.communicate("\n", timeout=30)[0] == "taken\n"


def test_two_readers_in_one_process_conflict_too(tmp_path: Path) -> None:
    first, second = (Claims(DISK, lambda: [str(tmp_path)], "g") for _ in range(2))
    first.take(("t", 0))
    with pytest.raises(GroupConflictError):
        second.take(("t", 0))
    first.release(("t", 0))
    second.take(("t", 0))


def test_the_guard_of_the_file_waits_its_turn(tmp_path: Path) -> None:
    claims = Claims(DISK, lambda: [str(tmp_path)], "g")
    claims.take(("t", 0))
    with claims.guard(str(tmp_path)):
        assert DISK.probe(tmp_path / group_file_name("g", "kstore.offsets-lock."))
    with claims.guard(str(tmp_path)) as again:
        assert again.held
