"""Settings, under Kafka's names. Frozen and keyword-only; a setting's docs are its comment.

A topic setting written ``segment.bytes`` in Kafka is ``segment_bytes`` here; ``from_properties``
takes Kafka's spelling. Defaults are Kafka's, but for retention and compaction: those are off
unless set, because kstore must never shorten a directory that it did not make.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from kstore.errors import BackgroundFailure, InvalidConfigError
from kstore.integers import INT32_MAX, INT64_MAX, check_integer_setting

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
    preallocate: bool = False  # write zeros ahead of the log's end, so that small commits are quick
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    retention_ms: int = -1  # off; Kafka's default is seven days
    retention_bytes: int = -1
    cleanup_policy: str = "delete"
    min_cleanable_dirty_ratio: float = 0.5  # a log is compacted from this share of dirty bytes on
    min_compaction_lag_ms: int = 0  # younger records are not compacted
    max_compaction_lag_ms: int = INT64_MAX  # older ones are, whatever the ratio
    delete_retention_ms: int = 86_400_000  # how long a tombstone stays after it was compacted
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    compression_type: str = "producer"  # else the codec of all that is appended, not replicated
    # The format of the log: messages v0 below 0.10.0, v1 below 0.11.0, else batches v2.
    message_format_version: str = "3.0-IV1"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = INT64_MAX
    producer_id_expiration_ms: int = 86_400_000  # a setting of the broker in Kafka
    # Not Kafka's topic settings: how kstore's own append and extend build batches
    # (a Kafka producer's batch.size and compression.type).
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
        _check_choice(
            self, "cleanup_policy", ("delete", "compact", "compact,delete", "delete,compact")
        )

    @property
    def message_magic(self) -> int:
        """The magic that ``message.format.version`` stands for: 0, 1 or 2."""
        return magic_of(self.message_format_version)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> "LogConfig":
        """Build from Kafka's spelling (``segment.bytes``); unknown names are refused."""
        return cls().with_properties(properties)

    def with_properties(self, properties: Mapping[str, object]) -> "LogConfig":
        """A copy with some settings changed, in Kafka's spelling or Python's, as text or typed."""
        changes: dict[str, object] = {}
        for name, value in properties.items():
            attribute = setting_attribute(name)
            if attribute in changes:
                raise InvalidConfigError(f"{attribute.replace('_', '.')} is set twice")
            changes[attribute] = _parse(name, value, type(getattr(self, attribute)).__name__)
        return replace(self, **changes)  # type: ignore[arg-type]

    def merge(
        self, changes: Mapping[str, object], unset: Iterable[str], default: "LogConfig"
    ) -> "LogConfig":
        """A copy with ``changes`` made, and each setting in ``unset`` as ``default`` has it.

        Raises InvalidConfigError for unknown names, values out of range, and a setting that is
        both changed and unset.
        """
        changed = {setting_attribute(name) for name in changes}
        reset = {setting_attribute(name) for name in unset}
        for attribute in sorted(changed & reset):
            raise InvalidConfigError(f"{attribute.replace('_', '.')} is both set and unset")
        defaults = {attribute: getattr(default, attribute) for attribute in reset}
        return self.with_properties({**defaults, **changes})

    def to_properties(self) -> dict[str, str]:
        """Only what differs from the defaults, in Kafka's spelling."""
        default = type(self)()
        return {
            field.name.replace("_", "."): _text(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        }


def default_open_logs() -> int:
    """How many logs may hold files open, three each, within the process's limit (``ulimit -n``).

    256, or fewer where that leaves less than 128 descriptors, or half of them, to all others.
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
    background: bool = True  # one thread for flush.ms and retention, started when first needed
    retention_check_interval_ms: int = 300_000
    recovery: str = "careful"  # "kafka": cut at damage as Kafka does (what is cut is kept aside)
    num_recovery_threads_per_data_dir: int = 2  # partitions recovered at once after an unclean stop
    transaction_max_timeout_ms: int = 900_000  # the longest transaction.timeout.ms of a producer
    transactional_id_expiration_ms: int = 604_800_000  # ids unused for so long are forgotten
    max_open_logs: int = field(  # beyond this, idle logs give their files back
        default_factory=default_open_logs
    )
    max_mapped_segments: int = 256  # 0: a reader maps none (a mount that another machine writes)
    log_cleaner_enable: bool = True  # compact topics whose own settings ask for it
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 134_217_728  # of the key maps of all threads
    log_cleaner_io_buffer_load_factor: float = 0.9  # which part of a map may be used
    log_cleaner_io_max_bytes_per_second: float = math.inf  # read and written, by all threads
    log_cleaner_backoff_ms: int = 15_000  # pause where nothing is to be compacted
    # Called in a background thread when background work fails, once until it fails differently.
    on_background_error: Callable[[BackgroundFailure], object] | None = None

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


def codec_of_batches(config: LogConfig, asked: str | None = None) -> str:
    """The codec in which a topic's log keeps what is appended: one of ``CODECS``.

    ``compression.type`` decides unless it is ``producer``; then what the producer asked for, or
    the topic's ``batch.compression``. Kafka's LogValidator and BrokerCompressionType.
    """
    if config.compression_type == "uncompressed":
        return "none"
    if config.compression_type != "producer":
        return config.compression_type
    return config.batch_compression if asked is None else asked


def warn_of_codec(config: LogConfig, asked: str | None, topic: str) -> None:
    """Warn (UserWarning) a producer that asks for another codec than the topic's."""
    kept = codec_of_batches(config, asked)
    if asked is not None and asked != kept:
        warnings.warn(
            f"compression {asked!r} was asked for, but {topic} has compression.type "
            f"{config.compression_type}: records are kept as {kept!r}. Leave the option out, or "
            "set the topic's compression.type to producer",
            UserWarning,
            stacklevel=4,
        )


def magic_of(version: str) -> int:
    """The magic of what a broker of that version writes: 0, 1 or 2. Kafka's ApiVersion.

    Digits after those that name a version, and suffixes such as ``-IV1``, are ignored.
    """
    parts = version.split("-")[0].split(".") if isinstance(version, str) else []
    release = ".".join(parts[: 3 if parts[:1] == ["0"] else 2])
    if release not in _RELEASES:
        raise InvalidConfigError(
            f"message.format.version must be one of {', '.join(_RELEASES)}, not {version!r}"
        )
    return 0 if release in _RELEASES[:4] else 1 if release in _RELEASES[4:7] else 2


def setting_attribute(name: object) -> str:
    """The attribute of LogConfig that a setting's name in Kafka's or Python's spelling means.

    Raises InvalidConfigError with names that are close, else with all that are known.
    """
    if not isinstance(name, str):
        raise TypeError(f"a setting is named by text, not {type(name).__name__}")
    known = LogConfig.__dataclass_fields__
    attribute = name.replace(".", "_").replace("-", "_")
    if attribute in known:
        return attribute
    from difflib import get_close_matches

    names = sorted(key.replace("_", ".") for key in known)
    close = get_close_matches(attribute.replace("_", ".").lower(), names, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are: {', '.join(names)}"
    raise InvalidConfigError(f"unknown setting {name!r}; {hint}")


def check_changes(config: object, unset: object) -> None:
    """What ``alter`` was given; a TypeError says what would be right."""
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
    """Warn the caller of ``Store.configure_topic``, who is two frames above."""
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
    """Settings of a topic as they came from a caller; a TypeError says what would be right."""
    if not isinstance(config, LogConfig):
        raise TypeError(
            f"a topic's config is a kstore.LogConfig, not {type(config).__name__}; from Kafka's "
            "names: LogConfig.from_properties({'segment.bytes': 1 << 20})"
        )
    return config


def check_store_config(config: object) -> StoreConfig:
    """Settings of a store as they came from a caller; a TypeError says what would be right."""
    if not isinstance(config, StoreConfig):
        raise TypeError(
            f"a store's config is a kstore.StoreConfig, not {type(config).__name__}; settings "
            "for its topics go in by StoreConfig(log=LogConfig(...))"
        )
    return config


def _check_range(config: object, name: str, low: int, high: int) -> None:
    value = getattr(config, name)
    number = check_integer_setting(name.replace("_", "."), value, low, high)
    object.__setattr__(config, name, number)  # an int also where NumPy's was given


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
            return float(text)
        except ValueError:
            raise InvalidConfigError(f"{name} must be a number, not {value!r}") from None
    return text


def parse_whole_number(text: str, low: int = 0, high: int = INT64_MAX, *, name: str = "") -> int:
    """The whole number from low to high that a text is; raises ``InvalidConfigError``.

    However long the text is: ``int`` itself raises another error beyond 4,300 digits, and what
    it returns below that need not fit into any field.
    """
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        shown = text if len(text) <= 40 else f"{text[:40]}... ({len(text)} characters)"
        bounds = "" if low == -INT64_MAX - 1 else f" from {low} to {high}"
        raise InvalidConfigError(
            f"{name}{' must be ' if name else ''}a whole number{bounds}, not {shown!r}"
        )
    return number


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
