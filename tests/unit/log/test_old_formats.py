"""Logs of messages v0 and v1: what is written into them, how a leader converts old clients'."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.config import LogConfig
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.record import Record
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainRecord
from oracle.reader import read_log as oracle_read
from oracle.writer import batch, wrapper
from support.client_batches import (
    KEYLESS,
    NOT_OLD,
    NOW,
    ONE,
    STAMPED,
    WORSE,
    WRONG,
    packed,
    plain,
    rows,
    sent,
    zeros,
)
from support.logs import log_bytes, open_log

VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0.8.2", 0),
        ("0.8.0", 0),
        ("0.9.0.1", 0),
        ("0.10.0-IV0", 1),
        ("0.10.2.2", 1),
        ("0.11.0", 2),
        ("0.11.0-IV0", 2),
        ("1.0", 2),
        ("2.8.1", 2),
        ("3.0-IV1", 2),
    ],
)
def test_a_message_format_version_sets_the_magic(version: str, magic: int) -> None:
    config = LogConfig.from_properties({"message.format.version": version})
    assert config.message_magic == magic
    assert LogConfig().message_magic == 2


@pytest.mark.parametrize("version", ["", "0.7.0", "0.8", "4.0", "2", "0.10", "v1", 2, None])
def test_an_invalid_message_format_version_is_refused(version: object) -> None:
    with pytest.raises(InvalidConfigError, match=r"message\.format\.version"):
        LogConfig(message_format_version=version)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_own_records_are_written_in_the_topics_format(
    directory: Path, magic: int, codec: str
) -> None:
    log = open_log(
        directory, message_format_version=VERSIONS[magic], batch_compression=codec, batch_size=400
    )
    assert log.append(b"one", key=b"k", timestamp=NOW) == 0
    items = [b"v%d" % n for n in range(40)]
    assert log.extend(items, timestamp=NOW + 5) == range(1, 41)
    assert log.extend([Record(41, NOW + 9, b"key", None, ())]) == range(41, 42)
    found = oracle_read(log_bytes(directory))
    assert {b.magic for b in found.batches} == {magic}
    assert {b.codec for b in found.batches} == {("none", "gzip", "snappy", "lz4").index(codec)}
    assert all(b.crc_ok for b in found.batches)
    assert [r.offset for r in found.records] == list(range(42))
    assert [r.value for r in found.records] == [b"one", *items, None]
    when = [NOW, *[NOW + 5] * 40, NOW + 9] if magic else [-1] * 42
    assert [r.timestamp for r in found.records] == when
    assert [(r.offset, r.value) for r in log] == [(r.offset, r.value) for r in found.records]
    assert not (directory / "leader-epoch-checkpoint").exists()
    assert log.verify().finding_count == 0


def test_lz4_header_checksum_is_wrong_in_v0_only(directory: Path) -> None:
    for magic in (0, 1):
        where = directory / str(magic)
        log = open_log(where, message_format_version=VERSIONS[magic], batch_compression="lz4")
        log.append(b"x" * 100)
        data = log_bytes(where)
        frame = data.index(b"\x04\x22\x4d\x18")
        assert data[frame + 4 : frame + 7] == (b"\x60\x40\x1a", b"\x60\x40\x82")[magic]


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize("codec", range(4))
@pytest.mark.parametrize("source", [0, 1, 2])
def test_client_batches_are_converted_to_the_topics_format(
    directory: Path, source: int, codec: int, target: int
) -> None:
    log = open_log(directory, message_format_version=VERSIONS[target])
    log.append(b"before")
    records = rows(6)
    data = sent(source, codec, records)
    before = bytes(data)
    info = log.append_as_leader(bytearray(data))
    assert data == before
    oldest = min(source, target)
    times = [r.timestamp if oldest else -1 for r in records]
    assert (info.first_offset, info.last_offset, info.max_timestamp) == (1, 6, max(times))
    stored = oracle_read(log_bytes(directory)).batches[1:]
    assert {b.magic for b in stored} == {target}
    assert {b.codec for b in stored} == {codec}
    assert all(b.crc_ok for b in stored)
    assert len(stored) == (6 if target < 2 and not codec else 1)
    found = [r for b in stored for r in b.records]
    assert [(r.offset, r.key, r.value) for r in found] == [
        (r.offset + 1, r.key, r.value) for r in records
    ]
    assert [r.timestamp for r in found] == times
    if source == target and not codec:
        assert b"".join(log_bytes(directory)[b.position + 16 :][: b.size - 16] for b in stored) == (
            b"".join(data[b.position + 16 :][: b.size - 16] for b in oracle_read(data).batches)
        )


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_log_append_time_in_old_formats(directory: Path, magic: int, codec: int) -> None:
    log = open_log(
        directory,
        message_format_version=VERSIONS[magic],
        message_timestamp_type="LogAppendTime",
        clock=lambda: 555,
    )
    for source in (0, 1, 2):
        log.append_as_leader(sent(source, codec, rows(2)))
    log.append(b"own")
    for stored in oracle_read(log_bytes(directory)).batches:
        assert stored.crc_ok
        for record in stored.records:
            assert record.timestamp == (555 if magic else -1)
            if magic:
                assert record.timestamp_type == LOG_APPEND_TIME


def test_only_a_valid_v1_wrapper_is_stored_unchanged(directory: Path) -> None:
    log = open_log(directory, message_format_version="0.10.0")
    log.append(b"before")
    right = wrapper(rows(5), magic=1, codec=1)
    log.append_as_leader(right)
    stored = log_bytes(directory)[-len(right) :]
    assert stored[8:] == right[8:]
    assert int.from_bytes(stored[:8], "big") == 5
    late = wrapper(rows(5), magic=1, codec=1, timestamp=NOW - 7)
    log.append_as_leader(late)  # only the wrapper's timestamp is put right
    stored = log_bytes(directory)[-len(late) :]
    assert stored[26:] == late[26:]
    assert oracle_read(stored).batches[0].max_timestamp == NOW + 4
    for odd in (wrapper(rows(5, 10), magic=1, codec=1, first_relative=3), zeros(1), zeros(0)):
        info = log.append_as_leader(odd)
        assert [r.offset for r in log[info.first_offset :]] == list(
            range(info.first_offset, info.last_offset + 1)
        )


def test_a_cut_message_at_the_end_is_skipped(directory: Path) -> None:
    log = open_log(directory, message_format_version="0.10.0")
    data = plain(rows(3), 1)
    assert log.append_as_leader(data[:-1]).last_offset == 1
    assert tuple(log.append_as_leader(data[:20])) == (-1, -1, -1, 0)
    assert log.end_offset == 2


CLOCK = {"clock": lambda: NOW + 100}
COMPACT = {"cleanup_policy": "compact"}
STRICT = {"message_timestamp_before_max_ms": 5}
REFUSED = {
    **{name: (data, {}, InvalidRecordError) for name, data in (WRONG | WORSE).items()},
    **{
        name: (WRONG[name], {}, CorruptRecordError)
        for name in ("crc", "second crc", "size", "magic", "inner crc", "inner size", "not gzip")
    },
    "no codec": (WRONG["no codec"], {}, UnsupportedCompressionTypeError),
    "too large": (ONE, {"max_message_bytes": 30}, MessageTooLargeError),
    "old": (ONE, STRICT, InvalidTimestampError),
    "future": (
        ONE,
        {"message_timestamp_after_max_ms": 5, "clock": lambda: NOW - 9},
        InvalidTimestampError,
    ),
    "old inside": (packed(ONE), STRICT, InvalidTimestampError),
    "append time": (STAMPED, {"message_timestamp_type": "LogAppendTime"}, InvalidTimestampError),
    "no key": (KEYLESS, COMPACT, InvalidRecordError),
    "no key inside": (packed(KEYLESS), COMPACT, InvalidRecordError),
    "old and no key inside": (packed(KEYLESS + ONE), COMPACT | STRICT, InvalidTimestampError),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_messages_that_a_leader_refuses(directory: Path, magic: int, name: str) -> None:
    data, options, kind = REFUSED[name]
    log = open_log(directory, message_format_version=VERSIONS[magic], **CLOCK | options)
    with pytest.raises(kind):
        log.append_as_leader(data)
    assert log.end_offset == 0
    assert log_bytes(directory) == b""


NOT_OLD_KINDS = dict.fromkeys(NOT_OLD, UnsupportedForMessageFormatError) | {
    "zstd": UnsupportedCompressionTypeError,
    "crc": CorruptRecordError,
    "control": InvalidRecordError,
    "base offset": InvalidRecordError,
    "two": InvalidRecordError,
}


@pytest.mark.parametrize("name", NOT_OLD)
@pytest.mark.parametrize("magic", [0, 1])
def test_batches_that_old_formats_cannot_represent_are_refused(
    directory: Path, magic: int, name: str
) -> None:
    data, kind = NOT_OLD[name], NOT_OLD_KINDS[name]
    log = open_log(directory, message_format_version=VERSIONS[magic], cleanup_policy="compact")
    with pytest.raises(kind):
        log.append_as_leader(data)
    with pytest.raises(UnsupportedForMessageFormatError):
        log.append(b"v", key=b"k", headers=[("h", b"1")])
    with pytest.raises(UnsupportedForMessageFormatError):
        log.append_end_marker(9, 0, commit=True)
    assert log.end_offset == 0
    assert log_bytes(directory) == b""


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused_below_v2_for_every_caller(directory: Path, magic: int) -> None:
    log = open_log(directory, message_format_version=VERSIONS[magic], compression_type="zstd")
    with pytest.raises(UnsupportedCompressionTypeError):
        log.append_as_leader(ONE)
    log.configure(LogConfig(message_format_version=VERSIONS[magic], batch_compression="zstd"))
    with pytest.raises(UnsupportedCompressionTypeError):
        log.append(b"v")
    assert log.end_offset == 0


def test_max_message_bytes_applies_after_conversion(directory: Path) -> None:
    log = open_log(directory, message_format_version="0.10.0", max_message_bytes=1000)
    small = batch([PlainRecord(0, NOW, b"k", b"x" * 5000)], codec=1)
    assert len(small) < 1000
    assert log.append_as_leader(small).size < 1000  # a wrapper, compressed as well
    log = open_log(
        directory / "plain",
        message_format_version="0.10.0",
        max_message_bytes=1000,
        compression_type="uncompressed",
    )
    with pytest.raises(MessageTooLargeError):
        log.append_as_leader(small)
    many = batch(rows(50, value=b"x" * 90), codec=1)
    assert log.append_as_leader(many).size > 5000  # each message is small enough
    with pytest.raises(MessageTooLargeError):
        log.append(b"x" * 2000)
    assert log.end_offset == 50


def test_the_format_changes_midway_up_and_down(directory: Path) -> None:
    log = open_log(directory)
    expected = []
    magics = [2, 0, 1, 2, 1, 0, 2]
    for turn, magic in enumerate(magics):
        log.configure(LogConfig(message_format_version=VERSIONS[magic], segment_bytes=500))
        log.append_as_leader(sent(turn % 3, turn % 4, rows(3)))
        log.append(b"%d" % turn, timestamp=NOW)
        expected += [magic] * 4
    path = directory / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n1\n0 0\n"
    assert len(list(directory.glob("*.log"))) > 1
    assert log.verify().finding_count == 0
    assert [r.offset for r in log] == list(range(28))
    found = oracle_read(log_bytes(directory))
    assert [b.magic for b in found.batches for _ in b.records] == expected
    log.close()
    again = open_log(directory)
    assert [(r.offset, r.value) for r in again] == [(r.offset, r.value) for r in found.records]


def test_the_first_v2_batch_of_an_old_log_begins_an_epoch(directory: Path) -> None:
    log = open_log(directory, message_format_version="0.9.0")
    log.extend([b"a", b"b"])
    assert not (directory / "leader-epoch-checkpoint").exists()
    log.configure(LogConfig())
    log.append(b"c")
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 2\n"


def test_each_message_has_its_own_index_entry(directory: Path) -> None:
    log = open_log(directory, message_format_version="0.10.0", index_interval_bytes=0)
    log.append_as_leader(plain(rows(20), 1))
    log.flush()
    log.close()
    raw = (directory / f"{0:020}.index").read_bytes()
    entries = [
        (int.from_bytes(raw[n : n + 4], "big"), int.from_bytes(raw[n + 4 : n + 8], "big"))
        for n in range(0, len(raw), 8)
    ]
    sizes = [b.position for b in oracle_read(log_bytes(directory)).batches]
    assert entries == list(enumerate(sizes))[1:]


records_of_clients = st.lists(
    st.tuples(
        st.just(0),
        st.integers(-1, 1 << 45),
        st.none() | st.binary(max_size=9),
        st.none() | st.binary(max_size=40),
    ).map(lambda fields: PlainRecord(*fields)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(records_of_clients, st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)),
        max_size=6,
    ),
    st.sampled_from(["producer", "uncompressed", "gzip", "lz4"]),
    st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]),
)
def test_any_mixture_reads_as_it_was_sent(tmp_path_factory, turns, codec, kind):
    directory = tmp_path_factory.mktemp("log") / "t-0"
    log = open_log(directory, clock=lambda: 77)
    expected = []
    for records, source, source_codec, target in turns:
        records = [r._replace(offset=n) for n, r in enumerate(records)]
        log.configure(
            LogConfig(
                message_format_version=VERSIONS[target],
                compression_type=codec,
                message_timestamp_type=kind,
            )
        )
        first = log.end_offset
        log.append_as_leader(sent(source, source_codec, records))
        for record in records:
            when = record.timestamp if min(source, target) else -1
            if kind == LOG_APPEND_TIME:
                when = 77 if target else -1
            expected.append((first + record.offset, when, record.key, record.value, target))
    found = oracle_read(log_bytes(directory))
    assert [
        (r.offset, r.timestamp, r.key, r.value, b.magic) for b in found.batches for r in b.records
    ] == expected
    assert all(b.crc_ok for b in found.batches)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in log] == [e[:4] for e in expected]
    assert log.close()
