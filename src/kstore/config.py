"""Settings, under Kafka's names. Frozen and keyword-only; a setting's docs are its comment.

A topic setting written ``segment.bytes`` in Kafka is ``segment_bytes`` here; ``from_properties``
takes Kafka's spelling. Defaults are Kafka's, but for retention and compaction: those are off
unless set, because kstore must never shorten a directory that it did not make.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from kstore.errors import InvalidConfigError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
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
    compression_type: str = "producer"
    # What the log is written in: messages v0 below 0.10.0, v1 below 0.11.0, else batches v2.
    message_format_version: str = "3.0-IV1"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = INT64_MAX
    producer_id_expiration_ms: int = 86_400_000  # a setting of the whole broker in Kafka
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
        """A copy with some settings changed, named in Kafka's spelling, values as text or typed."""
        kinds = {field.name: type(getattr(self, field.name)).__name__ for field in fields(self)}
        changes: dict[str, object] = {}
        for name, value in properties.items():
            attribute = name.replace(".", "_").replace("-", "_")
            kind = kinds.get(attribute)
            if kind is None:
                known = ", ".join(sorted(key.replace("_", ".") for key in kinds))
                raise InvalidConfigError(f"unknown setting {name!r}; known are: {known}")
            changes[attribute] = _parse(name, value, kind)
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_properties(self) -> dict[str, str]:
        """Only what differs from the defaults, in Kafka's spelling."""
        default = type(self)()
        return {
            field.name.replace("_", "."): _text(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """Settings of a whole store."""

    log: LogConfig = field(default_factory=LogConfig)  # for topics that set nothing of their own
    background: bool = True  # one thread for flush.ms and retention, started when first needed
    retention_check_interval_ms: int = 300_000
    recovery: str = "careful"  # "kafka": cut at damage as Kafka does (what is cut is kept aside)
    num_recovery_threads_per_data_dir: int = 2  # partitions recovered at once after an unclean stop
    transaction_max_timeout_ms: int = 900_000  # the longest transaction.timeout.ms of a producer
    transactional_id_expiration_ms: int = 604_800_000  # ids unused for so long are forgotten
    max_open_logs: int = 256  # beyond this, idle logs give their files back
    max_mapped_segments: int = 256  # 0: a reader maps none (a mount that another machine writes)
    log_cleaner_enable: bool = True  # compact topics whose own settings ask for it
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 134_217_728  # of the key maps of all threads
    log_cleaner_io_buffer_load_factor: float = 0.9  # which part of a map may be used
    log_cleaner_io_max_bytes_per_second: float = math.inf  # read and written, by all threads
    log_cleaner_backoff_ms: int = 15_000  # pause where nothing is to be compacted

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


def magic_of(version: str) -> int:
    """The magic of what a broker of that version writes: 0, 1 or 2. Kafka's ApiVersion.

    Digits behind those that name a version, and ``-IV1`` and the like, are not looked at.
    """
    parts = version.split("-")[0].split(".") if isinstance(version, str) else []
    release = ".".join(parts[: 3 if parts[:1] == ["0"] else 2])
    if release not in _RELEASES:
        raise InvalidConfigError(
            f"message.format.version must be one of {', '.join(_RELEASES)}, not {version!r}"
        )
    return 0 if release in _RELEASES[:4] else 1 if release in _RELEASES[4:7] else 2


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
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidConfigError(
            f"{name.replace('_', '.')} must be a whole number from {low} to {high}, not {value!r}"
        )


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
        try:
            return int(text)
        except ValueError:
            raise InvalidConfigError(f"{name} must be a whole number, not {value!r}") from None
    if kind == "float":
        try:
            return float(text)
        except ValueError:
            raise InvalidConfigError(f"{name} must be a number, not {value!r}") from None
    return text


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
