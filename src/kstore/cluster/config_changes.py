"""Applies and validates the changes of IncrementalAlterConfigs and AlterConfigs.

The functions return the resulting, validated settings, or raise an error with Kafka's code and
message (ConfigurationControlManager, ConfigAdminManager, LogConfig.validate of 3.9).
"""

from collections.abc import Callable, Mapping, Sequence

from kstore.cluster.metadata import AlterOp, ConfigChange, ConfigType
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS, find_broker_setting
from kstore.cluster.settings.definition import Setting
from kstore.cluster.settings.group_settings import GROUP_SETTINGS, check_group_config
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.errors import InvalidConfigError, InvalidRequestError

_RETENTIONS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_DUPLICATES = "Error due to duplicate config keys"


def altered_topic_config(
    own: Mapping[str, str],
    changes: Sequence[ConfigChange],
    default: Callable[[str], str],
) -> dict[str, str]:
    """A topic's settings after some changes; ``default`` gives the value of an unset setting."""
    altered = _altered(own, changes, TOPIC_SETTINGS, default)
    return check_topic_config(altered, default)


def altered_broker_config(
    own: Mapping[str, str],
    changes: Sequence[ConfigChange],
    default: Callable[[str], str],
    *,
    for_all: bool = False,
) -> dict[str, str]:
    """The broker's settings after some changes, which may set only dynamic settings.

    ``for_all``: the settings are those of all brokers.
    """
    from kstore.cluster.settings.dynamic_settings import (
        check_dynamic,
        check_for_all,
        is_of_listener,
    )

    for _, name, _ in changes:
        if find_broker_setting(name) is None and not is_of_listener(name):
            raise InvalidConfigError(f"Unknown broker config name: {name}")
    check_dynamic([name for operation, name, _ in changes if operation != AlterOp.DELETE])
    altered = _altered(own, changes, BROKER_SETTINGS, default)
    try:
        checked = check_broker_config(altered)
    except InvalidConfigError as error:  # Kafka's error code for broker settings
        raise InvalidRequestError(error.reason) from None
    if for_all:
        check_for_all(checked)
    return checked


def altered_groups(
    groups: Mapping[str, Mapping[str, str]],
    name: str,
    changes: Sequence[ConfigChange],
    of_broker: Callable[[str], str],
) -> dict[str, Mapping[str, str]]:
    """The settings of all consumer groups after some changes of one; ``of_broker`` are the
    broker's. Raises InvalidRequestError for a group without a name, InvalidConfigError."""
    if not name:
        raise InvalidRequestError("Default group resources are not allowed.")
    altered = _altered(groups.get(name, {}), changes, GROUP_SETTINGS, lambda _: "")
    checked = check_group_config(altered, of_broker)
    others = {each: config for each, config in groups.items() if each != name}
    return others | ({name: checked} if checked else {})


def replacing(config: Mapping[str, str | None], own: Mapping[str, str]) -> list[ConfigChange]:
    """Convert AlterConfigs to changes, which remove settings that are not in ``config``."""
    for name, value in config.items():
        if value is None:
            raise InvalidRequestError(f"Null value not supported for : {name}")
    removed: list[ConfigChange] = [
        (AlterOp.DELETE, name, None) for name in own if name not in config
    ]
    return [*removed, *((AlterOp.SET, name, value) for name, value in config.items())]


def _altered(
    own: Mapping[str, str],
    changes: Sequence[ConfigChange],
    settings: Mapping[str, Setting],
    default: Callable[[str], str],
) -> dict[str, str]:
    names = [name for _, name, _ in changes]
    if len(set(names)) < len(names):
        raise InvalidRequestError(_DUPLICATES)
    nulls = [name for op, name, value in changes if value is None and op != AlterOp.DELETE]
    if nulls:
        raise InvalidRequestError(f"Null value not supported for : {','.join(nulls)}")
    altered = dict(own)
    for op, name, value in changes:
        if op == AlterOp.DELETE:
            altered.pop(name, None)
        elif op == AlterOp.SET:
            altered[name] = value or ""
        elif op in (AlterOp.APPEND, AlterOp.SUBTRACT):
            altered[name] = _changed_list(
                AlterOp(op), name, value or "", altered, settings, default
            )
        else:
            raise InvalidRequestError(f"Unknown operation type {op} for config {name}")
    return altered


def _changed_list(
    op: AlterOp,
    name: str,
    value: str,
    own: Mapping[str, str],
    settings: Mapping[str, Setting],
    default: Callable[[str], str],
) -> str:
    setting = settings.get(name)
    if setting is None or setting.type is not ConfigType.LIST:
        raise InvalidConfigError(f"Can't {op.name} to key {name} because its type is not LIST.")
    present = own.get(name, default(name))
    values = [each.strip() for each in present.split(",") if each.strip()]
    for each in filter(None, (each.strip() for each in value.split(","))):
        if op == AlterOp.APPEND and each not in values:
            values.append(each)
        elif op == AlterOp.SUBTRACT and each in values:
            values.remove(each)
    return ",".join(values)


def check_topic_config(
    config: Mapping[str, str | None], default: Callable[[str], str]
) -> dict[str, str]:
    """Validate a topic's settings, and return them in Kafka's form. Raises InvalidConfigError."""
    for name in config:
        if name not in TOPIC_SETTINGS:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
    checked = {name: value for name, value in config.items() if value is not None}
    for name, setting in TOPIC_SETTINGS.items():  # in Kafka's order of checks
        if name in checked:
            checked[name] = setting.normal(checked[name])
    low = int(checked.get("min.compaction.lag.ms", default("min.compaction.lag.ms")))
    high = int(checked.get("max.compaction.lag.ms", default("max.compaction.lag.ms")))
    if low > high:
        raise InvalidConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})"
        )
    if checked.get("remote.storage.enable") == "true":
        raise InvalidConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    return checked


def check_broker_config(config: Mapping[str, object]) -> dict[str, str]:
    """Validate a broker's settings by Kafka's names. Raises InvalidConfigError."""
    checked = {}
    for name, value in config.items():
        setting = find_broker_setting(name)
        if setting is None:
            raise InvalidConfigError(f"Unknown broker config name: {name}")
        checked[name] = setting.normal(str(value))
        if name in _RETENTIONS and int(checked[name]) < 1 and int(checked[name]) != -1:
            raise InvalidConfigError(
                f"requirement failed: {name} must be unlimited (-1) or, greater than or equal to 1"
            )
    return checked
