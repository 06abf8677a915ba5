"""Directories of a real broker are adopted: what Kafka wrote, by its own topic ids."""

from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import unpack
from kstore.cluster.adoption import read_source
from support import metadata

RECORDED = Path(__file__).parents[1] / "data" / "cluster-metadata"


def test_a_brokers_dirs_follow_its_metadata(tmp_path: Path) -> None:
    root = unpack("dirs-kraft-3.9.2", tmp_path) / "in-flight"
    paths = [root / "d1", root / "d2"]
    with kstore.open(paths, "r") as store:
        ids = {name: store[name].topic_id for name in store}
        ends = {(log.topic, log.partition): log.end_offset for name in ids for log in store[name]}
    topics = [metadata.topic(name, topic_id) for name, topic_id in ids.items() if topic_id]
    metadata.write(paths[0], *topics, metadata.setting("stays", "retention.ms", "1"))
    with kstore.open(paths) as store, kstore.Broker(store, port=0, adopt=paths[0]):
        store.apply_retention()
        assert store["stays"].config.retention_ms == 1
        assert store["moving"].config.retention_ms == 604_800_000
        for log in store["stays"]:
            assert log.start_offset == log.end_offset == ends[log.topic, log.partition]


@pytest.mark.parametrize("version", ["3.9.2", "4.3.0"])
def test_a_recorded_metadata_log_is_a_source(version: str) -> None:
    source = read_source(RECORDED / version)
    assert {"kept", "gone", "moved"} <= set(source.topics)
    assert all(topic.topic_id for topic in source.topics.values())
