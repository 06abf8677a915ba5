"""Settings of a broker that are settings of its store: cleaner, retention, recovery.

Those of the cleaner may change while the broker runs (Kafka's LogCleaner.ReconfigurableConfigs);
the others count when the store is opened.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kstore.cluster.settings.broker_settings import DYNAMIC_BROKER_SETTINGS
from kstore.config import StoreConfig, as_store_config
from kstore.errors import InvalidConfigError

if TYPE_CHECKING:
    from kstore.store.store import Store

# Kafka's names, and the store's.
STORE_SETTINGS = {
    "log.retention.check.interval.ms": "retention_check_interval_ms",
    "log.cleaner.enable": "log_cleaner_enable",
    "log.cleaner.threads": "log_cleaner_threads",
    "log.cleaner.dedupe.buffer.size": "log_cleaner_dedupe_buffer_size",
    "log.cleaner.io.buffer.load.factor": "log_cleaner_io_buffer_load_factor",
    "log.cleaner.io.max.bytes.per.second": "log_cleaner_io_max_bytes_per_second",
    "log.cleaner.backoff.ms": "log_cleaner_backoff_ms",
    "num.recovery.threads.per.data.dir": "num_recovery_threads_per_data_dir",
}


def with_store_settings(
    config: StoreConfig | Mapping[str, object] | None, settings: Mapping[str, object]
) -> StoreConfig:
    """Merge the store settings among a broker's settings into a store config.

    Raises InvalidConfigError for an invalid value.
    """
    base = as_store_config(config)
    given = {name: value for name, value in settings.items() if name in STORE_SETTINGS}
    parsed = StoreConfig.from_properties(given)
    attributes = [STORE_SETTINGS[name] for name in given]
    return replace(base, **{each: getattr(parsed, each) for each in attributes})


def check_store_settings(config: StoreConfig, settings: Mapping[str, object]) -> None:
    """Raise InvalidConfigError if a broker's settings contradict those of its open store."""
    for name, value in settings.items():
        if name in STORE_SETTINGS and with_store_settings(config, {name: value}) != config:
            raise InvalidConfigError(
                f"{name}={value} is a setting of the store, which was opened without it: pass it "
                "to kstore.open(config=...), or let kstore.serve open the store"
            )


def apply_store_settings(store: "Store", settings: Mapping[str, str]) -> None:
    """Let a store follow the settings that were changed while its broker runs, and no other.

    A setting that is not among them is again what the store was opened with. Raises
    InvalidConfigError, before anything changes, for a value out of range.
    """
    changed = {name: value for name, value in settings.items() if name in DYNAMIC_BROKER_SETTINGS}
    manager = store._manager
    config = with_store_settings(store.config, changed)
    if config != manager.config:
        manager.config = config
        manager.cleaner.reconfigure(config)
