"""Kafka's log layer does each kind of work, at 1/1000 of its size, and checks its results."""

import pytest

from interop.kafka_jars import prepare, unavailable
from kstore._native.checksum import crc32c
from kstore._native.index import OffsetIndex
from kstore.bench.kernels_index import BASE_OFFSET, entries, keys
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
    said = peer.lookup(path, BASE_OFFSET, offsets, 10 * len(offsets))
    assert said["count"] == 10 * len(offsets)
    assert said["sum"] == sum(map(index.lookup, offsets)) > 0
    assert peer.crc(path, 3)["value"] == crc32c(path.read_bytes())


@pytest.mark.interop
def test_a_failure_is_told(peer):
    with pytest.raises(RuntimeError, match="unknown command dance"):
        peer.ask("dance")
