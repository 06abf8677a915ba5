"""Settings of a broker that are its store's: they count, or are refused."""

from pathlib import Path

import pytest

import kstore
from kstore.broker.store_settings import STORE_SETTINGS, with_store_settings
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.config import StoreConfig
from kstore.errors import InvalidConfigError

OTHER = {
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.enable": "false",
    "log.cleaner.threads": "3",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.io.buffer.load.factor": "0.5",
    "log.cleaner.io.max.bytes.per.second": "1000000",
    "log.cleaner.backoff.ms": "5",
    "num.recovery.threads.per.data.dir": "7",
}


def test_each_is_a_setting_of_kafkas_brokers() -> None:
    assert OTHER.keys() == STORE_SETTINGS.keys() <= BROKER_SETTINGS.keys()


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_serve_opens_its_store_with_them(tmp_path: Path, name: str, value: str) -> None:
    attribute = STORE_SETTINGS[name]
    wanted = getattr(StoreConfig.from_properties({name: value}), attribute)
    assert wanted != getattr(StoreConfig(), attribute)
    with kstore.serve(tmp_path, port=0, settings={name: value}) as broker:
        assert getattr(broker.store.config, attribute) == wanted


def test_they_count_before_the_stores_own() -> None:
    config = StoreConfig(log_cleaner_threads=2, log_cleaner_backoff_ms=9)
    found = with_store_settings(config, {"log.cleaner.threads": 4, "num.partitions": 3})
    assert (found.log_cleaner_threads, found.log_cleaner_backoff_ms) == (4, 9)
    with pytest.raises(InvalidConfigError, match=r"log\.cleaner\.threads"):
        with_store_settings(None, {"log.cleaner.threads": "0"})


@pytest.mark.parametrize(("name", "value"), OTHER.items())
def test_an_open_store_does_not_take_them(tmp_path: Path, name: str, value: str) -> None:
    sentence = f"{name}={value} is a setting of the store"
    with kstore.open(tmp_path) as store, pytest.raises(InvalidConfigError, match=sentence):
        kstore.Broker(store, port=0, settings={name: value})
    with kstore.open(tmp_path, config={name: value}) as store:
        kstore.Broker(store, port=0, settings={name: value}).close()
