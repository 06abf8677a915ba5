"""Parses and checks the options of the source: those of Spark's Kafka connector and kstore's own.

Spark passes names in lower case and values as text. For an unknown name the error suggests a
similar one. Options for the clients of a broker (``kafka.*``), except ``kafka.isolation.level``,
have no meaning for files and are ignored with one warning. ``offsets`` parses the JSON of
``startingOffsets``.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kstore.errors import InvalidConfigError
from kstore.hints.close_names import close_names
from kstore.integers import parse_integer
from kstore.partition_files import UNCOMMITTED, check_isolation
from kstore.spark.java_pattern import compile_topic_pattern
from kstore.spark.source.offsets_json import (
    EARLIEST,
    LATEST,
    Offsets,
    TopicPartition,
    parse_offsets,
    parse_partitions,
)
from kstore.spark.source.schema import select_columns

_LOGGER = logging.getLogger("kstore")

# In the spelling of the documentation; names from Spark are compared without case.
SELECTIONS = ("subscribe", "subscribePattern", "assign")
SOURCE_OPTIONS = (
    *SELECTIONS, "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition",
    "maxPartitionBytes",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "failOnDataLoss",
    "includeHeaders", "isolation", "columns", "mode", "badRecordsPath",
)  # fmt: skip
SPARKS_OWN = ("path", "paths", "checkpointLocation")
BROKERS_ONLY = (
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
_PREFIX = "kafka."
_ISOLATION = "kafka.isolation.level"

FAILFAST, PERMISSIVE, DROPMALFORMED = MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
MAX_PARTITION_BYTES = 512 << 20
MAX_TASKS = 100_000  # of a query: each is an object in Python and in the driver's JVM
_INT64_MAX = 2**63 - 1
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30,
          "gb": 1 << 30}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """The offsets or times at which reading begins or ends.

    ``common`` is the value for all partitions. If it is None, ``offsets`` has a value for each
    partition. An offset of -2 is the earliest, -1 the latest.
    """

    offsets: Offsets
    common: int | None = None
    is_time: bool = False
    option: str = ""

    def value_of(self, tp: TopicPartition) -> int:
        """The offset or time for a partition; KeyError if the bound has none."""
        return self.offsets[tp] if self.common is None else self.common

    def is_earliest(self, tp: TopicPartition) -> bool:
        """Whether it is the earliest offset of a partition, not a number or a time."""
        return not self.is_time and self.value_of(tp) == EARLIEST


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a load."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]  # by subscribe
    pattern: str | None
    partitions: tuple[TopicPartition, ...]  # by assign
    starting: Bound
    ending: Bound
    error_if_no_offset: bool
    columns: tuple[str, ...]
    min_partitions: int
    max_records: int | None  # of a task
    max_partition_bytes: int
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    fail_on_data_loss: bool
    isolation: str
    mode: str
    bad_records_path: str | None

    @property
    def skips_damage(self) -> bool:
        return self.mode != FAILFAST


def parse_paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """The log directories of a ``load`` or ``save``; InvalidConfigError without any."""
    paths: tuple[str, ...] = ()
    if "path" in options:
        paths = (options["path"],)
    elif "paths" in options:
        paths = _listed_paths(options["paths"])
    if not paths or not all(paths):
        raise InvalidConfigError(
            "no path: give the log directory, as in "
            'spark.read.format("kstore").option("subscribe", "orders").load("/data/kafka-logs")'
        )
    if any("\0" in path for path in paths):
        raise InvalidConfigError(f"no path has a NUL: {', '.join(map(repr, paths))[:200]}")
    # Made absolute in the driver, because an executor has another working directory.
    return tuple(os.path.abspath(path.removeprefix("file://")) for path in paths)


def _listed_paths(text: str) -> tuple[str, ...]:
    """The paths of ``load([...])``, which Spark passes as JSON."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(path, str) for path in parsed):
        raise InvalidConfigError(
            'paths takes a JSON list of log directories, as ["/data1", "/data2"], not '
            f"{text[:200]!r}; one directory alone is path"
        )
    return tuple(parsed)


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raise InvalidConfigError for an unknown option, and warn about ignored ones."""
    names = {name.lower(): name for name in (*known, *SPARKS_OWN)}
    ignored = {name.lower() for name in BROKERS_ONLY}
    ignored_given = []
    for name in options:
        lower = name.lower()
        if lower in ignored or (lower.startswith(_PREFIX) and lower != _ISOLATION):
            ignored_given.append(name)
        elif lower not in names and lower != _ISOLATION:
            close = close_names(lower, names, 1)
            advice = f"is {names[close[0]]!r} meant?" if close else f"there are {', '.join(known)}"
            raise InvalidConfigError(f"{name!r} is no option of kstore; {advice}")
    if ignored_given:
        _LOGGER.warning(
            "ignored options, which are for clients of a broker: %s",
            ", ".join(sorted(ignored_given)),
        )


def parse_source(options: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Parse the options of a load; InvalidConfigError says what to write instead."""
    given = {name.lower(): value for name, value in options.items()}
    topics, pattern, partitions = _selection(given)
    isolation = given.get("isolation", given.get(_ISOLATION, UNCOMMITTED))
    check_isolation(isolation)
    strategy = _choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    max_offsets = _integer(given, "maxOffsetsPerTrigger", None, 1)
    min_offsets = _integer(given, "minOffsetsPerTrigger", None, 1)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise InvalidConfigError(
            f"minOffsetsPerTrigger, {min_offsets}, is above maxOffsetsPerTrigger, {max_offsets}"
        )
    mode = _choice(given, "mode", MODES, FAILFAST)
    if mode == FAILFAST and "badrecordspath" in given:
        raise InvalidConfigError(
            "badRecordsPath has no effect with mode=FAILFAST (the default), where the first "
            "corrupt batch ends the query: set mode to PERMISSIVE, or omit badRecordsPath"
        )
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name.lower() in given:
                raise InvalidConfigError(f"{name} is for batch queries: a stream has no end")
    return SourceOptions(
        paths=parse_paths(given),
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        starting=_bound(given, "starting", LATEST if streaming else EARLIEST, streaming),
        ending=_bound(given, "ending", LATEST, streaming),
        error_if_no_offset=strategy == "error",
        columns=select_columns(given.get("columns"), _flag(given, "includeHeaders", False)),
        min_partitions=_integer(given, "minPartitions", 0, 1, MAX_TASKS) or 0,
        max_records=_integer(given, "maxRecordsPerPartition", None, 1),
        max_partition_bytes=_size(given, "maxPartitionBytes", MAX_PARTITION_BYTES),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=_duration(given, "maxTriggerDelay", 15 * 60_000),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        isolation=isolation,
        mode=mode,
        bad_records_path=given.get("badrecordspath"),
    )


def _selection(
    given: Mapping[str, str],
) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    chosen = [name for name in SELECTIONS if name.lower() in given]
    if len(chosen) != 1:
        raise InvalidConfigError(
            f"set one of {', '.join(SELECTIONS)}"
            + (f", not {' and '.join(chosen)}" if chosen else " to select topics")
        )
    text = given[chosen[0].lower()]
    if chosen[0] == "assign":
        return (), None, parse_partitions(text, "assign")
    if chosen[0] == "subscribePattern":
        try:
            compile_topic_pattern(text)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"subscribePattern: {error.reason}") from None
        return (), text, ()
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise InvalidConfigError("subscribe names no topic")
    return topics, None, ()


def _bound(given: Mapping[str, str], side: str, default: int, streaming: bool) -> Bound:
    """The starting or ending bound. As in the connector, a time for all partitions takes precedence
    over times by partition, and those over offsets."""
    for_all, by_partition = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    by_offset = f"{side}Offsets"
    if for_all.lower() in given:
        return Bound({}, _integer(given, for_all, None, 0), True, for_all)
    if by_partition.lower() in given:
        times = parse_offsets(given[by_partition.lower()], by_partition)
        if any(time < 0 for time in times.values()):
            raise InvalidConfigError(f"{by_partition} takes milliseconds since 1970, not below 0")
        return Bound(times, None, True, by_partition)
    text = given.get(by_offset.lower(), "").strip()
    names = {"earliest": EARLIEST, "latest": LATEST}
    excluded = None if streaming else LATEST if side == "starting" else EARLIEST
    if not text.startswith("{"):
        offset = names.get(text.lower()) if text else default
        if offset is None or offset == excluded:
            allowed = [f"'{name}'" for name, value in names.items() if value != excluded]
            raise InvalidConfigError(
                f"{by_offset} is {' or '.join(allowed)} or JSON such as "
                f'{{"orders": {{"0": 23}}}}, not {text!r}'
            )
        return Bound({}, offset, False, by_offset)
    offsets = parse_offsets(text, by_offset)
    for (topic, partition), offset in offsets.items():
        if offset == excluded:
            raise InvalidConfigError(
                f"{by_offset} of a batch query: {offset} for {topic}-{partition} "
                + ("(latest) leaves nothing to read" if offset == LATEST else "(earliest) is empty")
            )
    return Bound(offsets, None, False, by_offset)


def _integer(
    given: Mapping[str, str], name: str, default: int | None, low: int, high: int = _INT64_MAX
) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        value = parse_integer(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        limits = f"of at least {low}" if high == _INT64_MAX else f"from {low} to {high}"
        raise InvalidConfigError(f"{name} is a whole number {limits}, not {text[:80]!r}")
    return value


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    return _choice(given, name, ("true", "false"), str(default).lower()) == "true"


def _choice(given: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    text = given.get(name.lower(), default)
    for choice in allowed:
        if choice.lower() == text.strip().lower():
            return choice
    raise InvalidConfigError(f"{name} is one of {', '.join(allowed)}, not {text!r}")


def _size(given: Mapping[str, str], name: str, default: int) -> int:
    return _amount(given, name, default, _SIZES, "134217728 or 128m")


def _duration(given: Mapping[str, str], name: str, default: int) -> int:
    return _amount(given, name, default, _UNITS, "90s or 15m")


def _amount(
    given: Mapping[str, str], name: str, default: int, units: Mapping[str, int], example: str
) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d{1,18})\s*([a-zA-Z]*)\s*", text)
    unit = units.get(found[2].lower()) if found else None
    if found is None or unit is None or int(found[1]) == 0:
        raise InvalidConfigError(f"{name} is an amount such as {example}, not {text!r}")
    return int(found[1]) * unit
