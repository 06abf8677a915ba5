"""Settings given as a mapping, by Kafka's names or Python's: of stores and of topics."""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.errors import InvalidConfigError

QUIET = StoreConfig(background=False, log=LogConfig(segment_bytes=4096))


def test_a_topics_mapping_changes_settings_of_the_stores_default(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic(
            "t", config={"retention.ms": "3600000", "preallocate": True, "max_message_bytes": 500}
        )
        assert topic.config.retention_ms == 3_600_000
        assert topic.config.preallocate is True
        assert topic.config.max_message_bytes == 500
        assert topic.config.segment_bytes == 4096  # the store's
        replaced = store.create_topic("u", config=LogConfig(retention_ms=5)).config
        assert (replaced.retention_ms, replaced.segment_bytes) == (5, 1 << 30)
        topic.alter({"retention.ms": 7})
        store.alter_topic("u", {"retention_ms": "8"}, unset=["segment.bytes"])
        assert (topic.config.retention_ms, store["u"].config.retention_ms) == (7, 8)
        assert store["u"].config.segment_bytes == 4096
    with kstore.open(tmp_path, readonly=True) as store:
        assert store["t"].config.retention_ms == 7


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"retention": 5}, r"unknown setting 'retention'; did you mean retention\.ms"),
        ({"retention.ms": "soon"}, "whole number"),
        ({"retention.ms": None}, "whole number"),
        ({"preallocate": 1}, "true or false"),
        ({"retention.ms": 1, "retention_ms": 2}, "set twice"),
    ],
)
def test_a_wrong_setting_of_a_topic_is_named(
    tmp_path: Path, config: dict[str, object], message: str
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        with pytest.raises(InvalidConfigError, match=message):
            store.create_topic("t", config=config)
        assert "t" not in store


def test_a_stores_mapping_has_settings_of_the_store_and_defaults_of_topics(tmp_path: Path) -> None:
    config = {
        "background": False,
        "log.cleaner.threads": "2",
        "log_cleaner_enable": "false",
        "retention.ms": 60_000,
        "log.segment.bytes": 4096,
        "log.roll.ms": 1000,
        "message.max.bytes": "2000",
        "log.retention.check.interval.ms": 5,
    }
    with kstore.open(tmp_path, config=config) as store:
        assert store.config == StoreConfig(
            background=False,
            log_cleaner_threads=2,
            log_cleaner_enable=False,
            retention_check_interval_ms=5,
            log=LogConfig(
                retention_ms=60_000, segment_bytes=4096, segment_ms=1000, max_message_bytes=2000
            ),
        )
        assert store.create_topic("t").config.retention_ms == 60_000


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"log.retention.hours": 1}, r"use {'log\.retention\.ms': timedelta\(hours=24\)}"),
        ({"log": LogConfig()}, "unknown setting 'log'"),
        ({"retention.ms": 1, "log.retention.ms": 1}, "retention.ms is set twice"),
        ({"log.cleaner.threads": 0}, "log.cleaner.threads"),
    ],
)
def test_a_wrong_setting_of_a_store_is_named(
    tmp_path: Path, config: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        kstore.open(tmp_path / "data", config=config)
    assert not (tmp_path / "data").exists()


def test_readonly_is_mode_r(tmp_path: Path) -> None:
    kstore.open(tmp_path, config=QUIET).close()
    with kstore.open(tmp_path, readonly=True) as store:
        assert not store.writable
    with kstore.open(tmp_path, "r", readonly=False) as store:
        assert not store.writable
    with pytest.raises(TypeError, match="readonly is True or False"):
        kstore.open(tmp_path, readonly="yes")
