"""Settings of a group's member on a command line, by their names in Kafka's consumers."""

from collections.abc import Mapping, Sequence
from typing import Any

from kstore.cli.client_properties import report_without_effect
from kstore.cli.common import WrongOptionsError
from kstore.config import parse_whole_number
from kstore.integers import INT32_MAX

GROUP_SETTINGS = (
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
# Kafka 3.9 ignores them in groups of KIP-848, and Kafka 4 refuses them there.
_OF_CLASSIC = ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms")
_NUMBERS = {
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "rebalance_timeout_ms",
    "session.timeout.ms": "session_timeout_ms",
}
_DEFAULTS = {"heartbeat.interval.ms": 3_000, "session.timeout.ms": 45_000}
_PACKAGE = "org.apache.kafka.clients.consumer."
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def member_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments of RemoteStore.group_consumer; settings of other names are ignored.

    Names on standard error those that a group of KIP-848 does not have. Raises WrongOptionsError,
    and InvalidConfigError for what is not a number.
    """
    given = dict(given)
    protocol = given.get("group.protocol", "classic").lower()
    if protocol == "consumer":
        if unused := [name for name in _OF_CLASSIC if given.pop(name, None) is not None]:
            report_without_effect(unused, "group.protocol is consumer")
    elif protocol != "classic":
        raise WrongOptionsError(
            f"Invalid value {given['group.protocol'][:40]} for configuration group.protocol: "
            "String must be one of (case insensitive): CONSUMER, CLASSIC"
        )
    elif "group.remote.assignor" in given:
        raise WrongOptionsError("group.remote.assignor cannot be set when group.protocol=CLASSIC")
    options: dict[str, Any] = {"group_protocol": protocol}
    numbers = dict(_DEFAULTS)
    for name, option in _NUMBERS.items():
        if name in given:
            numbers[name] = parse_whole_number(given[name], 1, INT32_MAX, name=name)
            options[option] = numbers[name]
    if numbers["heartbeat.interval.ms"] >= numbers["session.timeout.ms"]:
        raise WrongOptionsError("Heartbeat must be set lower than the session timeout")
    if given.get("group.instance.id"):
        options["group_instance_id"] = given["group.instance.id"]
    if given.get("group.remote.assignor"):
        options["remote_assignor"] = given["group.remote.assignor"]
    if "partition.assignment.strategy" in given:
        options["assignors"] = assignors(given["partition.assignment.strategy"])
    return options


def assignors(text: str) -> Sequence[str]:
    """The assignors of the classic protocol in a list of Kafka's classes, with or without the
    package, or of their names. Raises WrongOptionsError."""
    names = [name.strip().removeprefix(_PACKAGE) for name in text.split(",")]
    for name in names:
        if name not in _ASSIGNORS and name not in _ASSIGNORS.values():
            known = ", ".join(_ASSIGNORS)
            raise WrongOptionsError(
                f"kstore runs no Java classes; it has its own {known}, not {name[:80]!r}"
            )
    return list(dict.fromkeys(_ASSIGNORS.get(name, name) for name in names))
