"""Reads the topic settings of a restore's source, and creates the target's topics with them."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from kstore.config import LogConfig
from kstore.errors import CorruptRecordError, InvalidConfigError
from kstore.partition_files import Files, count_of, filenames, read_cluster_metadata
from kstore.spark.jobs.export_target import FOLDER, read_settings
from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
_KNOWN = frozenset(field.name.replace("_", ".") for field in fields(LogConfig))

Settings = Mapping[str, str]  # Kafka's names


def settings_of_log_dirs(
    files: Files, store: Store, paths: Sequence[str], topics: Iterable[str]
) -> dict[str, Settings]:
    """The settings of topics from ``kstore.topics``, or from the cluster's metadata log.

    A topic that neither has is omitted: Kafka keeps settings in no other file.
    """
    found: dict[str, Settings] = {}
    missing = []
    for name in topics:
        if store._catalog.is_own(name):
            found[name] = store[name].config.to_properties()
        else:
            missing.append(name)
    for path in paths if missing else ():
        folder = os.path.join(path, filenames.CLUSTER_METADATA)
        if files.kind(folder) != "directory":
            continue
        try:
            metadata = read_cluster_metadata(files, folder)
        except CorruptRecordError as error:
            _LOGGER.warning("the topics' settings cannot be read: %s", error)
            continue
        for name in missing:
            if name in metadata.topic_ids:
                found.setdefault(name, metadata.settings.get(name, {}))
    return found


def settings_of_exports(files: Files, paths: Sequence[str]) -> dict[str, Settings]:
    """The settings that exports have saved beside their Parquet files, by topic."""
    found: dict[str, Settings] = {}
    for path in paths:
        root = path
        # The path may also be a directory or a file below an export's target.
        while files.kind(os.path.join(root, FOLDER)) is None and os.path.dirname(root) != root:
            if not (root == path or "=" in os.path.basename(root)):
                break
            root = os.path.dirname(root)
        for name, settings in read_settings(files, root).items():
            found.setdefault(name, settings)
    return found


def create_topics(
    store: Store,
    counts: Mapping[str, int],
    settings: Mapping[str, Settings],
    given: Settings,
) -> None:
    """Create the missing topics with the source's settings; ``given`` overrides them.

    An existing topic keeps its settings, and the differences are logged. Raises InvalidConfigError
    if it has too few partitions, or for an invalid setting.
    """
    for name, count in counts.items():
        known = settings.get(name)
        config = None if known is None and not given else _config(name, known or {}, given)
        if name not in store:
            if known is None:
                _LOGGER.warning(
                    "the source has no settings of %s: the topic is created with %s",
                    name,
                    "the given settings" if given else "the defaults",
                )
            store.create_topic(name, count, config=config)
        elif len(store[name]) < count:
            raise InvalidConfigError(
                f"{name} has {count_of(len(store[name]), 'partition')}, but {count} are to be "
                "restored"
            )
        elif config is not None and (different := _differences(store[name].config, config)):
            _LOGGER.warning("%s exists already and keeps its settings: %s", name, different)


def _config(name: str, known: Settings, given: Settings) -> LogConfig:
    unknown = sorted(known.keys() - _KNOWN)
    if unknown:
        _LOGGER.warning(
            "%s: settings that kstore does not have are ignored: %s", name, ", ".join(unknown)
        )
    config = LogConfig.from_properties({key: known[key] for key in known if key in _KNOWN})
    config = config.with_properties(given)
    if config.message_magic != 2:  # a restore writes record batches v2
        config = replace(config, message_format_version=LogConfig().message_format_version)
    return config


def _differences(target: LogConfig, source: LogConfig) -> str:
    return ", ".join(
        f"{field.name.replace('_', '.')}={getattr(target, field.name)}, in the source "
        f"{getattr(source, field.name)}"
        for field in fields(LogConfig)
        if getattr(target, field.name) != getattr(source, field.name)
    )
