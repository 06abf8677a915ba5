"""What a broker of kstore has beside the logs, as commands for Kafka's tools.

Settings of topics, groups and of the broker that were changed while it ran, access control lists,
SCRAM users and quotas are in files of kstore's own, which a Kafka broker does not read. Passwords
are not stored, so a user gets a new one.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kstore.cluster.adoption_report import deleted_by_retention
from kstore.cluster.broker_file import BrokerState, read_broker_file
from kstore.cluster.client_quotas import CLIENT_ID, IP, USER, ClientQuotas
from kstore.cluster.engine_config import to_log_config
from kstore.cluster.local_image import topic_image
from kstore.cluster.settings.broker_settings import DYNAMIC_BROKER_SETTINGS
from kstore.cluster.settings.layers import BrokerConfig
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.config import LogConfig
from kstore.errors import CorruptFileError, KStoreError, NewerFormatError
from kstore.security.acl import Acl, PatternType, Permission, ResourceType
from kstore.security.acl_store import AclStore
from kstore.security.authorizer import Authorizer
from kstore.security.credentials import Credentials, Users

if TYPE_CHECKING:
    from kstore.handover.report import HandoverReport
    from kstore.partition_files import ClusterMetadata
    from kstore.store.store import Store

T = TypeVar("T")

_SERVER = "--bootstrap-server HOST:PORT"
# What kstore does with a topic without such a setting; Kafka deletes after seven days.
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
_RESOURCES = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_ENTITIES = {USER: "users", CLIENT_ID: "clients", IP: "ips"}


def export_commands(
    store: "Store",
    topics: Iterable[str],
    known: "ClusterMetadata | None",
    report: "HandoverReport",
    *,
    node_id: int | None = None,
) -> None:
    """Add the commands to the report, and a warning for each topic from which the broker's
    retention would delete records that kstore keeps.

    ``known``: the broker's metadata, with the settings that it and its topics have already.
    ``node_id``: the broker's, if it is known.
    """
    state = _read_state(store, report)
    brokers = [_broker_there(known, node_id)]
    for topic in dict.fromkeys(topics):
        there = {} if known is None else known.settings.get(topic, {})
        _set_topic(store, topic, there, _KEPT, report)
        loss = _find_loss(store, topic, there, brokers, report)
        if loss:
            report.warn(
                topic,
                f"{loss}, minutes after its start: set the topic's retention before the handover, "
                "by the command below",
            )
    _set_broker(store, state, known, report, node_id)


def export_changes(
    store: "Store",
    topics: Iterable[str],
    known: "ClusterMetadata | None",
    report: "HandoverReport",
    *,
    node_id: int | None,
) -> None:
    """Add the same for a directory of the broker that kstore has served meanwhile.

    Most topics are the broker's own. A command sets what was set in kstore; it disables retention
    only for a topic that would lose records, with the broker's present settings or with those that
    other commands set.
    """
    state = _read_state(store, report)
    brokers = [_broker_there(known, node_id)]
    if state is not None:
        brokers.append(_with_changes(brokers[0], state))
    for topic in dict.fromkeys(topics):
        there = {} if known is None else known.settings.get(topic, {})
        loss = _find_loss(store, topic, there, brokers, report)
        names = _set_topic(store, topic, there, _KEPT if loss else {}, report)
        if loss:
            remedy = "run the command below" if names & _KEPT.keys() else "set its retention.ms"
            report.warn(
                topic,
                f"{loss}, from 30 seconds after its start on: {remedy} before that, or start the "
                "broker with log.initial.task.delay.ms=3600000 until that is done",
            )
    _set_broker(store, state, known, report, node_id)


def _read_state(store: "Store", report: "HandoverReport") -> BrokerState | None:
    dirs = store._manager._dirs
    return _read(report, "settings, quotas and groups", lambda: read_broker_file(dirs))


def _broker_there(known: "ClusterMetadata | None", node_id: int | None) -> BrokerConfig:
    """The broker's dynamic settings; those in its server.properties are unknown."""
    found = {} if known is None else known.broker_settings
    return BrokerConfig(dynamic_default=found.get("", {}), dynamic=found.get(str(node_id), {}))


def _with_changes(there: BrokerConfig, state: BrokerState) -> BrokerConfig:
    """The settings that the broker has after the commands of `_broker_commands`."""
    for_all, own = (
        {key: value for key, value in config.items() if key in DYNAMIC_BROKER_SETTINGS}
        for config in (state.default_config, state.config)
    )
    return BrokerConfig(
        dynamic_default={**there.dynamic_default, **for_all}, dynamic={**there.dynamic, **own}
    )


def _set_topic(
    store: "Store",
    topic: str,
    there: Mapping[str, str],
    kept: Mapping[str, str],
    report: "HandoverReport",
) -> Set[str]:
    """Add the command for a topic, if it needs one; returns the names of the settings in it."""
    settings = _read(report, topic, partial(_settings, store, topic, kept))
    missing = {
        name: value
        for name, value in sorted((settings or {}).items())
        if there.get(name, _default(name)) != value
    }
    if missing:
        report.commands.append(
            f"kafka-configs {_SERVER} --alter --entity-type topics --entity-name {topic} "
            f"--add-config {shlex.quote(','.join(map(_setting, missing.items())))}"
        )
    return missing.keys()


def _set_broker(
    store: "Store",
    state: BrokerState | None,
    known: "ClusterMetadata | None",
    report: "HandoverReport",
    node_id: int | None,
) -> None:
    """Add the commands for all but the topics."""
    dirs = store._manager._dirs
    acls = _read(report, "ACLs", lambda: AclStore(dirs, Authorizer((), allows_everyone=False)).acls)
    report.commands += map(_acl_command, sorted(acls or ()))
    users: Users | None = _read(report, "SCRAM users", lambda: Credentials(dirs).users)
    report.commands += _user_commands(users or {})
    if state is not None:
        set_there = {} if known is None else known.broker_settings
        node = "NODE_ID" if node_id is None else str(node_id)
        report.commands += _broker_commands(state, node, set_there)
        report.commands += _quota_commands(state.client_quotas)
        report.commands += _group_commands(state.groups)


def _read(report: "HandoverReport", what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (CorruptFileError, NewerFormatError) as error:
        report.warn(what, f"not exported as commands: {error}")
        return None


def _settings(store: "Store", topic: str, kept: Mapping[str, str]) -> dict[str, str]:
    """The topic's settings that Kafka has, too, as kstore applies them.

    ``kept``: of a topic that does not follow the broker's, unless it has its own.
    """
    state = read_broker_file(store._manager._dirs)
    record = None if state is None else state.topics.get(topic)
    if record is not None and not store._manager.identities.is_same(topic, record.identity):
        record = None
    image = topic_image(store, topic, 0, record)
    if image is None:
        return {}
    found = dict(image.config) if image.is_adopted else {**kept, **image.config}
    return {name: value for name, value in found.items() if not name.startswith("kstore.")}


def _default(name: str) -> str | None:
    return BrokerConfig({}).topic_default(name) if name in TOPIC_SETTINGS else None


def _setting(pair: tuple[str, str]) -> str:
    name, value = pair
    return f"{name}=[{value}]" if "," in value else f"{name}={value}"


def _find_loss(
    store: "Store",
    topic: str,
    there: Mapping[str, str],
    brokers: Iterable[BrokerConfig],
    report: "HandoverReport",
) -> str:
    """What retention would delete by the topic's settings and one of the brokers', if anything.

    The beginning of a sentence, for the broker that would delete most; "" if none would.
    """
    most, loss = 0, ""
    checked: list[dict[str, str]] = []
    for broker in brokers:
        values = {name: broker.topic_default(name) for name in TOPIC_SETTINGS} | dict(there)
        if values in checked:
            continue
        checked.append(values)
        size = _deleted_bytes(store, topic, to_log_config(values, LogConfig()), report)
        if size > most:
            most = size
            loss = (
                f"the broker's retention (retention.ms={values['retention.ms']}, "
                f"retention.bytes={values['retention.bytes']}) would delete {size:,} bytes that "
                "kstore keeps"
            )
    return loss


def _deleted_bytes(store: "Store", topic: str, config: LogConfig, report: "HandoverReport") -> int:
    size = 0
    for log in store[topic]:
        try:
            size += deleted_by_retention(log, config)[0]
        except KStoreError as error:  # the check of the partition says more
            report.note(log.path, f"what retention would delete is unknown: {error}")
    return size


def _acl_command(acl: Acl) -> str:
    kind = "allow" if acl.permission == Permission.ALLOW else "deny"
    if acl.resource_type == ResourceType.CLUSTER:
        resource = "--cluster"
    else:
        resource = f"{_RESOURCES[acl.resource_type]} {shlex.quote(acl.name)}"
    pattern = " --resource-pattern-type prefixed" if acl.pattern == PatternType.PREFIXED else ""
    operation = acl.operation.name.title().replace("_", "")
    return (
        f"kafka-acls {_SERVER} --add --{kind}-principal {shlex.quote(acl.principal)} "
        f"--{kind}-host {shlex.quote(acl.host)} --operation {operation} {resource}{pattern}"
    )


def _user_commands(users: Users) -> Iterator[str]:
    for name, mechanisms in sorted(users.items()):
        for mechanism, each in sorted(mechanisms.items()):
            value = f"{mechanism}=[iterations={each.iterations},password=NEW_PASSWORD]"
            yield (
                f"kafka-configs {_SERVER} --alter --entity-type users --entity-name "
                f"{shlex.quote(name)} --add-config {shlex.quote(value)}"
            )


def _broker_commands(
    state: BrokerState, node: str, there: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """The settings of all brokers and of this one; Kafka changes only dynamic ones."""
    for name, config, known in (
        ("--entity-default", state.default_config, there.get("", {})),
        (f"--entity-name {node}", state.config, there.get(node, {})),
    ):
        missing = [
            (key, value)
            for key, value in sorted(config.items())
            if key in DYNAMIC_BROKER_SETTINGS and known.get(key) != value
        ]
        if missing:
            yield (
                f"kafka-configs {_SERVER} --alter --entity-type brokers {name} "
                f"--add-config {shlex.quote(','.join(map(_setting, missing)))}"
            )


def _quota_commands(quotas: ClientQuotas) -> Iterator[str]:
    for entity, values in sorted(quotas.limits.items(), key=lambda item: repr(item[0])):
        names = dict(entity)
        words = [
            f"--entity-type {_ENTITIES[kind]} "
            + ("--entity-default" if name is None else f"--entity-name {shlex.quote(name)}")
            for kind in _ENTITIES
            if kind in names
            for name in [names[kind]]
        ]
        limits = ",".join(f"{key}={value}" for key, value in sorted(values.items()))
        yield f"kafka-configs {_SERVER} --alter {' '.join(words)} --add-config {limits}"


def _group_commands(groups: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """For Kafka 4; before, groups have no settings."""
    for name, config in sorted(groups.items()):
        values = ",".join(map(_setting, sorted(config.items())))
        yield (
            f"kafka-configs {_SERVER} --alter --entity-type groups --entity-name "
            f"{shlex.quote(name)} --add-config {values}"
        )
