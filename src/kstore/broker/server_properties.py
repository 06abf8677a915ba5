"""Kafka's ``server.properties``: which keys this broker honours, ignores and refuses.

:func:`handling_of` is the one table: the page of the guide about the file is made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kstore.broker.settings import BrokerSettings
from kstore.cluster.effective_config import KNOWN_TO_ENGINE
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.cluster.settings.topic_settings import BROKER_SYNONYMS
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.security.security_settings import is_security_setting

# SECURITY: honoured, or refused unless it has Kafka's default, by the settings of security.
HONOURED, SECURITY, IGNORED, REFUSED = "honoured", "security", "ignored", "refused"
_LOG_DIRS, _LOG_DIR = "log.dirs", "log.dir"
_NODE_IDS = ("node.id", "broker.id")
_PROCESS_ROLES = "process.roles"
_OWN = frozenset(BrokerSettings().to_properties())
# Not one of its settings: the handlers of groups read it.
_OF_GROUPS = frozenset(("group.coordinator.rebalance.protocols",))
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
_JAVA = "it runs a Java class, which decides what clients may do; leave it out if it may be absent"
# Keys that stop the start unless they have this value: what they ask for must not be absent.
REFUSED_UNLESS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "alter.config.policy.class.name": ("", _JAVA),
        "client.quota.callback.class": ("", _JAVA),
        "create.topic.policy.class.name": ("", _JAVA),
        "remote.log.storage.system.enable": (
            "false",
            "older segments in a remote storage would be missing for consumers",
        ),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerProperties:
    """What a file says: the directories, the node id, the settings of the broker.

    ``ignored`` has the keys without effect, in the file's order.
    """

    log_dirs: tuple[str, ...]
    node_id: int | None
    settings: Mapping[str, str]
    ignored: tuple[str, ...]


def handling_of(name: str) -> str:
    """How a key is handled: HONOURED, SECURITY, IGNORED (also an unknown one), or REFUSED."""
    if name in REFUSED_UNLESS:
        return REFUSED
    if name in _OWN or name in _OF_TOPICS or name in _OF_GROUPS or name in _OF_THE_FILE:
        return HONOURED
    if is_security_setting(name):
        return SECURITY
    return HONOURED if name.startswith("kstore.") else IGNORED


def read_server_properties(properties: Mapping[str, str]) -> ServerProperties:
    """Sort the keys of a file; values of settings are checked when the broker is made.

    Raises InvalidConfigError for a key that is refused, a node id that is none, and a node that
    is only a controller.
    """
    settings, ignored = {}, []
    for name, value in properties.items():
        handling = handling_of(name)
        if handling == REFUSED:
            harmless, reason = REFUSED_UNLESS[name]
            if value.strip().lower() not in (harmless, "", "null"):
                raise InvalidConfigError(f"{name}={value[:80]} is refused: {reason}")
            ignored.append(name)
        elif handling == IGNORED:
            ignored.append(name)
        elif name not in _OF_THE_FILE:
            settings[name] = value
    _check_roles(properties.get(_PROCESS_ROLES, ""))
    # As in Kafka, log.dirs counts before log.dir.
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
            f"process.roles={text.strip()} is the file of a controller; kstore serves brokers'"
        )


def _node_id(properties: Mapping[str, str]) -> int | None:
    """The first of node.id and broker.id; None for -1, with which Kafka generates one."""
    for name in _NODE_IDS:
        text = properties.get(name, "").strip()
        if text and text != "-1":
            return parse_whole_number(text, 0, INT32_MAX, name=name)
    return None


def documented_keys() -> list[str]:
    """Every key that Kafka 3.9's brokers describe, and kstore's own, sorted."""
    return sorted({*BROKER_SETTINGS, *_OWN, *_OF_THE_FILE})
