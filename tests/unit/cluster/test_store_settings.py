"""Settings of a broker that are its store's: they count, or are refused."""

from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS
from kstore.cluster.store_settings import STORE_SETTINGS, with_store_settings
from kstore.config import StoreConfig
from kstore.errors import InvalidConfigError, InvalidRequestError
from support.stores import QUIET

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


DYNAMIC = {name: value for name, value in OTHER.items() if name in DYNAMIC_BROKER_SETTINGS}


def in_use(store: kstore.Store, name: str) -> Any:
    return getattr(store._manager.config, STORE_SETTINGS[name])


@pytest.mark.parametrize("for_all", [False, True])
@pytest.mark.parametrize(("name", "value"), DYNAMIC.items())
def test_those_of_the_cleaner_change_while_the_broker_runs(
    tmp_path: Path, name: str, value: str, for_all: bool
) -> None:
    wanted = getattr(StoreConfig.from_properties({name: value}), STORE_SETTINGS[name])
    with kstore.open(tmp_path, config=QUIET) as store:
        before = store._manager.config
        metadata = LocalMetadata(store)
        change = [(AlterOp.SET, name, value)]
        metadata.alter_broker_config(change, for_all=for_all, validate_only=True)
        assert store._manager.config == before
        metadata.alter_broker_config(change, for_all=for_all)
        assert in_use(store, name) == wanted
        if name == "log.cleaner.io.max.bytes.per.second":
            assert store._manager.cleaner._throttle._rate == wanted
        metadata.close()  # a store without its broker has what it was opened with
        assert store._manager.config == before
        metadata = LocalMetadata(store)
        assert in_use(store, name) == wanted, "it was stored"
        metadata.alter_broker_config([(AlterOp.DELETE, name, None)], for_all=for_all)
        assert store._manager.config == before
        metadata.close()


def test_a_value_that_the_store_refuses_changes_nothing(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        metadata = LocalMetadata(store)
        with pytest.raises(InvalidRequestError, match=r"log\.cleaner\.threads"):
            metadata.alter_broker_config([(AlterOp.SET, "log.cleaner.threads", "0")])
        assert store._manager.config == QUIET
        assert not metadata.broker_config.dynamic
        metadata.close()


def test_the_number_of_cleaner_threads_follows(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t", config={"cleanup.policy": "compact"})
        cleaner = store._manager.cleaner
        metadata = LocalMetadata(store)
        cleaner.wake()
        assert len(cleaner._threads) == 1
        for count in ("3", "2"):
            metadata.alter_broker_config([(AlterOp.SET, "log.cleaner.threads", count)])
            assert len(cleaner._threads) == int(count)
        [ending] = cleaner._ending
        ending.stop()
        assert not ending._thread.is_alive()
        assert all(each._thread.is_alive() for each in cleaner._threads)
        metadata.close()


@pytest.mark.parametrize(
    "name",
    ["log.retention.check.interval.ms", "num.recovery.threads.per.data.dir", "num.io.threads"],
)
def test_a_setting_that_would_have_no_effect_cannot_be_altered(tmp_path: Path, name: str) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        metadata = LocalMetadata(store)
        with pytest.raises(InvalidRequestError, match="Cannot update these configs dynamically"):
            metadata.alter_broker_config([(AlterOp.SET, name, "3")])
        metadata.close()


def test_producers_expire_by_the_brokers_setting(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("t")
        log = store["t"][0]
        name = "producer.id.expiration.ms"
        metadata.alter_broker_config([(AlterOp.SET, name, "1234")])
        assert log.config.producer_id_expiration_ms == 1234
        metadata.alter_broker_config([(AlterOp.DELETE, name, None)])
        assert log.config.producer_id_expiration_ms == 86_400_000
        store.alter_topic("t", {name: 77})
        metadata.alter_broker_config([(AlterOp.SET, name, "1234")])
        assert log.config.producer_id_expiration_ms == 77, "the store's user has set it"
        metadata.close()
