"""Reads Kafka's ``server.properties``: the keys that this broker honours, ignores or rejects.

:func:`handling_of` is the single source; the guide's page about the file is generated from it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kstore.broker.settings import BrokerSettings
from kstore.cluster.engine_config import KNOWN_TO_ENGINE
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.cluster.settings.topic_settings import BROKER_SYNONYMS
from kstore.cluster.store_settings import STORE_SETTINGS
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.lazy_dataclass import lazy_dataclass
from kstore.security.security_settings import is_security_setting

# SECURITY: kstore.security.security_settings honours the key, or rejects values other than Kafka's
# default.
HONOURED, SECURITY, IGNORED, REFUSED = "honoured", "security", "ignored", "refused"
_LOG_DIRS, _LOG_DIR = "log.dirs", "log.dir"
_NODE_IDS = ("node.id", "broker.id")
_PROCESS_ROLES = "process.roles"
_OWN = frozenset(BrokerSettings().to_properties())
# Not among BrokerSettings: the broker and the handlers of groups read them as text.
_READ_AS_TEXT = frozenset(("broker.rack", "group.coordinator.rebalance.protocols"))
_OF_TOPICS = frozenset(
    name
    for setting in (
        *KNOWN_TO_ENGINE,
        "message.timestamp.difference.max.ms",
        "message.downconversion.enable",
    )
    for name, _ in BROKER_SYNONYMS.get(setting, ())
)
_OF_THE_FILE = frozenset((_LOG_DIRS, _LOG_DIR, *_NODE_IDS, _PROCESS_ROLES))
_HONOURED = _OWN | _READ_AS_TEXT | _OF_TOPICS | _OF_THE_FILE | frozenset(STORE_SETTINGS)
_JAVA = "it needs a Java class that decides what clients may do; remove it to run without that"
# Keys that are rejected unless they have this value, because the broker cannot do without what they
# configure.
REFUSED_UNLESS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "alter.config.policy.class.name": ("", _JAVA),
        "client.quota.callback.class": ("", _JAVA),
        "create.topic.policy.class.name": ("", _JAVA),
        "remote.log.storage.system.enable": (
            "false",
            "consumers could not read the older segments in remote storage",
        ),
        "max.connection.creation.rate": (
            str(INT32_MAX),
            "set a quota of addresses instead: kstore configs --alter --entity-type ips "
            "--entity-default --add-config connection_creation_rate=N",
        ),
    }
)


@lazy_dataclass(frozen=True, kw_only=True)
class ServerProperties:
    """The contents of a file: log directories, node id, and broker settings.

    ``ignored`` lists the keys without effect, in file order.
    """

    log_dirs: tuple[str, ...]
    node_id: int | None
    settings: Mapping[str, str]
    ignored: tuple[str, ...]


def handling_of(name: str) -> str:
    """How a key is handled: HONOURED, SECURITY, IGNORED (also an unknown one), or REFUSED."""
    if name in REFUSED_UNLESS:
        return REFUSED
    if name in _HONOURED:
        return HONOURED
    if is_security_setting(name):
        return SECURITY
    return HONOURED if name.startswith("kstore.") else IGNORED


def read_server_properties(properties: Mapping[str, str]) -> ServerProperties:
    """Classify the keys of a file. The broker's constructor validates the values.

    Raises InvalidConfigError for a rejected key, an invalid node id, and a controller-only node.
    """
    settings, ignored = {}, []
    for name, value in properties.items():
        handling = handling_of(name)
        if handling == REFUSED:
            harmless, reason = REFUSED_UNLESS[name]
            if value.strip().lower() not in (harmless, "", "null"):
                raise InvalidConfigError(f"{name}={value[:80]} is not supported: {reason}")
            ignored.append(name)
        elif handling == IGNORED:
            ignored.append(name)
        elif name not in _OF_THE_FILE:
            settings[name] = value
    _check_roles(properties.get(_PROCESS_ROLES, ""))
    # As in Kafka, log.dirs takes precedence over log.dir.
    text = properties.get(_LOG_DIRS, "").strip() or properties.get(_LOG_DIR, "")
    return ServerProperties(
        log_dirs=tuple(each.strip() for each in text.split(",") if each.strip()),
        node_id=_node_id(properties),
        settings=settings,
        ignored=tuple(ignored),
    )


def _check_roles(text: str) -> None:
    roles = {each.strip() for each in text.split(",") if each.strip()}
    if roles and "broker" not in roles:
        raise InvalidConfigError(
            f"process.roles={text.strip()} configures a controller; kstore runs brokers only"
        )


def _node_id(properties: Mapping[str, str]) -> int | None:
    """The first of node.id and broker.id; None for -1, with which Kafka generates one."""
    for name in _NODE_IDS:
        text = properties.get(name, "").strip()
        if text and text != "-1":
            return parse_whole_number(text, 0, INT32_MAX, name=name)
    return None


def documented_keys() -> list[str]:
    """All keys that Kafka 3.9's brokers describe, and kstore's own, sorted."""
    return sorted({*BROKER_SETTINGS, *_OWN, *_OF_THE_FILE})
