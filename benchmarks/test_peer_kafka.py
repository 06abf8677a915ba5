"""Kafka's log layer runs each command at 1/1000 of its size and checks its results."""

import pytest

from engine.contests.index import BASE_OFFSET, entries, keys
from interop.kafka_jars import prepare, unavailable
from kstore._native.format.crc import crc32c
from kstore._native.index.index_lookup import OffsetIndex
from peers.kafka import SHAPES, VERSION, KafkaLog, everything


@pytest.fixture
def peer(tmp_path):
    reason = prepare(VERSION)[1]
    if reason:
        unavailable(reason)
    with KafkaLog(tmp_path) as log:
        yield log


@pytest.mark.interop
def test_every_kind_of_work(peer):
    results = list(everything(peer, 0.001))
    assert len(results) == 5 * len(SHAPES) + 1
    for result in results:
        assert result["seconds"] > 0
    sizes = [result["batch_bytes"] for result in results if result["work"] == "append"]
    assert sizes == [109_997, 16_497, 1_151, 170]


@pytest.mark.interop
def test_lookups_and_checksums_are_kstores(peer, tmp_path):
    relative = keys("bursty", 1000)
    path = tmp_path / "00.index"
    path.write_bytes(entries(relative))
    offsets = (relative[::7] + BASE_OFFSET).tolist()
    index = OffsetIndex(path.read_bytes(), BASE_OFFSET)
    reply = peer.lookup(path, BASE_OFFSET, offsets, 10 * len(offsets))
    assert reply["count"] == 10 * len(offsets)
    assert reply["sum"] == sum(map(index.lookup, offsets)) > 0
    assert peer.crc(path, 3)["value"] == crc32c(path.read_bytes())


@pytest.mark.interop
def test_an_unknown_command_is_an_error(peer):
    with pytest.raises(RuntimeError, match="unknown command dance"):
        peer.ask("dance")
