"""``kstore.broker``: the state that a broker keeps besides the topics.

The file is JSON with a format version::

    {"format": 1, "generation": 7, "cluster_id": "...", "served_since": 1700000000000,
     "config": {"log.retention.ms": "1000"}, "default_config": {},
     "groups": {"billing": {"consumer.session.timeout.ms": "50000"}},
     "topics": {"orders": {"id": "...", "adopted": true, "config": {"min.insync.replicas": "2"}}},
     "client_quotas": [{"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1024.0}}]}

``served_since`` is when a broker first served the directory, in Unix ms; a file without it gets it
at the next start. ``config`` has settings that were changed while the broker ran;
``default_config`` those changed for all brokers. ``groups`` has those of consumer groups; a file
without it has none. A topic's ``config`` has only what
``kstore.topics`` cannot keep. Its ``id`` is the topic's id, or its creation stamp: an entry of an
earlier topic of the same name does not count. An entity's name is null for the default of its
type.

Every log directory of a store has the same file (:mod:`kstore.checkpoint.state_file`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.state_file import StateDocument, StateFile
from kstore.clock import now_ms
from kstore.cluster.client_quotas import ClientQuotas, from_json, to_json
from kstore.errors import CorruptFileError
from kstore.files.filenames import BROKER_FILE
from kstore.kafka_uuid import random_uuid
from kstore.lazy_dataclass import lazy_dataclass

_FILE = StateFile(BROKER_FILE, newest_format=1)


@lazy_dataclass(frozen=True)
class TopicRecord:
    """The broker's state of a topic; ``identity`` is the topic's id or creation stamp."""

    identity: str
    is_adopted: bool = False
    config: Mapping[str, str] = field(default_factory=dict)


@lazy_dataclass(frozen=True)
class BrokerState:
    """The content of the file."""

    cluster_id: str
    config: Mapping[str, str] = field(default_factory=dict)
    default_config: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)
    generation: int = 0
    served_since: int = 0
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)

    def with_topic(self, name: str, record: TopicRecord | None) -> "BrokerState":
        """A copy in which a topic has this record; None removes the topic."""
        topics = dict(self.topics)
        if record is None:
            topics.pop(name, None)
        else:
            topics[name] = record
        return replace(self, topics=topics)


def read_broker_file(log_dirs: Iterable[LogDir]) -> BrokerState | None:
    """Read the newest file of the online directories; None if none has one.

    Raises NewerFormatError for a file written by a newer kstore, CorruptFileError for an invalid
    file.
    """
    return _FILE.read_newest(log_dirs, _parse)[1]


def open_broker_file(log_dirs: Iterable[LogDir], cluster_id: str | None) -> BrokerState:
    """Read the file, or create it at the first start of a broker.

    ``cluster_id``: of ``meta.properties``; None: a new file gets a random one. Errors are those of
    reading and writing.
    """
    found = read_broker_file(log_dirs) or BrokerState(cluster_id or random_uuid())
    if not found.served_since:
        found = write_broker_file(log_dirs, replace(found, served_since=now_ms()))
    return found


def write_broker_file(log_dirs: Iterable[LogDir], state: BrokerState) -> BrokerState:
    """Replace the file atomically in each online directory.

    Returns the written state. Raises StorageError if all directories fail.
    """
    state = replace(state, generation=state.generation + 1)
    _FILE.write(log_dirs, state.generation, _to_json(state))
    return state


def _to_json(state: BrokerState) -> dict[str, object]:
    return {
        "cluster_id": state.cluster_id,
        "served_since": state.served_since,
        "config": dict(state.config),
        "default_config": dict(state.default_config),
        "groups": {name: dict(config) for name, config in state.groups.items()},
        "topics": {
            name: {"id": record.identity, "adopted": record.is_adopted}
            | ({"config": dict(record.config)} if record.config else {})
            for name, record in state.topics.items()
        },
        "client_quotas": to_json(state.client_quotas),
    }


def _parse(found: StateDocument) -> BrokerState:
    document, path = found.body, found.path
    return BrokerState(
        cluster_id=_FILE.value(document, "cluster_id", str, path),
        config=_texts(document, "config", path),
        default_config=_texts(document, "default_config", path),
        topics={
            name: TopicRecord(
                _FILE.value(body, "id", str, path),
                _FILE.value(body, "adopted", bool, path),
                _texts(body, "config", path),
            )
            for name, body in _FILE.value(document, "topics", dict, path).items()
        },
        generation=found.generation,
        served_since=_FILE.value(document, "served_since", int, path, default=0),
        groups={
            name: _texts(groups, name, path)
            for groups in [_FILE.value(document, "groups", dict, path, default={})]
            for name in groups
        },
        client_quotas=_quotas(document.get("client_quotas", []), path),
    )


def _quotas(found: object, path: str) -> ClientQuotas:
    try:
        return from_json(found)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise CorruptFileError(
            f"{BROKER_FILE}: 'client_quotas' must be entities with their values", path=path
        ) from None


def _texts(body: object, name: str, path: str) -> dict[str, str]:
    found = body.get(name, {}) if isinstance(body, dict) else None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise CorruptFileError(f"{BROKER_FILE}: {name!r} must be settings as text", path=path)
    return found
