"""Groups of a store: listed with offsets, lag and claims; altered and deleted as in Kafka."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig, TopicPartition
from kstore.coordinator.group import list_groups
from kstore.coordinator.group.offset_records import OffsetCommit, encode_offset_value
from kstore.coordinator.group.partition_claims import Claims
from kstore.coordinator.group.reader_offsets_file import group_file_name, group_of_file_name
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import (
    ClosedError,
    CorruptFileError,
    CorruptRecordError,
    GroupConflictError,
    GroupIdNotFoundError,
    InvalidConfigError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    UnknownTopicOrPartitionError,
)
from kstore.files.filenames import OFFSETS_LOCK_PREFIX
from kstore.files.files import Files
from kstore.protocol.fields import partition_for_name
from kstore.protocol.records import encode_record
from kstore.protocol.records.group_metadata import GroupMetadataKey

QUIET = StoreConfig(background=False)
OFFSETS = "__consumer_offsets"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        for log in opened.create_topic("t", 2):
            log.extend([b"x"] * 10)
        yield opened


def offsets_log(store: Store, group: str) -> kstore.Log:
    topic = store[OFFSETS]
    return topic[partition_for_name(group, len(topic))]


def metadata_key(version: int, group: str) -> bytes:
    return encode_record(GroupMetadataKey(group), version, 0)


HOLDER = """
import sys, kstore
with kstore.open(sys.argv[1], "r") as store, store.consumer("t", group=sys.argv[2]):
    print("open", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(store: Store, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process, with a consumer of group g."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "g"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        yield other
        other.communicate("\n", timeout=60)


# --- listing ----------------------------------------------------------------------------------


def test_a_store_without_groups_lists_none(store: Store) -> None:
    assert store.groups() == {}


def test_groups_have_offsets_lag_and_metadata(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    with store.consumer("t", group="h") as consumer:
        consumer.commit({T0: 4}, metadata="a note")
        consumer.commit({T1: 12})
    with store.consumer("t", group="g") as consumer:
        consumer.commit({T0: 10})
    groups = store.groups()
    assert list(groups) == ["g", "h"]
    found = groups["h"]
    assert found.name == "h"
    assert list(found.offsets) == [T0, T1]
    first = found.offsets[T0]
    assert (first.offset, first.end_offset, first.lag, first.metadata) == (4, 10, 6, "a note")
    assert before <= first.commit_time <= datetime.now(UTC)
    assert first.leader_epoch == -1
    assert found.offsets[T1].lag == -2  # beyond the end, as Kafka shows it
    assert found.lag == 6  # negative ones are not subtracted
    assert groups["g"].lag == 0
    assert not found.is_claimed


def test_a_claimed_group_names_its_partitions(store: Store, tmp_path: Path) -> None:
    with store.consumer(group="reading/now", assignment=[T1]):
        (found,) = store.groups().values()
        assert (found.name, found.claimed, found.is_claimed) == ("reading/now", {T1}, True)
        assert found.offsets == {}
        with kstore.open(tmp_path, "r") as reader:
            assert reader.groups() == store.groups()
    assert store.groups() == {}


def test_a_consumer_of_another_process_claims_too(
    store: Store, holder: "subprocess.Popen[str]"
) -> None:
    assert store.groups()["g"].claimed == {T0, T1}
    with pytest.raises(GroupConflictError, match=f"in process {holder.pid} .*close it"):
        store.consumer("t", group="g")


def test_commits_of_another_process_are_listed(store: Store, tmp_path: Path) -> None:
    with kstore.open(tmp_path, "r") as reader:
        with reader.consumer("t", group="beside") as consumer:
            consumer.commit({T0: 3})
        assert {name: each.lag for name, each in store.groups().items()} == {"beside": 7}
        assert reader.groups() == store.groups()
    (tmp_path / group_file_name("damaged")).write_text("{")
    assert list(store.groups()) == ["beside"]


def test_groups_that_a_broker_wrote_are_listed(store: Store) -> None:
    """With members but without offsets: a classic group, and one of KIP-848."""
    with store.consumer("t", group="plain") as consumer:
        consumer.commit({T0: 3})
    for group, version in (("classic", 2), ("new", 3)):
        offsets_log(store, group).append(b"members", key=metadata_key(version, group))
    log = offsets_log(store, "classic")
    log.append(b"?", key=b"\x00\x63?")  # of a kind that no Kafka has today
    log.append(b"members", key=metadata_key(2, "gone"))
    log.append(None, key=metadata_key(2, "gone"))
    groups = store.groups()
    assert list(groups) == ["classic", "new", "plain"]
    assert groups["classic"].offsets == {}


def test_a_partition_that_is_not_here_has_no_end(store: Store) -> None:
    store.create_topic("u").append(b"x")
    with store.consumer(["t", "u"], group="g") as consumer:
        consumer.commit({T0: 4, ("u", 0): 1})
    log = offsets_log(store, "g")
    records = [(each.key, each.value) for each in log]
    store.delete_topic("u")
    for key, value in records:  # as in a directory that hosts only some topics
        log.append(value, key=key)
    found = store.groups()["g"]
    assert found.offsets[TopicPartition("u", 0)][:2] == (1, None)
    assert found.offsets[TopicPartition("u", 0)].lag is None
    assert found.lag == 6


def test_a_group_whose_commit_does_not_decode_has_an_error(store: Store) -> None:
    for group in ("g", "h"):
        with store.consumer("t", group=group) as consumer:
            consumer.commit({T0: 4})
    log = offsets_log(store, "g")
    log.append(b"\x00\x05junk", key=next(iter(log)).key)
    groups = store.groups()
    assert isinstance(groups["g"].error, CorruptRecordError)
    assert groups["g"].offsets == {}
    assert groups["h"].error is None
    assert groups["h"].lag == 6


@pytest.mark.parametrize("group", ["g", "a/b.c", "größe", "%41", "x" * 60])
def test_a_file_name_gives_back_its_group(group: str) -> None:
    name = group_file_name(group, OFFSETS_LOCK_PREFIX)
    assert group_of_file_name(name, OFFSETS_LOCK_PREFIX) == group


@pytest.mark.parametrize("name", ["~" + "0" * 64, "%ZZ", "%FF", "a.tmp", "%61"])
def test_other_file_names_give_no_group(name: str) -> None:
    assert group_of_file_name(OFFSETS_LOCK_PREFIX + name, OFFSETS_LOCK_PREFIX) is None


# --- what others do meanwhile -------------------------------------------------------------------


def test_an_invalid_commit_timestamp_is_an_error_of_its_group_only(
    store: Store, tmp_path: Path
) -> None:
    """2**62 ms is beyond what a datetime holds."""
    store.alter_group_offsets("good", {T0: 1})
    path = tmp_path / group_file_name("evil")
    with kstore.open(tmp_path, "r") as reader:
        reader.alter_group_offsets("evil", {T0: 1, T1: 2})
        document = json.loads(path.read_bytes())
        document["offsets"]["t"]["0"]["commit_timestamp"] = 2**62
        path.write_text(json.dumps(document))
        groups = reader.groups()
        assert groups["good"].error is None
        assert isinstance(groups["evil"].error, CorruptRecordError)
        assert str(2**62) in str(groups["evil"].error)
        assert list(groups["evil"].offsets) == [T1]
        assert list(reader.group("evil").offsets) == [T1]
    store.delete_group("good")
    store.delete_group("evil")
    assert store.groups() == {}


def test_a_commit_follows_one_with_the_last_possible_timestamp(store: Store) -> None:
    last = OffsetCommit(5, 2**63 - 1)
    store.alter_group_offsets("g", {T0: 1})
    log = offsets_log(store, "g")
    log.append(encode_offset_value(last), key=next(iter(log)).key)
    store.alter_group_offsets("g", {T0: 7})
    with store.consumer("t", group="g") as consumer:
        assert consumer.committed(T0) == 7


def test_a_file_that_a_writer_removes_meanwhile_is_no_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / group_file_name("g")
    read = Files.read

    def fold_then_read(self: Files, name: str, limit: int = 1 << 28) -> bytes:
        if str(name) == str(path):
            path.unlink(missing_ok=True)
        return read(self, name, limit)

    with kstore.open(tmp_path, "r") as reader:
        reader.alter_group_offsets("g", {T0: 1})
        content = path.read_bytes()
        monkeypatch.setattr(Files, "read", fold_then_read)
        assert reader.groups() == {}
        path.write_bytes(content)
        with reader.consumer("t", group="g") as consumer:
            assert consumer.committed(T0) is None


def test_a_topic_that_is_deleted_meanwhile_is_no_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("u")
    is_taken = Claims.is_taken

    def delete_then_ask(self: Claims, tp: tuple[str, int]) -> bool:
        if "u" in store:
            store.delete_topic("u")
        return is_taken(self, tp)

    with kstore.open(tmp_path, "r") as reader, reader.consumer(group="g", assignment=[T0]):
        assert "u" in reader
        monkeypatch.setattr(Claims, "is_taken", delete_then_ask)
        assert reader.groups()["g"].claimed == {T0}


def test_a_deleted_topic_of_offsets_is_no_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.alter_group_offsets("g", {T0: 1})

    def list_then_delete(store_: Store, topic: str) -> Iterator[TopicPartition]:
        found = list(filled_partitions(store_, topic))
        if topic in store:
            store.delete_topic(topic)
        return iter(found)

    with kstore.open(tmp_path, "r") as reader:
        assert list(reader.groups()) == ["g"]
        monkeypatch.setattr(list_groups, "filled_partitions", list_then_delete)
        assert reader.groups() == {}


# --- altering ---------------------------------------------------------------------------------


def test_offsets_are_altered_for_the_next_consumer(store: Store, tmp_path: Path) -> None:
    store.alter_group_offsets("g", {T0: 7, ("t", 1): 2}, metadata="reset")
    assert offsets_log(store, "g").recovery_point == offsets_log(store, "g").end_offset
    found = store.groups()["g"].offsets
    assert {tp: (each.offset, each.metadata) for tp, each in found.items()} == {
        T0: (7, "reset"), T1: (2, "reset"),
    }  # fmt: skip
    with store.consumer("t", group="g") as consumer:
        assert (consumer.position(T0), consumer.position(T1)) == (7, 2)
    store.alter_group_offsets("g", {T0: 0})
    with kstore.open(tmp_path, "r") as reader:
        reader.alter_group_offsets("g", {T1: 9})
    with store.consumer("t", group="g") as consumer:
        assert (consumer.position(T0), consumer.position(T1)) == (0, 9)


def test_wrong_offsets_change_nothing(store: Store) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        store.alter_group_offsets("g", {T0: 7, ("t", 2): 2})
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nope'"):
        store.alter_group_offsets("g", {("nope", 0): 2})
    with pytest.raises(OffsetOutOfRangeError):
        store.alter_group_offsets("g", {T0: -1})
    with pytest.raises(InvalidConfigError, match="4096"):
        store.alter_group_offsets("g", {T0: 1}, metadata="x" * 4097)
    store.alter_group_offsets("g", {})
    assert store.groups() == {}
    store.close()
    with pytest.raises(ClosedError):
        store.alter_group_offsets("g", {})


# --- deleting ---------------------------------------------------------------------------------


def test_a_deleted_group_begins_again(store: Store, tmp_path: Path) -> None:
    for group in ("g", "h"):
        store.alter_group_offsets(group, {T0: 7})
    log = offsets_log(store, "g")
    log.append(b"members", key=metadata_key(2, "g"))
    with kstore.open(tmp_path, "r") as reader:
        reader.alter_group_offsets("g", {T1: 7})
    store.delete_group("g")
    assert list(store.groups()) == ["h"]
    assert not (tmp_path / group_file_name("g")).exists()
    keys = {record.key for record in log if record.value is None}
    assert metadata_key(2, "g") in keys
    assert len(keys) == 3  # the file's commit was moved to the log first
    assert log.recovery_point == log.end_offset
    with store.consumer("t", group="g") as consumer:
        assert consumer.committed(T0) is None
    with pytest.raises(GroupIdNotFoundError, match="no group 'g'") as caught:
        store.delete_group("g")
    assert caught.value.code == 69


def test_offsets_of_some_partitions_are_deleted(store: Store) -> None:
    store.alter_group_offsets("g", {T0: 7, T1: 8})
    offsets_log(store, "g").append(b"members", key=metadata_key(2, "g"))
    store.delete_group_offsets("g", [T1, ("gone", 0)])
    assert list(store.groups()["g"].offsets) == [T0]
    store.delete_group_offsets("g", [T0])
    assert list(store.groups()) == ["g"]  # its members stay
    with pytest.raises(GroupIdNotFoundError):
        store.delete_group_offsets("nope", [T0])


def test_an_open_group_is_left_alone(store: Store) -> None:
    store.alter_group_offsets("g", {T0: 7})
    with store.consumer(group="g", assignment=[T1]):
        for change in (
            lambda: store.alter_group_offsets("g", {T0: 1}),
            lambda: store.delete_group_offsets("g", [T0]),
            lambda: store.delete_group("g"),
        ):
            with pytest.raises(NonEmptyGroupError, match="in this process: close it") as caught:
                change()
            assert caught.value.code == 68
        store.alter_group_offsets("h", {T0: 1})
    assert store.groups()["g"].offsets[T0].offset == 7
    store.delete_group("g")


def test_a_group_open_in_another_process_is_left_alone(
    store: Store, holder: "subprocess.Popen[str]"
) -> None:
    with pytest.raises(NonEmptyGroupError, match=f"process {holder.pid} "):
        store.alter_group_offsets("g", {T0: 1})


def test_a_reader_deletes_nothing(store: Store, tmp_path: Path) -> None:
    store.alter_group_offsets("g", {T0: 7})
    with kstore.open(tmp_path, "r") as reader:
        with pytest.raises(ReadOnlyError):
            reader.delete_group("g")
        with pytest.raises(ReadOnlyError):
            reader.delete_group_offsets("g", [T0])


def test_a_deletion_survives_a_restart(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t").append(b"x")
        store.alter_group_offsets("g", {T0: 1})
        store.delete_group("g")
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store.groups() == {}


def test_a_damaged_file_stops_a_deletion_before_it_changes_anything(
    store: Store, tmp_path: Path
) -> None:
    store.alter_group_offsets("g", {T0: 1})
    path = tmp_path / group_file_name("g")
    path.write_text("{")
    log = offsets_log(store, "g")
    end = log.end_offset
    for _ in range(2):
        with pytest.raises(CorruptFileError) as caught:
            store.delete_group("g")
        assert caught.value.path == str(path)
        with pytest.raises(CorruptFileError):
            store.delete_group_offsets("g", [T0])
    assert log.end_offset == end
    path.unlink()
    assert store.group("g").offsets[T0].offset == 1
    store.delete_group("g")
    assert store.groups() == {}


def test_a_group_whose_commit_does_not_decode_is_deleted_with_its_file(
    store: Store, tmp_path: Path
) -> None:
    store.alter_group_offsets("g", {T0: 1})
    log = offsets_log(store, "g")
    log.append(b"\x00\x05junk", key=next(iter(log)).key)
    path = tmp_path / group_file_name("g")
    path.write_text(
        '{"format": 1, "group": "g", "offsets": {"t": {"0": {"offset": 4, "commit_timestamp": 7}}}}'
    )
    store.delete_group("g")
    assert store.groups() == {}
    assert not path.exists()


def test_a_group_with_an_empty_file_is_deleted(store: Store, tmp_path: Path) -> None:
    (tmp_path / group_file_name("g")).write_text('{"format": 2, "group": "g", "offsets": {}}')
    assert list(store.groups()) == ["g"]
    store.delete_group("g")
    assert store.groups() == {}


# --- several log directories ------------------------------------------------------------------


@pytest.fixture
def two_dirs(tmp_path: Path) -> Iterator[tuple[Store, Path]]:
    """A store over a and b, with offset 7 of both partitions committed; partition 1 is in b."""
    with kstore.open([tmp_path / "a", tmp_path / "b"], config=QUIET) as opened:
        for log in opened.create_topic("t", 2):
            log.extend([b"x"] * 9)
        assert opened["t"][1].path == str(tmp_path / "b" / "t-1")
        opened.alter_group_offsets("g", {T0: 7, T1: 7})
        yield opened, tmp_path / "b"


def offsets_of(store: Store) -> dict[str, dict[TopicPartition, int]]:
    return {
        name: {tp: each.offset for tp, each in group.offsets.items()}
        for name, group in store.groups().items()
    }


def test_commits_in_every_log_dir_are_listed_and_deleted(two_dirs: tuple[Store, Path]) -> None:
    store, second = two_dirs
    with kstore.open(second, "r") as reader:
        reader.alter_group_offsets("g", {T1: 3})
        reader.alter_group_offsets("h", {T1: 4})
    assert offsets_of(store) == {"g": {T0: 7, T1: 3}, "h": {T1: 4}}
    with kstore.open(store.paths, "r") as reader:
        assert offsets_of(reader) == offsets_of(store)
        with reader.consumer("t", group="g") as consumer:
            assert consumer.committed(T1) == 3
    with store.consumer("t", group="g") as consumer:
        assert consumer.committed(T1) == 3
    store.delete_group_offsets("h", [T1])
    store.delete_group("g")
    assert store.groups() == {}
    store.close()
    with kstore.open(store.paths, config=QUIET) as again:
        assert again.groups() == {}


def test_claims_in_every_log_dir_count(two_dirs: tuple[Store, Path]) -> None:
    store, second = two_dirs
    with kstore.open(second, "r") as reader:
        with reader.consumer(group="g", assignment=[T1]):
            assert store.group("g").claimed == {T1}
            with pytest.raises(NonEmptyGroupError):
                store.delete_group("g")
            with pytest.raises(GroupConflictError, match="t-1"):
                store.consumer("t", group="g")
        with store.consumer("t", group="g"):
            assert reader.group("g").claimed == {T1}
            with pytest.raises(GroupConflictError):
                reader.consumer(group="g", assignment=[T1])
    assert offsets_of(store) == {"g": {T0: 7, T1: 7}}


def test_a_log_that_was_truncated_hides_no_lag_of_others(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("t", 2)
        for log in topic:
            log.extend([b"1"] * 10)
        store.alter_group_offsets("readers", {("t", 0): 10, ("t", 1): 5})
        topic[0].truncate_to(0)
        topic[0].extend([b"2"] * 5)
        group = store.group("readers")
        assert (dict(group.lags), group.lag) == ({("t", 0): -5, ("t", 1): 5}, 5)
