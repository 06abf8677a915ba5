"""The broker's settings, typed, under Kafka's names."""

from collections.abc import Container, Mapping
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from typing import Any

from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.config import setting_text
from kstore.errors import InvalidConfigError, UnknownSettingError
from kstore.hints.close_names import close_names
from kstore.integers import INT32_MAX, parse_integer

METRICS_OFF = -1  # the port of a broker without metrics
_DEFAULT_ASSIGNORS = BROKER_SETTINGS["group.consumer.assignors"].default or ""


def _number(default: int, low: int, high: int = INT32_MAX) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def _choice(default: str, *others: str) -> Any:
    """One of these words, in any case."""
    return field(default=default, metadata={"choices": (default, *others)})


def _kafka(name: str, *, low: int | None = None, high: int | None = None) -> Any:
    """One of Kafka's settings, with Kafka's default; ``low`` and ``high`` override its limits."""
    setting = BROKER_SETTINGS[name]
    assert setting.default is not None
    default = setting.parse(setting.default)
    if isinstance(default, bool):
        return field(default=default)
    lowest, highest = setting.limits
    return field(
        default=default,
        metadata={
            "low": lowest if low is None else low,
            "high": highest if high is None else high,
        },
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerSettings:
    """Settings of one broker. Sizes are in bytes, times in ms; defaults are Kafka 3.9's.

    ``kstore.*`` settings are not Kafka's; ``KSTORE_DEFAULTS`` lists the defaults that differ.
    ``fetch_max_bytes`` is Kafka's ``fetch.max.bytes``, and so on.
    """

    # The server.
    socket_request_max_bytes: int = _kafka("socket.request.max.bytes")
    socket_listen_backlog_size: int = _kafka("socket.listen.backlog.size")
    socket_send_buffer_bytes: int = _kafka("socket.send.buffer.bytes", low=-1)
    socket_receive_buffer_bytes: int = _kafka("socket.receive.buffer.bytes", low=-1)
    queued_max_request_bytes: int = _kafka("queued.max.request.bytes", low=1)  # of all connections
    max_connections: int = _kafka("max.connections")
    max_connections_per_ip: int = _kafka("max.connections.per.ip")
    max_connections_per_ip_overrides: str = ""  # host:limit,...
    connections_max_idle_ms: int = _kafka("connections.max.idle.ms", low=-1)  # -1: never closed
    num_io_threads: int = _kafka("num.io.threads", high=1024)  # disk workers
    kstore_max_request_partitions: int = _number(100_000, 1)
    kstore_stop_wait_ms: int = _number(5_000, 0)  # for responses, when the broker stops

    # Metrics and health, without authentication.
    kstore_metrics_host: str = "127.0.0.1"
    kstore_metrics_port: int = _number(METRICS_OFF, METRICS_OFF, 65_535)  # 0: a free port

    # Produce.
    message_max_bytes: int = _kafka("message.max.bytes")
    min_insync_replicas: int = _kafka("min.insync.replicas")
    producer_id_expiration_ms: int = _kafka("producer.id.expiration.ms")
    kstore_acks_durable: bool = False  # acknowledge only records that are on disk

    # Fetch.
    fetch_max_bytes: int = _kafka("fetch.max.bytes")
    max_incremental_fetch_session_cache_slots: int = _kafka(
        "max.incremental.fetch.session.cache.slots"
    )

    # Groups.
    group_initial_rebalance_delay_ms: int = _kafka("group.initial.rebalance.delay.ms", low=0)
    group_min_session_timeout_ms: int = _kafka("group.min.session.timeout.ms", low=0)
    group_max_session_timeout_ms: int = _kafka("group.max.session.timeout.ms", low=1)
    group_max_size: int = _kafka("group.max.size")
    # Of consumer groups (KIP-848).
    group_consumer_session_timeout_ms: int = _kafka("group.consumer.session.timeout.ms")
    group_consumer_min_session_timeout_ms: int = _kafka("group.consumer.min.session.timeout.ms")
    group_consumer_max_session_timeout_ms: int = _kafka("group.consumer.max.session.timeout.ms")
    group_consumer_heartbeat_interval_ms: int = _kafka("group.consumer.heartbeat.interval.ms")
    group_consumer_min_heartbeat_interval_ms: int = _kafka(
        "group.consumer.min.heartbeat.interval.ms"
    )
    group_consumer_max_heartbeat_interval_ms: int = _kafka(
        "group.consumer.max.heartbeat.interval.ms"
    )
    group_consumer_max_size: int = _kafka("group.consumer.max.size")
    # The first one is that of members that choose none: a word, or the name of Kafka's class.
    group_consumer_assignors: str = _DEFAULT_ASSIGNORS
    # Kafka 4's default; 3.9 has "disabled". DescribeConfigs of 3.9 does not show it.
    group_consumer_migration_policy: str = _choice(
        "bidirectional", "disabled", "upgrade", "downgrade"
    )
    offset_metadata_max_bytes: int = _kafka("offset.metadata.max.bytes", low=0, high=4096)
    offsets_commit_timeout_ms: int = _kafka("offsets.commit.timeout.ms")
    offsets_topic_num_partitions: int = _kafka("offsets.topic.num.partitions")
    offsets_retention_minutes: int = _kafka("offsets.retention.minutes")
    offsets_retention_check_interval_ms: int = _kafka("offsets.retention.check.interval.ms")

    # Transactions.
    transaction_max_timeout_ms: int = _kafka("transaction.max.timeout.ms")
    transactional_id_expiration_ms: int = _kafka("transactional.id.expiration.ms")
    transaction_state_log_num_partitions: int = _kafka("transaction.state.log.num.partitions")
    transaction_partition_verification_enable: bool = _kafka(
        "transaction.partition.verification.enable"
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _kafka(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _kafka(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )

    # Topics.
    auto_create_topics_enable: bool = _kafka("auto.create.topics.enable")
    delete_topic_enable: bool = _kafka("delete.topic.enable")
    # Allow clients to delete topics that no client created and that were not adopted.
    kstore_delete_existing_topics: bool = False
    num_partitions: int = _kafka("num.partitions")
    default_replication_factor: int = _kafka("default.replication.factor", low=1)
    # DescribeTopicPartitions.
    max_request_partition_size_limit: int = _kafka("max.request.partition.size.limit")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(each.default, str):
                choices = each.metadata.get("choices")
                if not isinstance(value, str) or (choices and value.lower() not in choices):
                    raise InvalidConfigError(
                        f"{kafka_name(each.name)} is one of {', '.join(choices or ())}, "
                        f"not {value!r}"
                    )
            elif each.type == "bool" or isinstance(each.default, bool):
                if not isinstance(value, bool):
                    raise InvalidConfigError(f"{kafka_name(each.name)} is true or false")
            else:
                _check(kafka_name(each.name), value, each.metadata["low"], each.metadata["high"])
        _check_order(self, "group_consumer_{}session_timeout_ms")
        _check_order(self, "group_consumer_{}heartbeat_interval_ms")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise InvalidConfigError(
                "group.consumer.heartbeat.interval.ms must be less than "
                "group.consumer.session.timeout.ms"
            )
        if self.group_consumer_assignors != _DEFAULT_ASSIGNORS:
            from kstore.coordinator.group.server_assignors import assignors_of

            assignors_of(self.group_consumer_assignors)
        if not self.kstore_metrics_host.strip():
            raise InvalidConfigError("kstore.metrics.host is an address, such as 127.0.0.1")

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object], *, others: Container[str] = ()
    ) -> "BrokerSettings":
        """Create settings from Kafka's names with text or typed values; skip names in ``others``.

        Raises InvalidConfigError for an invalid value, UnknownSettingError for an unknown name.
        """
        kinds = {kafka_name(each.name): each for each in fields(cls)}
        values: dict[str, object] = {}
        for name, value in properties.items():
            if name not in kinds:
                if name in others:
                    continue
                close = close_names(name, kinds, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise UnknownSettingError(f"the broker has no setting {name!r}{hint}")
            each = kinds[name]
            assert each.default is not MISSING
            values[each.name] = _parsed(name, value, type(each.default))
        return cls(**values)  # type: ignore[arg-type]

    def to_properties(self) -> dict[str, str]:
        """All settings as text, by Kafka's names."""
        return {
            kafka_name(each.name): setting_text(getattr(self, each.name)) for each in fields(self)
        }


def kafka_name(attribute: str) -> str:
    """``fetch.max.bytes`` for ``fetch_max_bytes``."""
    return attribute.replace("_", ".")


def _check(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidConfigError(f"{name} is a whole number, not {value!r}")
    if not low <= value <= high:
        raise InvalidConfigError(f"{name} is from {low} to {high}, not {value}")


def _check_order(settings: BrokerSettings, pattern: str) -> None:
    """Raise InvalidConfigError unless a setting lies between its least and its largest value."""
    names = [pattern.format(each) for each in ("min_", "", "max_")]
    for low, high in pairwise(names):
        if getattr(settings, low) > getattr(settings, high):
            raise InvalidConfigError(
                f"{kafka_name(high)} must be greater than or equal to {kafka_name(low)}"
            )


def _parsed(name: str, value: object, kind: type[object]) -> object:
    if not isinstance(value, str) or kind is str:
        return value
    text = value.strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InvalidConfigError(f"{name} is true or false, not {value!r}")
        return text.lower() == "true"
    try:
        return parse_integer(text)
    except ValueError:
        raise InvalidConfigError(f"{name} is a whole number, not {value!r}") from None
