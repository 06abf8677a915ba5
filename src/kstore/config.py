"""Settings, under Kafka's names. Frozen and keyword-only; the comment of a setting documents it.

Kafka's topic setting ``segment.bytes`` is the attribute ``segment_bytes``; ``from_properties``
takes Kafka's spelling. Defaults are Kafka's, except that retention and compaction are off unless
set: kstore must never delete records from a directory that it did not create.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from kstore.errors import BackgroundFailure, InvalidConfigError, UnknownSettingError
from kstore.hints.close_names import close_names
from kstore.hints.kafka_names import OF_CONFIGS
from kstore.hints.missing_names import answer_names
from kstore.integers import INT32_MAX, INT64_MAX, check_integer_setting, parse_float, parse_integer

TYPE_CHECKING = False  # not typing's: `import kstore` does without it

_MOST_OPEN_LOGS = 256
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_RELEASES = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9.0"),  # message v0
    *("0.10.0", "0.10.1", "0.10.2"),  # message v1
    *("0.11.0", "1.0", "1.1", *(f"2.{n}" for n in range(9)), *(f"3.{n}" for n in range(10))),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """Settings of one topic's logs (Kafka's topic configs). Sizes in bytes, times in ms."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    preallocate: bool = False  # write zeros beyond the log's end: faster syncs of small appends
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    retention_ms: int = -1  # off; Kafka's default is seven days
    retention_bytes: int = -1
    cleanup_policy: str = "delete"  # or compact, or both with a comma; empty: neither
    min_cleanable_dirty_ratio: float = 0.5  # above this ratio of dirty bytes a log is compacted
    min_compaction_lag_ms: int = 0  # younger records are not compacted
    max_compaction_lag_ms: int = INT64_MAX  # older records are compacted, whatever the ratio
    delete_retention_ms: int = 86_400_000  # how long a tombstone stays after its compaction
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    compression_type: str = "producer"  # else the codec of all appended, not replicated, batches
    # The format of the log: messages v0 below 0.10.0, v1 below 0.11.0, else batches v2.
    message_format_version: str = "3.0-IV1"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = INT64_MAX
    producer_id_expiration_ms: int = 86_400_000  # a setting of the broker in Kafka
    # Not topic settings in Kafka: they set how kstore's append and extend build batches, like
    # batch.size and compression.type of a Kafka producer.
    batch_size: int = 131_072
    batch_compression: str = "none"

    def __post_init__(self) -> None:
        _check_range(self, "segment_bytes", 14, INT32_MAX)
        _check_range(self, "segment_ms", 1, INT64_MAX)
        _check_range(self, "segment_jitter_ms", 0, INT64_MAX)
        _check_range(self, "segment_index_bytes", 4, INT32_MAX)
        _check_bool(self, "preallocate")
        _check_range(self, "index_interval_bytes", 0, INT32_MAX)
        _check_range(self, "max_message_bytes", 0, INT32_MAX)
        _check_range(self, "retention_ms", -1, INT64_MAX)
        _check_range(self, "retention_bytes", -1, INT64_MAX)
        _check_fraction(self, "min_cleanable_dirty_ratio")
        _check_range(self, "min_compaction_lag_ms", 0, INT64_MAX)
        _check_range(self, "max_compaction_lag_ms", 1, INT64_MAX)
        _check_range(self, "delete_retention_ms", 0, INT64_MAX)
        _check_range(self, "file_delete_delay_ms", 0, INT64_MAX)
        _check_range(self, "flush_messages", 1, INT64_MAX)
        _check_range(self, "flush_ms", 0, INT64_MAX)
        _check_range(self, "message_timestamp_before_max_ms", 0, INT64_MAX)
        _check_range(self, "message_timestamp_after_max_ms", 0, INT64_MAX)
        _check_range(self, "producer_id_expiration_ms", 1, INT64_MAX)
        _check_range(self, "batch_size", 1, INT32_MAX)
        _check_choice(self, "compression_type", (*CODECS, "uncompressed", "producer"))
        _check_choice(self, "batch_compression", CODECS)
        magic_of(self.message_format_version)
        _check_choice(self, "message_timestamp_type", ("CreateTime", "LogAppendTime"))
        _check_policies(self.cleanup_policy)

    @property
    def message_magic(self) -> int:
        """The magic of ``message.format.version``: 0, 1 or 2."""
        return magic_of(self.message_format_version)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "LogConfig":
        """Build from Kafka's spelling (``segment.bytes``); InvalidConfigError for unknown names."""
        return cls().with_properties(properties)

    def with_properties(self, properties: Mapping[str, object]) -> "LogConfig":
        """A copy with some settings changed, in Kafka's spelling or Python's, as text or typed."""
        changes = [(setting_attribute(name), name, value) for name, value in properties.items()]
        return replace(self, **_parsed(changes, self))  # type: ignore[arg-type]

    def merge(
        self, changes: Mapping[str, object], unset: Iterable[str], default: "LogConfig"
    ) -> "LogConfig":
        """A copy with ``changes``, and with each setting in ``unset`` reset to that of ``default``.

        Raises InvalidConfigError for unknown names, values out of range, and a setting that is
        both changed and unset.
        """
        changed = {setting_attribute(name) for name in changes}
        reset = {setting_attribute(name) for name in unset}
        for attribute in sorted(changed & reset):
            raise InvalidConfigError(f"{attribute.replace('_', '.')} is both set and unset")
        defaults = {attribute: getattr(default, attribute) for attribute in reset}
        return self.with_properties({**defaults, **changes})

    def __getitem__(self, name: str) -> int | float | bool | str:
        """``config["retention.ms"]``: a setting by name, Kafka's or Python's.

        Raises UnknownSettingError (a KeyError), which suggests close names.
        """
        return getattr(self, setting_attribute(name))  # type: ignore[no-any-return]

    if not TYPE_CHECKING:  # which would take an assignment for valid

        def __setitem__(self, name: str, value: object) -> None:
            raise TypeError(f"settings are not assigned here: topic.alter({{{name!r}: {value!r}}})")

        def __delitem__(self, name: str) -> None:
            raise TypeError(f"the default comes back by topic.alter({{{name!r}: None}})")

    def __contains__(self, name: object) -> bool:
        """Whether there is a setting of this name, Kafka's or Python's."""
        return isinstance(name, str) and _spelled(name) in _TOPIC_SETTINGS

    def __iter__(self) -> Iterator[str]:
        """The names of all settings, Kafka's; ``dict(config)`` has their values, too."""
        return iter(_TOPIC_SETTINGS)

    def keys(self) -> Iterable[str]:
        """The names of all settings, Kafka's."""
        return _TOPIC_SETTINGS.keys()

    def items(self) -> Iterable[tuple[str, int | float | bool | str]]:
        """All settings by their names, Kafka's: ``dict(config).items()``."""
        return dict(self).items()

    def values(self) -> Iterable[int | float | bool | str]:
        """The values of all settings, in the order of :meth:`keys`."""
        return dict(self).values()

    @property
    def overrides(self) -> dict[str, int | float | bool | str]:
        """The settings that differ from the defaults, in Kafka's spelling; the values are typed."""
        default = type(self)()
        return {name: self[name] for name in self if self[name] != default[name]}

    def to_properties(self) -> dict[str, str]:
        """The settings that differ from the defaults, in Kafka's spelling."""
        default = type(self)()
        return {
            field.name.replace("_", "."): setting_text(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        }


answer_names(LogConfig, OF_CONFIGS)


def default_open_logs() -> int:
    """How many logs may keep their three files open, by the process's limit (``ulimit -n``).

    At most 256, and few enough to leave 128 descriptors, or half of the limit, for other files.
    """
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit, _ = getrlimit(RLIMIT_NOFILE)
    if limit == RLIM_INFINITY:
        return _MOST_OPEN_LOGS
    return max(1, min(_MOST_OPEN_LOGS, (limit - min(128, limit // 2)) // 3))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """Settings of a store."""

    log: LogConfig = field(default_factory=LogConfig)  # for topics without their own settings
    background: bool = True  # threads for flush.ms, rolled segments, retention; start when needed
    retention_check_interval_ms: int = 300_000
    recovery: str = "careful"  # "kafka": truncate at corruption as Kafka does (bytes are saved)
    num_recovery_threads_per_data_dir: int = 2  # partitions recovered at once after an unclean stop
    transaction_max_timeout_ms: int = 900_000  # the largest transaction.timeout.ms of a producer
    transactional_id_expiration_ms: int = 604_800_000  # ids idle for this time expire
    max_open_logs: int = field(  # beyond this number idle logs close their files
        default_factory=default_open_logs
    )
    max_mapped_segments: int = 256  # 0: a reader maps none (on a mount that another host writes)
    log_cleaner_enable: bool = True  # compact topics whose own settings have cleanup.policy=compact
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 134_217_728  # of the key maps of all threads
    log_cleaner_io_buffer_load_factor: float = 0.9  # the fraction of a map that may be used
    log_cleaner_io_max_bytes_per_second: float = math.inf  # read plus written, by all threads
    log_cleaner_backoff_ms: int = 15_000  # pause if no log is to be compacted
    # Called in a background thread when background work fails; not again for the same failure.
    on_background_error: Callable[[BackgroundFailure], object] | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "StoreConfig":
        """Build from names: settings of a store, and of topics, which become ``log``.

        A name is Kafka's (``log.cleaner.threads``, ``retention.ms``, or a broker's
        ``log.retention.ms``) or Python's (``log_cleaner_threads``); a value is text or typed.
        Raises InvalidConfigError for unknown names, with close ones, and for values out of range.
        """
        own: list[tuple[str, str, object]] = []
        of_topics: list[tuple[str, str, object]] = []
        for name, value in properties.items():
            attribute = _attribute(name, _STORE_SETTINGS)
            known = of_topics if attribute in LogConfig.__dataclass_fields__ else own
            known.append((attribute, name, value))
        log = replace(LogConfig(), **_parsed(of_topics, LogConfig()))  # type: ignore[arg-type]
        return replace(cls(log=log), **_parsed(own, cls()))  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        _check_range(self, "retention_check_interval_ms", 1, INT64_MAX)
        _check_choice(self, "recovery", ("careful", "kafka"))
        _check_range(self, "num_recovery_threads_per_data_dir", 1, 1 << 10)
        _check_range(self, "transaction_max_timeout_ms", 1, INT32_MAX)
        _check_range(self, "transactional_id_expiration_ms", 1, INT64_MAX)
        _check_range(self, "max_open_logs", 1, 1 << 20)
        _check_range(self, "max_mapped_segments", 0, 1 << 20)
        _check_range(self, "log_cleaner_threads", 1, 64)
        _check_range(self, "log_cleaner_dedupe_buffer_size", 1 << 10, INT64_MAX)
        _check_fraction(self, "log_cleaner_io_buffer_load_factor")
        rate = self.log_cleaner_io_max_bytes_per_second
        if not isinstance(rate, int | float) or not rate > 0:
            raise InvalidConfigError(
                f"log.cleaner.io.max.bytes.per.second must be above 0, not {rate!r}"
            )
        _check_range(self, "log_cleaner_backoff_ms", 0, INT64_MAX)
        if self.on_background_error is not None and not callable(self.on_background_error):
            raise InvalidConfigError(
                f"on_background_error must be callable, not {self.on_background_error!r}"
            )


# Kafka's name of a broker's default for a topic setting, where it is not that setting's own name
# (ServerTopicConfigSynonyms).
_BROKER_NAMES = {
    "log.segment.bytes": "segment_bytes",
    "log.roll.ms": "segment_ms",
    "log.roll.jitter.ms": "segment_jitter_ms",
    "log.index.size.max.bytes": "segment_index_bytes",
    "log.preallocate": "preallocate",
    "log.index.interval.bytes": "index_interval_bytes",
    "message.max.bytes": "max_message_bytes",
    "log.retention.ms": "retention_ms",
    "log.retention.bytes": "retention_bytes",
    "log.cleanup.policy": "cleanup_policy",
    "log.cleaner.min.cleanable.ratio": "min_cleanable_dirty_ratio",
    "log.cleaner.min.compaction.lag.ms": "min_compaction_lag_ms",
    "log.cleaner.max.compaction.lag.ms": "max_compaction_lag_ms",
    "log.cleaner.delete.retention.ms": "delete_retention_ms",
    "log.segment.delete.delay.ms": "file_delete_delay_ms",
    "log.flush.interval.messages": "flush_messages",
    "log.flush.interval.ms": "flush_ms",
    "log.message.format.version": "message_format_version",
    "log.message.timestamp.type": "message_timestamp_type",
    "log.message.timestamp.before.max.ms": "message_timestamp_before_max_ms",
    "log.message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
    "log.retention.check.interval.ms": "retention_check_interval_ms",
}


def codec_of_batches(config: LogConfig, requested: str | None = None) -> str:
    """The codec of batches appended to a topic's log: one of ``CODECS``.

    ``compression.type`` decides, unless it is ``producer``. Then it is the codec that the producer
    requests, or the topic's ``batch.compression``. Kafka's LogValidator and BrokerCompressionType.
    """
    if config.compression_type == "uncompressed":
        return "none"
    if config.compression_type != "producer":
        return config.compression_type
    return config.batch_compression if requested is None else requested


def warn_of_codec(config: LogConfig, requested: str | None, topic: str) -> None:
    """Warn (UserWarning) a producer that requests another codec than the topic's."""
    stored = codec_of_batches(config, requested)
    if requested is not None and requested != stored:
        warnings.warn(
            f"compression {requested!r} was requested, but {topic} has compression.type "
            f"{config.compression_type}: records are stored as {stored!r}. Omit the option, or "
            "set the topic's compression.type to producer",
            UserWarning,
            stacklevel=4,
        )


def magic_of(version: str) -> int:
    """The magic of batches that a broker of this version writes: 0, 1 or 2. Kafka's ApiVersion.

    Ignores the digits of a bug-fix release and suffixes such as ``-IV1``.
    """
    parts = version.split("-")[0].split(".") if isinstance(version, str) else []
    release = ".".join(parts[: 3 if parts[:1] == ["0"] else 2])
    if release not in _RELEASES:
        raise InvalidConfigError(
            f"message.format.version must be one of {', '.join(_RELEASES)}, not {version!r}"
        )
    return 0 if release in _RELEASES[:4] else 1 if release in _RELEASES[4:7] else 2


def setting_attribute(name: object) -> str:
    """The attribute of LogConfig for a setting's name in Kafka's or Python's spelling.

    Raises UnknownSettingError, which suggests close names or else lists all names.
    """
    return _attribute(name, _TOPIC_SETTINGS)


def _attribute(name: object, settings: Mapping[str, str]) -> str:
    """The attribute that a name stands for, among settings by name in Kafka's spelling."""
    if not isinstance(name, str):
        raise TypeError(f"a setting is named by text, not {type(name).__name__}")
    spelled = _spelled(name)
    if spelled in settings:
        return settings[spelled]
    stem, _, unit = spelled.rpartition(".")
    if unit in _UNITS and f"{stem}.ms" in settings:
        raise UnknownSettingError(
            f"unknown setting {name!r}; use {{'{stem}.ms': timedelta({_UNITS[unit]})}}, or a "
            "number of milliseconds"
        )
    close = close_names(spelled.lower(), settings)
    known = ", ".join(sorted(settings))
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are: {known}"
    raise UnknownSettingError(f"unknown setting {name!r}; {hint}")


_UNITS = {
    **dict.fromkeys(("hours", "hour", "h"), "hours=24"),
    **dict.fromkeys(("minutes", "minute", "min"), "minutes=30"),
    **dict.fromkeys(("days", "day", "d"), "days=7"),
    **dict.fromkeys(("seconds", "second", "s", "sec"), "seconds=60"),
}


def _spelled(name: str) -> str:
    """A setting's name as Kafka spells it."""
    return name.replace("_", ".").replace("-", ".")


_TOPIC_SETTINGS = {name.replace("_", "."): name for name in LogConfig.__dataclass_fields__}
_STORE_SETTINGS = {
    **{name.replace("_", "."): name for name in StoreConfig.__dataclass_fields__ if name != "log"},
    **_TOPIC_SETTINGS,
    **_BROKER_NAMES,
}


def _parsed(changes: Iterable[tuple[str, str, object]], config: object) -> dict[str, object]:
    """Values by attribute, of (attribute, name, value); their types are those of ``config``."""
    values: dict[str, object] = {}
    for attribute, name, value in changes:
        if attribute in values:
            raise InvalidConfigError(f"{attribute.replace('_', '.')} is set twice")
        values[attribute] = _parse(name, value, type(getattr(config, attribute)).__name__)
    return values


def check_changes(config: object, unset: object) -> None:
    """Check the arguments of ``alter``; a TypeError says what to pass."""
    if isinstance(config, LogConfig):
        raise TypeError(
            "alter changes the settings that a mapping names: config={'retention.ms': 3600000}; "
            "for all that differs from the defaults, config=LogConfig(...).to_properties()"
        )
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"config is a mapping of settings, not {type(config).__name__}")
    if isinstance(unset, str | bytes | Mapping) or not isinstance(unset, Iterable):
        raise TypeError("unset is a list of settings' names: unset=['retention.ms']")


def warn_of_replacing(topic: str, dropped: Mapping[str, str]) -> None:
    """Warn the caller of ``Store.configure_topic``, two frames above."""
    warnings.warn(
        "configure_topic replaces all settings of a topic and is deprecated: use "
        "alter_topic(name, config={...}, unset=[...])",
        DeprecationWarning,
        stacklevel=3,
    )
    if dropped:
        values = ", ".join(f"{name}={value}" for name, value in sorted(dropped.items()))
        warnings.warn(
            f"configure_topic has reset settings of topic {topic!r} that its LogConfig leaves "
            f"out: {values}. alter_topic(name, config={{...}}) changes some and leaves the others",
            UserWarning,
            stacklevel=3,
        )


def check_log_config(config: object) -> LogConfig:
    """Check a caller's settings of a topic; a TypeError says what to pass."""
    if not isinstance(config, LogConfig):
        raise TypeError(
            f"a topic's config is a kstore.LogConfig, not {type(config).__name__}; from Kafka's "
            "names: LogConfig.from_properties({'segment.bytes': 1 << 20})"
        )
    return config


def as_log_config(config: object, default: LogConfig) -> LogConfig:
    """The settings of a topic that a caller creates.

    None: ``default``; a mapping of names changes some settings of ``default``; a LogConfig
    replaces them all. Raises TypeError for anything else, and InvalidConfigError.
    """
    if config is None:
        return default
    if isinstance(config, Mapping):
        return default.with_properties(config)
    if isinstance(config, LogConfig):
        return config
    raise TypeError(
        "a topic's config is a mapping of settings, such as {'retention.ms': 3600000}, or a "
        f"kstore.LogConfig, not {type(config).__name__}"
    )


def as_store_config(config: object) -> StoreConfig:
    """The settings of a store that a caller opens: a mapping of names, or a StoreConfig.

    Raises TypeError for anything else, and InvalidConfigError.
    """
    if config is None:
        return StoreConfig()
    if isinstance(config, Mapping):
        return StoreConfig.from_properties(config)
    if isinstance(config, StoreConfig):
        return config
    raise TypeError(
        f"a store's config is a kstore.StoreConfig, not {type(config).__name__}, or a mapping of "
        "settings, such as {'log.retention.ms': 3600000}; settings for its topics are passed as "
        "StoreConfig(log=LogConfig(...))"
    )


def _check_range(config: object, name: str, low: int, high: int) -> None:
    value = getattr(config, name)
    number = check_integer_setting(name.replace("_", "."), value, low, high)
    object.__setattr__(config, name, number)  # an int, also for a NumPy integer


def _check_bool(config: object, name: str) -> None:
    value = getattr(config, name)
    if not isinstance(value, bool):
        raise InvalidConfigError(f"{name.replace('_', '.')} must be true or false, not {value!r}")


def _check_fraction(config: object, name: str) -> None:
    value = getattr(config, name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidConfigError(
            f"{name.replace('_', '.')} must be a number from 0 to 1, not {value!r}"
        )


def _check_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise InvalidConfigError(
            f"{name.replace('_', '.')} must be one of {', '.join(choices)}, not {value!r}"
        )


def _check_policies(value: object) -> None:
    """A list of policies, which Kafka 3.9 lets be empty: then neither of them removes records."""
    if value != "" and (
        not isinstance(value, str)
        or any(each.strip() not in ("delete", "compact") for each in value.split(","))
    ):
        raise InvalidConfigError(
            "cleanup.policy must be one of delete, compact and 'compact,delete', or empty (records "
            f"are neither deleted nor compacted), not {value!r}"
        )


def _parse(name: str, value: object, kind: str) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise InvalidConfigError(f"{name} must be true or false, not {value!r}")
        return text.lower() == "true"
    if kind == "int":
        return parse_whole_number(text, -INT64_MAX - 1, name=name)
    if kind == "float":
        try:
            return parse_float(text)
        except ValueError:
            raise InvalidConfigError(f"{name} must be a number, not {value!r}") from None
    return text


def parse_whole_number(text: str, low: int = 0, high: int = INT64_MAX, *, name: str = "") -> int:
    """Parse a whole number from ``low`` to ``high``; raises ``InvalidConfigError``.

    Also for a text of more than 4,300 digits, for which ``int`` raises another error.
    """
    try:
        number = parse_integer(text)
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        shown = text if len(text) <= 40 else f"{text[:40]}... ({len(text)} characters)"
        bounds = "" if low == -INT64_MAX - 1 else f" from {low} to {high}"
        raise InvalidConfigError(
            f"{name}{' must be ' if name else ''}a whole number{bounds}, not {shown!r}"
        )
    return number


def setting_texts(config: LogConfig, names: Iterable[str]) -> dict[str, str]:
    """Some of a topic's settings by Kafka's names, as texts."""
    return {setting_attribute(name).replace("_", "."): setting_text(config[name]) for name in names}


def setting_text(value: object) -> str:
    """A setting's value in Kafka's spelling: ``true`` and ``false`` are lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
