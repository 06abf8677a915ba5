"""Names in a log directory: Kafka's spelling both ways, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.errors import InvalidTopicError
from kstore.files import filenames
from kstore.files.filenames import CutName, Parsed, PartitionName

INT64_MAX = 2**63 - 1


def test_names_are_spelled_as_kafkas():
    assert filenames.log_name(0) == "00000000000000000000.log"
    assert filenames.index_name(1523) == "00000000000000001523.index"
    assert filenames.time_index_name(INT64_MAX) == "09223372036854775807.timeindex"
    assert (
        filenames.transaction_index_name(7, ".cleaned") == "00000000000000000007.txnindex.cleaned"
    )
    assert filenames.snapshot_name(9, filenames.DELETED_SUFFIX) == (
        "00000000000000000009.snapshot.deleted"
    )
    assert filenames.partition_directory("a.b-c_d", 12) == "a.b-c_d-12"
    assert filenames.cut_name(5, 4096, 2) == "kstore.cut.00000000000000000005.4096.2"


@given(
    st.integers(0, INT64_MAX),
    st.sampled_from([*filenames.SEGMENT_KINDS, filenames.SNAPSHOT]),
    st.sampled_from(["", ".deleted", ".cleaned", ".swap"]),
)
def test_file_names_round_trip(base_offset, kind, suffix):
    name = filenames.file_name(base_offset, kind, suffix)
    assert filenames.parse(name) == Parsed(base_offset, kind, suffix)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_impossible_offsets_have_no_name(offset):
    with pytest.raises(ValueError):
        filenames.log_name(offset)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0.log",
        "000000000000000000000.log",  # 21 digits
        "0000000000000000000.log",
        "09223372036854775808.log",  # 2^63
        "-0000000000000000001.log",
        "+0000000000000000001.log",
        "0000000000000000000\u0661.log",  # a digit, but not an ASCII one
        "00000000000000000000.log\n",
        "00000000000000000000.log ",
        "00000000000000000000.LOG",
        "00000000000000000000.log.swap.swap",
        "00000000000000000000.log.tmp",
        "00000000000000000000",
        "00000000000000000000.",
        "00000000000000000000-0000000001.checkpoint.deleted",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "x00000000000000000000.log",
        "../00000000000000000000.log",
    ],
)
def test_other_names_belong_to_no_partition(name):
    assert filenames.parse(name) is None


def test_cut_names_round_trip():
    assert filenames.parse_cut_name(filenames.cut_name(5, 0, 3)) == CutName(5, 0, 3)
    for name in ("kstore.cut.5.0.0", "kstore.cut.00000000000000000005.0", "kstore.topics"):
        assert filenames.parse_cut_name(name) is None


topics = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", min_size=1, max_size=249
).filter(lambda name: name not in (".", ".."))


@given(topics, st.integers(0, 2**31 - 1))
def test_directory_names_round_trip(topic, partition):
    filenames.check_topic_name(topic)
    name = filenames.partition_directory(topic, partition)
    if not name.endswith(("-delete", "-future", "-stray")):
        assert filenames.parse_partition_directory(name) == PartitionName(topic, partition, "", "")


@given(topics, st.integers(0, 2**31 - 1), st.sampled_from(["delete", "future", "stray"]))
def test_retired_directory_names_round_trip(topic, partition, state):
    unique = "0123456789abcdef" * 2
    name = filenames.retired_directory(topic, partition, state, unique)
    assert len(name) <= 255
    parsed = filenames.parse_partition_directory(name)
    assert parsed is not None
    assert parsed[1:] == (partition, state, unique)
    assert topic.startswith(parsed.topic)
    if len(topic) < 200:
        assert parsed.topic == topic


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "lost+found",
        "orders",
        "orders-",
        "-0",
        "orders--1x",
        "orders-01",
        "orders-+1",
        "orders-2147483648",
        "orders-99999999999",
        "orders-\u0661",
        "or ders-0",
        "orders-0\n",
        ".-0",
        "..-0",
        "orders-0-delete",
        "orders-0.-delete",
        "orders.abc-delete",
        "orders-0.abc-deleted",
        "../orders-0",
        "remote-log-index-cache",
    ],
)
def test_other_directories_belong_to_no_partition(name):
    assert filenames.parse_partition_directory(name) is None


def test_a_topic_may_end_in_a_dash_or_look_like_another_partition():
    assert filenames.parse_partition_directory("a--1") == PartitionName("a-", 1, "", "")
    assert filenames.parse_partition_directory("a-0-1") == PartitionName("a-0", 1, "", "")
    assert filenames.parse_partition_directory("a.b-1.0af-stray") == PartitionName(
        "a.b", 1, "stray", "0af"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a" * 250,
        "a/b",
        "a b",
        "a\0",
        "a\n",
        "\u00e9",
        "a:b",
        "a\\b",
        b"abc",
        None,
        7,
    ],
)
def test_bad_topic_names_are_refused(name):
    with pytest.raises(InvalidTopicError):
        filenames.check_topic_name(name)


def test_longest_topic_and_bad_partition():
    filenames.check_topic_name("a" * 249)
    for partition in (-1, 2**31):
        with pytest.raises(ValueError):
            filenames.partition_directory("a", partition)
    with pytest.raises(ValueError):
        filenames.retired_directory("a", 0, "gone", "u")


def test_dots_and_underscores_collide():
    assert filenames.collision_key("a.b_c") == filenames.collision_key("a_b.c")
    assert filenames.collision_key("a.b") != filenames.collision_key("a-b")
