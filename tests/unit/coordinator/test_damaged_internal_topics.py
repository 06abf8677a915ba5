"""Damage in ``__consumer_offsets`` and ``__transaction_state`` is seen."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.cli import main
from kstore.coordinator.group.offsets_table import OffsetsTable
from kstore.errors import CorruptRecordError, RecoveryNeededError
from kstore.handover.report import HandoverReport
from kstore.handover.source import warn_of_offsets
from support import damage

QUIET = StoreConfig(background=False)
OFFSETS = "__consumer_offsets"
T0 = ("t", 0)
CUT_KEY = b"\x00\x01\x00\x09grou"  # of an offset commit, cut in the group's name
JUNK = b"\x00\x05junk"  # a commit's value of a version that is not known


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("t").append(b"1")
        opened.create_topic("u").append(b"1")
        yield opened


def commit(store: Store, group: str, topic: str) -> None:
    with store.consumer(topic, group=group) as consumer:
        consumer.poll()
        consumer.commit()


def find_log(store: Store, topic: str) -> kstore.Log:
    return next(log for log in store[topic] if log.end_offset)


# --- records that do not decode -------------------------------------------------------------


def test_a_deletion_also_removes_a_committed_offset_that_does_not_decode(
    store: Store, tmp_path: Path
) -> None:
    commit(store, "g", "t")
    log = find_log(store, OFFSETS)
    key = next(iter(log)).key
    log.append(JUNK, key=key)
    store.delete_topic("t")
    assert [(each.key, each.value) for each in log][-1] == (key, None)
    store.close()
    with kstore.open(tmp_path, config=QUIET) as again:
        again.create_topic("t").append(b"new")
        with again.consumer("t", group="g") as consumer:
            assert consumer.committed(T0) is None


def test_a_committed_offset_that_does_not_decode_affects_only_its_group(store: Store) -> None:
    commit(store, "g", "t")
    log = find_log(store, OFFSETS)
    key = next(iter(log)).key
    assert key is not None
    log.append(JUNK, key=key.replace(b"\x00\x01g", b"\x00\x01h"))
    with store.consumer("t", group="g") as consumer:
        assert consumer.committed(T0) == 1
    log.append(JUNK, key=key)
    with (
        store.consumer("t", group="g") as consumer,
        pytest.raises(CorruptRecordError, match="version 5; known versions: 0 to 4"),
    ):
        consumer.committed(T0)


def test_a_key_that_does_not_decode_is_skipped_and_reported(
    store: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Groups of the partition keep their offsets, and topics can be deleted."""
    commit(store, "g", "t")
    log = find_log(store, OFFSETS)
    name = f"{OFFSETS}-{log.partition}"
    offset = log.append(JUNK, key=CUT_KEY)
    commit(store, "g", "u")
    with store.consumer(["t", "u"], group="g") as consumer:
        assert [consumer.committed((each, 0)) for each in "tu"] == [1, 1]
    store.delete_topic("t")
    with store.consumer("u", group="g") as consumer:
        assert consumer.committed(("u", 0)) == 1
        assert consumer.committed(T0) is None
    assert f"{name}: the record at offset {offset} is skipped" in caplog.text
    store.close()
    assert main(["verify", "--log-dir", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert f"offset {offset}" in out
    assert "the key does not decode" in out


def test_a_handover_reads_only_the_committed_offsets_that_it_names(
    store: Store, tmp_path: Path
) -> None:
    """A record that does not decode is named where its topic goes over, and hinders no other."""
    commit(store, "g", "t")
    commit(store, "g", "u")
    log = find_log(store, OFFSETS)
    key = next(iter(log)).key
    log.append(JUNK, key=key)
    log.append(JUNK, key=CUT_KEY)
    report = HandoverReport()
    warn_of_offsets(store, [], {"u"}, report)
    lines = [f"{each.where} {each.sentence}" for each in report.findings]
    assert any("u:0=1" in line for line in lines)
    assert any("its key does not decode" in line for line in lines)
    assert not any("cannot be read" in line for line in lines)
    report = HandoverReport()
    warn_of_offsets(store, [], {"t"}, report)
    lines = [f"{each.where} {each.sentence}" for each in report.findings]
    assert any("group g its committed offset of t-0 cannot be read" in line for line in lines)


def test_a_deletion_that_damage_stops_keeps_only_the_topics_name(
    store: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit(store, "g", "t")

    def fail(*_: object) -> int:
        raise CorruptRecordError("a batch is damaged")

    monkeypatch.setattr(OffsetsTable, "forget_topic", fail)
    with pytest.raises(CorruptRecordError):
        store.delete_topic("t")
    store.close()
    for _ in range(2):
        caplog.clear()
        with kstore.open(tmp_path, config=QUIET) as again:
            warned = [each for each in caplog.records if each.levelno == logging.WARNING]
            assert len(warned) == 1
            assert "the deletion of topic t is not finished" in warned[0].getMessage()
            assert "t" not in again
            again["u"].append(b"2")
            with pytest.raises(CorruptRecordError):
                again.create_topic("t")


def test_offsets_of_a_reader_stay_in_their_file_where_the_log_is_damaged(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit(store, "g", "t")
    file = tmp_path / "kstore.offsets.g"
    with kstore.open(tmp_path, "r", config=QUIET) as reader:
        commit(reader, "g", "u")
    flip(store, OFFSETS)
    with kstore.open(tmp_path, config=QUIET) as again:
        assert "committed offsets remain in their file" in caplog.text
        assert file.exists()
        again["u"].append(b"2")


# --- damage in front of a log that ended cleanly ----------------------------------------------


def flip(store: Store, topic: str, position: int = 80) -> kstore.TopicPartition:
    """Close a store; then one bit of the first batch in an internal topic is another."""
    log = find_log(store, topic)
    store.close()
    damage.flip(Path(log.path) / "00000000000000000000.log", position)
    return kstore.TopicPartition(log.topic, log.partition)


@pytest.mark.parametrize("mode", ["a", "r"])
def test_the_end_offset_of_a_damaged_log_is_what_the_opened_log_says(
    store: Store, tmp_path: Path, mode: str
) -> None:
    for _ in range(3):
        store["t"].append(b"more")
    tp = flip(store, "t", position=66)  # in the first record: only the checksum shows it
    with kstore.open(tmp_path, mode, config=QUIET) as again:
        assert again.end_offsets("t") == {tp: 4}
        assert again["t"][0].end_offset == 4


def test_the_end_offset_of_a_log_that_must_be_recovered_first_is_an_error(
    store: Store, tmp_path: Path
) -> None:
    for _ in range(3):
        store["t"].append(b"more")
    flip(store, "t", position=16)  # the magic byte: no batch can be seen to begin here
    with kstore.open(tmp_path, config=QUIET) as again, pytest.raises(RecoveryNeededError):
        again.end_offsets("t")


@pytest.mark.parametrize("position", [16, 80])
def test_a_store_whose_states_of_transactions_are_damaged_in_front_is_not_written(
    store: Store, tmp_path: Path, position: int
) -> None:
    with store.transactional_producer("id").transaction() as producer:
        producer.send("t", b"1")
    tp = flip(store, "__transaction_state", position)
    with pytest.raises(
        (CorruptRecordError, RecoveryNeededError),
        match=rf"restore the folder __transaction_state-{tp.partition}\b",
    ):
        kstore.open(tmp_path, config=QUIET)


@pytest.mark.parametrize("position", [16, 80])
def test_a_deletion_is_not_final_where_committed_offsets_are_damaged_in_front(
    store: Store, tmp_path: Path, position: int
) -> None:
    commit(store, "g", "u")
    commit(store, "g", "t")
    flip(store, OFFSETS, position)
    with kstore.open(tmp_path, config=QUIET) as again:
        with pytest.raises((CorruptRecordError, RecoveryNeededError)):
            again.delete_topic("t")
        with pytest.raises((CorruptRecordError, RecoveryNeededError)):
            again.create_topic("t")
    with kstore.open(tmp_path, config=QUIET) as again:
        assert "t" not in again
        again["u"].append(b"2")
