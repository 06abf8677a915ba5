"""A restart that lost acknowledged records begins a leader epoch; no other restart does."""

import os
from pathlib import Path

import pytest

import kstore
from kstore.checkpoint.offset_checkpoint import write_offsets
from kstore.files.files import DISK
from kstore.protocol.api_keys import ApiKey
from support.damage import cut, flip
from support.stores import copy_as_killed
from support.wire_client import Connection

SEGMENT = "t-0/00000000000000000000.log"
EPOCHS = "t-0/leader-epoch-checkpoint"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The directory of a writer that was killed after nine records in three batches, of which
    the last is in leader epoch 4."""
    with kstore.open(tmp_path / "live") as store:
        log = store.create_topic("t")[0]
        for epoch in (0, 0, 4):
            log.begin_epoch(epoch)
            log.extend([b"value"] * 3)
        copy_as_killed(tmp_path / "live", tmp_path / "killed")
    return tmp_path / "killed"


def served(directory: Path) -> tuple[int, int, tuple[int, int]]:
    """Leader epoch in Metadata and log end, once the log is open; and where epoch 4 ended."""
    with kstore.serve(directory, port=0) as broker:
        client = Connection(broker.bootstrap_servers)
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        fields = {"replica_id": -1, "topics": [{"name": "t", "partitions": [partition]}]}
        while True:  # a partition in recovery answers 5
            latest = client.ask(ApiKey.LIST_OFFSETS, 7, **fields).topics[0].partitions[0]
            if latest.error_code != 5:
                break
        assert latest.error_code == 0
        [topic] = client.ask(ApiKey.METADATA, 9, topics=[{"name": "t"}]).topics
        [led] = topic.partitions
        wanted = {"partition": 0, "current_leader_epoch": led.leader_epoch, "leader_epoch": 4}
        ended = client.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            replica_id=-1,
            topics=[{"topic": "t", "partitions": [wanted]}],
        )
        end = ended.topics[0].partitions[0]
        assert end.error_code == 0
        assert latest.leader_epoch == led.leader_epoch
        client.close()
        return led.leader_epoch, latest.offset, (end.leader_epoch, end.end_offset)


def test_a_cut_batch_raises_the_epoch(killed: Path) -> None:
    flip(killed / SEGMENT, -1)
    assert served(killed) == (5, 6, (0, 6))  # epoch 4 has no record any more
    assert served(killed)[0] == 5  # it stays


def test_an_end_below_the_high_watermark_raises_it(killed: Path) -> None:
    write_offsets(DISK, killed / "replication-offset-checkpoint", {("t", 0): 9})
    size = os.path.getsize(killed / SEGMENT)
    cut(killed / SEGMENT, size // 3 * 2)
    (killed / EPOCHS).unlink()
    assert served(killed) == (1, 6, (-1, -1))  # nothing is left of epoch 4


def test_an_end_below_the_start_of_an_epoch_raises_it(killed: Path) -> None:
    cut(killed / SEGMENT, os.path.getsize(killed / SEGMENT) // 3)
    assert served(killed) == (5, 3, (0, 3))


def test_an_interrupted_append_begins_no_epoch(killed: Path) -> None:
    cut(killed / SEGMENT, -1)
    assert served(killed)[:2] == (4, 6)


def test_a_kill_begins_no_epoch(killed: Path) -> None:
    assert served(killed) == (4, 9, (4, 9))


def test_the_epoch_rises_though_no_client_asks(killed: Path) -> None:
    flip(killed / SEGMENT, -1)
    with kstore.serve(killed, port=0) as broker:
        assert broker.store["t"][0].end_offset == 6  # it is recovered
    served(killed)
    with kstore.open(killed) as store:
        log = store["t"][0]
        log.append(b"again")
        assert log.epoch_at(6) == 5
