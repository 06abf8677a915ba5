"""A table that reads many records natively has what a table has that decodes every record."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstore
from kstore.coordinator.group import loaded_commits, offsets_table
from kstore.coordinator.group.loaded_commits import LoadedCommits
from kstore.coordinator.group.offset_records import OffsetCommit, OffsetKey, encode_offset_key
from kstore.coordinator.group.offset_records import encode_offset_value as encode_value
from kstore.coordinator.group.offsets_table import OffsetsTable
from kstore.log.log import Log
from kstore.record import Record
from support.stores import QUIET

GROUPS, TOPICS = ["g", "gg", "é", ""], ["t", "tt", "ü"]


def key(group: str = "g", topic: str = "t", partition: int = 0) -> bytes:
    return encode_offset_key(OffsetKey(group, topic, partition))


COMMITS = st.builds(key, st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.integers(0, 2))
OTHERS = st.sampled_from(
    [b"\0\2\0\1g", b"\0\3\0\1g", b"\0\2\0\2gg", b"\0\1broken", b"\0", b"\0\x63\0\1x", key() + b"x"]
)
OLD = COMMITS.map(lambda data: b"\0\0" + data[2:])
VALUES = st.one_of(
    st.none(), st.integers(0, 9).map(lambda n: encode_value(OffsetCommit(n, 1))), st.just(b"broken")
)


def rows(keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Record]]:
    return st.lists(
        st.builds(lambda key, value: Record(0, 1, key, value), keys, VALUES), min_size=1
    )


def deleted(log: Log, start: int) -> list[bytes | None]:
    """The keys of tombstones from an offset on."""
    return [record.key for record in log.view(start)]


def check_all(log: Log, columns: OffsetsTable, records: OffsetsTable) -> None:
    """Read everything that two tables of a log have. Each deletes a topic's or a group's keys."""
    assert columns.groups() == records.groups()
    assert columns.group_records() == records.group_records()
    assert columns.consumer_group_records() == records.consumer_group_records()
    for group in GROUPS:
        assert columns.readable_commits(group) == records.readable_commits(group)


@settings(deadline=None)
@given(
    st.one_of(rows(st.one_of(COMMITS, OTHERS)), rows(st.one_of(COMMITS, OTHERS, OLD))), st.data()
)
def test_columns_and_records_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, records: Sequence[Record], data: st.DataObject
) -> None:
    stop = data.draw(st.integers(0, len(records)))
    group = data.draw(st.sampled_from(GROUPS))
    asked = data.draw(st.sampled_from(GROUPS))
    with (
        kstore.open(tmp_path_factory.mktemp("store") / "data", config=QUIET) as store,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        log = store.create_topic("log", 1)[0]
        by_columns, by_records = OffsetsTable(log), OffsetsTable(log)

        def read(table: OffsetsTable, least: int) -> None:
            monkeypatch.setattr(offsets_table, "_BY_COLUMNS", least)
            table.readable_commits(asked)

        for part in (records[:stop], records[stop:]):
            if part:
                log.extend(part)
            read(by_columns, 0)
            read(by_records, 1_000_000)
        check_all(log, by_columns, by_records)
        assert by_columns._commits.keys_of_topic("t") == by_records._commits.keys_of_topic("t")
        assert by_columns._commits.keys_of_group(group) == by_records._commits.keys_of_group(group)
        chosen = {("t", 0), ("tt", 1)}
        keys = by_records._commits.keys_of_group(group, chosen)
        assert by_columns._commits.keys_of_group(group, chosen) == keys
        end = log.end_offset
        assert by_columns.forget_topic("t") == log.end_offset - end
        check_all(log, by_columns, OffsetsTable(log))


@pytest.mark.parametrize("least", [0, 1_000_000])
def test_a_key_of_version_0_names_the_same_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """The newest record of a partition counts, in whatever version its key is (Kafka's OffsetKey
    has both)."""
    monkeypatch.setattr(offsets_table, "_BY_COLUMNS", least)
    old = b"\0\0" + key()[2:]
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("log", 1)[0]
        table = OffsetsTable(log)
        for number, each in enumerate((old, key(), old)):
            log.append(encode_value(OffsetCommit(number, 1)), key=each)
            [(partition, commit)] = table.readable_commits("g").items()
            assert (partition, commit.offset) == (("t", 0), number)
        log.append(None, key=key())
        assert table.readable_commits("g") == {}


def test_a_group_is_decoded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    decode = loaded_commits.decode_offset_key
    monkeypatch.setattr(
        loaded_commits, "decode_offset_key", lambda data: asked.append(data) or decode(data)
    )
    commits = LoadedCommits()
    commits.load({"g": {key(): b"1", key("g", "u"): None}, "h": {key("h"): b"2"}})
    assert commits.groups() == {"g", "h"}
    assert commits.keys_of_topic("t") == {key(), key("h")}
    assert commits.keys_of_topic("u") == set()
    assert asked == []
    assert commits.values("g") == {("t", 0): b"1", ("u", 0): None}
    assert commits.keys_of_group("g") == {key()}
    assert commits.values("x") == {}
    assert asked == [key(), key("g", "u")]
    commits.load({"g": {key(): None}, "h": {key("h", "u"): b"3"}})
    assert commits.values("g")["t", 0] is None
    assert commits.keys_of_group("g") == set()
    assert commits.groups() == {"h"}
    assert commits.keys_of_topic("u") == {key("h", "u")}


def test_a_group_is_forgotten_without_the_keys_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("log", 1)[0]
        value = encode_value(OffsetCommit(5, 1))
        log.extend(Record(0, 1, key(group, "t", n), value) for group in "gh" for n in range(3))
        monkeypatch.setattr(offsets_table, "_BY_COLUMNS", 1)
        table = OffsetsTable(log)
        assert table.forget_group("g", [("t", 0), ("t", 1), ("u", 0)]) == 2
        assert "h" in table._commits._encoded
        assert deleted(log, 6) == [key(), key("g", "t", 1)]
        assert table.forget_group("g") == 1
        assert table.groups() == {"h"}
