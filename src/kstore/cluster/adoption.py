"""Adopts existing topics into a broker, with the settings that they had in Kafka.

The settings come from the metadata log of a KRaft node or from a JSON file. A topic is adopted only
once, so later changes are kept. An adopted topic's retention and cleaning follow the broker's
defaults unless set, so ``report_adoption`` reports in advance what would be deleted.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from kstore.cluster.broker_file import read_broker_file
from kstore.cluster.config_changes import check_topic_config
from kstore.cluster.local_image import topic_image
from kstore.cluster.node_identity import find_node_identity
from kstore.cluster.settings.layers import BrokerConfig
from kstore.cluster.settings.topic_settings import BROKER_SYNONYMS
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.errors import CorruptFileError, InvalidConfigError
from kstore.files.filenames import CLUSTER_METADATA
from kstore.files.files import DISK, Files
from kstore.lazy_dataclass import lazy_dataclass
from kstore.store.cluster_metadata import read_cluster_metadata

if TYPE_CHECKING:
    from kstore.cluster.local_metadata import LocalMetadata
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
_MAX_SIZE = 1 << 26


@lazy_dataclass(frozen=True)
class SourceTopic:
    """A topic in the source; ``topic_id`` is None in a JSON file, which has only names."""

    config: Mapping[str, str]
    topic_id: str | None = None


@lazy_dataclass(frozen=True)
class Source:
    """Topics by name, and ``broker_settings`` by node id as text ("": all brokers)."""

    path: str
    topics: Mapping[str, SourceTopic]
    broker_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_metadata_log: bool = False


@lazy_dataclass(frozen=True)
class PlannedTopic:
    """The plan for a topic: the ``config`` it gets, or ``refusal``, the reason for not adopting
    it."""

    name: str
    config: Mapping[str, str]
    refusal: str | None = None


def read_source(path: str | os.PathLike[str], files: Files = DISK) -> Source:
    """Read topic settings from a metadata log or a file; changes nothing.

    ``path`` is a directory with ``__cluster_metadata-0``, that folder itself, or a JSON file
    ``{"orders": {"retention.ms": "604800000"}, "audit": {}}``.

    Raises InvalidConfigError for a directory without a metadata log, CorruptFileError,
    CorruptRecordError, StorageError.
    """
    path = os.path.abspath(path)
    if files.kind(path) != "directory":
        return _read_file(path, files)
    folder = path
    if os.path.basename(path) != CLUSTER_METADATA:
        folder = os.path.join(path, CLUSTER_METADATA)
    if files.kind(folder) != "directory":
        raise InvalidConfigError(
            f"{path} has no {CLUSTER_METADATA}: give the metadata.log.dir of a KRaft broker, or a "
            "JSON file with the settings of topics"
        )
    found = read_cluster_metadata(files, folder)
    topics = {
        name: SourceTopic(found.settings.get(name, {}), topic_id)
        for name, topic_id in found.topic_ids.items()
    }
    return Source(path, topics, found.broker_settings, is_metadata_log=True)


def _read_file(path: str, files: Files) -> Source:
    try:
        document = json.loads(files.read(path, _MAX_SIZE))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"the topic settings are not valid JSON: {error}", path=path
        ) from None
    if not isinstance(document, dict):
        raise CorruptFileError(
            "the topic settings must be a JSON object with a member for each topic", path=path
        )
    return Source(
        path, {name: SourceTopic(_settings(name, body, path)) for name, body in document.items()}
    )


def _settings(topic: str, body: object, path: str) -> dict[str, str]:
    if not isinstance(body, dict):
        raise CorruptFileError(f"topic {topic!r}: the settings must be a JSON object", path=path)
    config = {}
    for name, value in body.items():
        if not isinstance(value, str | int | float):
            raise CorruptFileError(
                f"topic {topic!r}: {name} must be a string, number or boolean", path=path
            )
        config[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return config


def plan_adoption(store: "Store", source: Source, broker: BrokerConfig) -> list[PlannedTopic]:
    """The plan for each topic of the source, sorted by name; changes nothing.

    Topics of a metadata log that are not in the store are skipped. A topic keeps its own settings
    in kstore unless the source sets them. Raises InvalidConfigError for a file that names an
    unknown topic, and for an invalid setting.
    """
    state = read_broker_file(store._manager._dirs)
    node_id = find_node_identity(store._manager._dirs, None).node_id
    pinned = _broker_settings(source, node_id)
    planned = []
    for name, wanted in sorted(source.topics.items()):
        if name not in store:
            if source.is_metadata_log:
                continue
            raise InvalidConfigError(f"{source.path}: the store has no topic {name!r}")
        record = None if state is None else state.topics.get(name)
        identities = store._manager.identities
        if record is not None and not identities.is_same(name, record.identity):
            record = None
        image = topic_image(store, name, node_id, record)
        present = {} if image is None else image.config
        if "cleanup.policy" not in present:  # what the broker sets once it serves the directory
            present = {**OWNED_TOPICS.get(name, {}), **present}
        config = {**present, **pinned, **wanted.config}
        refusal = None
        if image is None or image.is_adopted:
            refusal = "it already follows the broker's settings"
        elif source.is_metadata_log and identities.find(name).topic_id != wanted.topic_id:
            refusal = f"it is a different topic than the source's, whose id is {wanted.topic_id}"
        else:
            try:
                config = check_topic_config(config, broker.topic_default)
            except InvalidConfigError as error:
                if not source.is_metadata_log:
                    raise InvalidConfigError(f"{source.path}: {name}: {error.reason}") from None
                refusal = error.reason
        planned.append(PlannedTopic(name, config, refusal))
    return planned


def _broker_settings(source: Source, node_id: int) -> dict[str, str]:
    """The dynamic broker settings of the source's cluster, as topic settings.

    Without them, a topic that such a setting kept from deletion would get this broker's default.
    """
    for_all = source.broker_settings.get("", {})
    own = source.broker_settings.get(str(node_id), {})
    broker = BrokerConfig(dynamic_default=for_all, dynamic=own)
    return {
        name: broker.topic_default(name)
        for name, synonyms in BROKER_SYNONYMS.items()
        if any(each in for_all or each in own for each, _ in synonyms)
    }


def adopt_topics(store: "Store", metadata: "LocalMetadata", source: Source) -> None:
    """Adopt the topics of a source; check all before changing the first.

    Raises the errors of :func:`plan_adoption` and :meth:`LocalMetadata.adopt`.
    """
    for topic in plan_adoption(store, source, metadata.broker_config):
        if topic.refusal is None:
            metadata.adopt(topic.name, topic.config)
            _LOGGER.info("topic %s: adopted, with %s", topic.name, dict(topic.config))
        elif not metadata.image.topics[topic.name].is_adopted:
            _LOGGER.warning("topic %s is not adopted: %s", topic.name, topic.refusal)
