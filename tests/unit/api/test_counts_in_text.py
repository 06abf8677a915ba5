"""Numbers of things in the texts that users see: one of them is in the singular."""

from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from kstore.errors import TopicExistsError
from kstore.integers import count_of


def test_a_number_and_its_noun() -> None:
    assert [count_of(number, "batch", "es") for number in (0, 1, 2)] == [
        "0 batches",
        "1 batch",
        "2 batches",
    ]
    assert count_of(1234, "record", form=",") == "1,234 records"
    assert count_of(1, "record", form=",") == "1 record"


def test_one_partition_one_record_one_row(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("orders")
        assert repr(topic) == "<kstore.Topic 'orders', 1 partition>"
        assert repr(store.create_topic("pairs", 2)) == "<kstore.Topic 'pairs', 2 partitions>"
        with pytest.raises(TopicExistsError, match="exists with 1 partition, not 2"):
            store.create_topic("orders", 2, exist_ok=True)
        topic[0].append(b"v", key=b"k")
        (columns,) = topic[0].scan()
        assert repr(columns) == "<Columns of 1 record, offsets 0 to 0>"
        assert repr(columns.keys) == "<Ragged of 1 row>"
        topic[0].append(b"v", key=b"k")
        assert repr(next(iter(topic[0].scan())).keys) == "<Ragged of 2 rows>"


def test_tools_of_one_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders")[0].append(b"v")
    assert (
        main(
            [
                "recompress",
                "--log-dir",
                str(tmp_path),
                "--compression",
                "lz4",
                "--dry-run",
                "--roll",
            ]
        )
        == 0
    )
    *lines, last = capsys.readouterr().out.splitlines()
    assert any("rewrite 1 of 1 segment," in line for line in lines)
    assert last == "1 partition, all ok: nothing was changed"
