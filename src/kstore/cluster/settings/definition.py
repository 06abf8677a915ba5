"""The definition of a setting, and validation of values as in Kafka's ConfigDef.

Settings are listed as text. The first line of each has name, type, default and valid values as
Kafka's ConfigDef prints them; the indented lines after it have the documentation.
"""

import re

from kstore.cluster.metadata import ConfigType
from kstore.config import magic_of
from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass

SettingValue = bool | int | float | str | list[str] | None

_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 20
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LINE = re.compile(r"(?P<name>\S+) (?P<type>[A-Z]+) (?P<default>\"[^\"]*\"|\S+) ?(?P<valid>.*)")
_RANGE = re.compile(
    r"\[(?P<low>-?[0-9.]+),\.\.\.(,(?P<high>-?[0-9.]+))?\]( or (?P<other>-?[0-9]+))?"
)
_REPLICA_LIST = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_VERSION = "version"  # any release of Kafka
_REPLICAS = "replicas"

Fault = tuple[str, str]  # the value as in Kafka's message, and why it is invalid


@lazy_dataclass(frozen=True)
class Setting:
    """A setting's definition; ``default`` is text as Kafka prints it, None if there is none."""

    name: str
    type: ConfigType
    default: str | None
    valid: str
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest valid integer."""
        bits = _BITS[self.type]
        found = _RANGE.fullmatch(self.valid)
        low = -(1 << bits) if found is None else int(found["low"])
        high = None if found is None else found["high"]
        return low, (1 << bits) - 1 if high is None else int(high)

    def parse(self, text: str) -> SettingValue:
        """Parse a value. Raises InvalidConfigError with Kafka's message."""
        value = self._convert(text)
        fault = _check(value, self.valid, self.name)
        if fault is not None:
            raise self._error(*fault)
        return value

    def normal(self, text: str) -> str:
        """Normalize a valid text as Kafka does: trim spaces around values, ``TRUE`` to ``true``."""
        return _java_text(self.parse(text))

    def _convert(self, text: str) -> SettingValue:
        text = text.strip()
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._error(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type in _BITS:
            limit = 1 << _BITS[self.type]
            is_number = _INTEGER.fullmatch(text) is not None and len(text) <= _MAX_DIGITS
            if not is_number or not -limit <= int(text) < limit:
                raise self._error(text, f"Not a number of type {self.type.name}")
            return int(text)
        if self.type is ConfigType.DOUBLE:
            if _FLOAT.fullmatch(text) is None:
                raise self._error(text, "Not a number of type DOUBLE")
            return float(text)
        if self.type is ConfigType.LIST:
            return re.split(r"\s*,\s*", text) if text else []
        return text

    def _error(self, value: str, fault: str) -> InvalidConfigError:
        return InvalidConfigError(f"Invalid value {value} for configuration {self.name}: {fault}")


def _java_text(value: SettingValue) -> str:
    """Format a value as Kafka's ConfigDef does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return "" if value is None else str(value)


def _check(value: SettingValue, valid: str, name: str) -> Fault | None:
    """Check a value against Kafka's description of the valid values."""
    if not valid:
        return None
    if valid == _VERSION:
        return _check_version(str(value))
    if valid == _REPLICAS:
        return _check_throttled(value if isinstance(value, list) else [], name)
    if (found := _RANGE.fullmatch(valid)) is not None:
        return _check_range(value, found["low"], found["high"], found["other"])
    choices = valid[1:-1].split(", ")
    for each in value if isinstance(value, list) else [value]:
        if each not in choices:
            return str(each), f"String must be one of: {', '.join(choices)}"
    return None


def _check_range(
    value: SettingValue, low: str, high: str | None, other: str | None
) -> Fault | None:
    assert isinstance(value, int | float)
    is_low = value < float(low)
    is_high = high is not None and value > float(high)
    if other is not None:
        if (is_low or is_high) and value != float(other):
            return str(value), f"Value must be between {low} and {high} or equal to {other}"
    elif is_low:
        return str(value), f"Value must be at least {low}"
    elif is_high:
        return str(value), f"Value must be no more than {high}"
    return None


def _check_version(text: str) -> Fault | None:
    """Any release of Kafka up to 4.0 (MetadataVersionValidator)."""
    if re.fullmatch(r"4\.0(-IV[01])?", text) is not None:
        return None
    try:
        magic_of(text)
    except InvalidConfigError:
        return text, f"Version {text} is not a valid version"
    return None


def _check_throttled(replicas: list[str], name: str) -> Fault | None:
    """Kafka's ThrottledReplicaListValidator."""
    if replicas == ["*"] or all(re.fullmatch(r"[0-9]+:[0-9]+", each) for each in replicas):
        return None
    return (
        f"[{', '.join(replicas)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        f"{_REPLICA_LIST}",
    )


def parse_settings(text: str) -> dict[str, Setting]:
    """Parse a list of settings; by name, in the order of the text."""
    settings: dict[str, Setting] = {}
    lines: list[str] = []

    def finish() -> None:
        if lines:
            match = _LINE.fullmatch(lines[0])
            if match is None:
                raise ValueError(f"not a setting: {lines[0]!r}")
            default = match["default"]
            settings[match["name"]] = Setting(
                match["name"],
                ConfigType[match["type"]],
                None if default == "null" else default.strip('"'),
                match["valid"],
                " ".join(line.strip() for line in lines[1:]),
            )

    for line in text.strip("\n").splitlines():
        if not line.startswith(" "):
            finish()
            lines = []
        lines.append(line)
    finish()
    return settings
