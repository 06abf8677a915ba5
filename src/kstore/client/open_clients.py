"""Methods of a store that open producers, consumers and transactions."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Never, TypedDict, TypeVar, Unpack, overload

from kstore.client.argument_errors import settings_in_a_dict, unknown_setting
from kstore.client.partitioner import Partitioner, as_partitioner
from kstore.errors import ClosedError, InvalidConfigError
from kstore.hints.kafka_names import TRANSACTION_IN_ASYNCIO
from kstore.hints.missing_names import no_asyncio
from kstore.integers import check_integer_setting
from kstore.protocol.fields import utf8_size
from kstore.topic_partition import as_topic_partition

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from kstore.client.consumer import Consumer, OnRebalance
    from kstore.client.producer import MultiTopicProducer, Producer
    from kstore.client.transactional_producer import TransactionalProducer
    from kstore.files.process_lifetime import Closable
    from kstore.integers import Seconds
    from kstore.store.store import Store


T = TypeVar("T")


class _OwnSettings(TypedDict, total=False):
    """The settings that a producer itself takes."""

    batch_size: int | None
    linger_ms: "float | timedelta"
    compression: str | None
    acks: int | str
    buffer_memory: int
    max_block_ms: "float | timedelta"
    enable_idempotence: bool


class _Settings(_OwnSettings, total=False):
    partitioner: Partitioner | None


class ProducerSettings(_OwnSettings, total=False):
    """The settings of :func:`producer`, for type checkers."""

    partitioner: Partitioner | str | None
    compression_type: str | None
    retries: int


@overload
def producer(self: "Store", topic: str, **settings: Unpack[ProducerSettings]) -> "Producer": ...
@overload
def producer(
    self: "Store",
    topic: None = None,
    *,
    transactional_id: str,
    batch_size: int | None = None,
    compression: str | None = None,
    acks: int | str = "all",
    enable_idempotence: bool = True,
    compression_type: str | None = None,
    retries: int = 0,
) -> "TransactionalProducer": ...
@overload
def producer(
    self: "Store", topic: None = None, **settings: Unpack[ProducerSettings]
) -> "MultiTopicProducer": ...
def producer(
    self: "Store",
    topic: str | None = None,
    *,
    batch_size: int | None = None,
    linger_ms: "float | timedelta" = 5,
    compression: str | None = None,
    acks: int | str = "all",
    buffer_memory: int = 32 << 20,
    max_block_ms: "float | timedelta" = 60_000,
    partitioner: Partitioner | str | None = None,
    enable_idempotence: bool = False,
    transactional_id: str | None = None,
    compression_type: str | None = None,
    retries: int = 0,
    **unknown: Never,
) -> "Producer | MultiTopicProducer | TransactionalProducer":
    """A producer for a topic, or for any topics; close it, or use it as a context manager.

    ``store.producer("orders").send(value, key=...)``;
    ``store.producer().send("orders", value, key=...)``.
    Raises UnknownTopicOrPartitionError, InvalidConfigError, ReadOnlyError, and TypeError for a
    setting that does not exist. Safe to call from any thread, like the producer.

    Parameters
    ----------
    batch_size, compression
        Size in bytes before compression, and codec, of a batch; by default the topic's
        ``batch.size`` and ``batch.compression``.
    linger_ms
        How long a record may wait for others to share its batch: a number, or a ``timedelta``.
    acks
        ``"all"``: a record is acknowledged once it is on disk; ``1``: once the operating system has
        it; ``0``: immediately.
    buffer_memory, max_block_ms
        How many bytes may be in flight, and how long ``send`` waits for room.
    partitioner
        ``(key, value, count) -> partition``, ``"default"`` or ``"round_robin"``; the topic's by
        default. TypeError for a function of another signature.
    enable_idempotence
        Number the batches under a producer id, as Kafka's producers do by default. kstore
        never retries a send, because there is no network between producer and log, so
        the numbers prevent no duplicates; they cost an entry in the producer state.
    transactional_id
        Return a :meth:`transactional_producer` of this id, which takes ``batch_size``,
        ``compression`` and ``acks``.
    compression_type
        Kafka's name of ``compression``.
    retries
        Accepted and without effect: nothing is lost between a producer and its log.
    """
    self._check_writable()
    if unknown:
        raise unknown_setting(producer, next(iter(unknown)))
    if isinstance(topic, dict):
        raise settings_in_a_dict(producer, topic)
    compression = _one_of(compression, compression_type, "compression", "compression_type")
    check_integer_setting("retries", retries, 0)
    if transactional_id is not None:
        if topic is not None or partitioner is not None:
            raise TypeError(
                "a transactional producer sends to any topics, by the topic's partitioner: "
                f"producer(transactional_id={transactional_id!r}), then send(topic, value)"
            )
        _check_without_linger(
            linger_ms=linger_ms, buffer_memory=buffer_memory, max_block_ms=max_block_ms
        )
        return transactional_producer(
            self, transactional_id, batch_size=batch_size, compression=compression, acks=acks
        )
    from kstore.client.producer import MultiTopicProducer, Producer

    settings: _Settings = {
        "batch_size": batch_size,
        "linger_ms": linger_ms,
        "compression": compression,
        "acks": acks,
        "buffer_memory": buffer_memory,
        "max_block_ms": max_block_ms,
        "partitioner": as_partitioner(partitioner),
        "enable_idempotence": enable_idempotence,
    }
    opened: Producer | MultiTopicProducer
    if topic is None:
        opened = MultiTopicProducer(self, **settings)
    else:
        opened = Producer(self.topic(topic), **settings)
    _keep(self, opened._sender)  # its thread keeps it until all is delivered
    return opened


def _keep(store: "Store", client: "Closable") -> None:
    """Have the store's ``close`` close a client; where that has begun, close it: ClosedError."""
    try:
        with store._lock:
            store._check_not_closing()
            store._dependants.add(client)
    except ClosedError:
        client.close()
        raise


def _check_without_linger(**settings: "float | timedelta") -> None:
    """Raise TypeError for settings of a producer's thread, which a transactional one has not."""
    for name, value in settings.items():
        if value != (producer.__kwdefaults__ or {})[name]:
            raise TypeError(
                f"a transactional producer has no {name}: it appends a batch when it is full, and "
                "the rest with the commit"
            )


def _one_of(own: T | None, kafkas: T | None, name: str, kafkas_name: str) -> T | None:
    """The value of a setting that has two names; TypeError for two values."""
    if own is not None and kafkas is not None and own != kafkas:
        raise TypeError(f"{name} and {kafkas_name} are the same: pass one of them")
    return kafkas if own is None else own


def consumer(
    self: "Store",
    *topic: str | Iterable[str] | None,
    group: str | None = None,
    group_id: str | None = None,
    enable_auto_commit: Literal[False] | None = None,
    topics: str | Iterable[str] = (),
    assignment: Iterable[tuple[str, int]] = (),
    auto_offset_reset: str = "earliest",
    max_poll_records: int = 500,
    timeout: "Seconds" = None,
    isolation_level: str = "read_uncommitted",
    metadata_max_age_ms: "int | timedelta" = 1000,
    max_poll_interval_ms: "int | timedelta" = 300_000,
    on_assign: "OnRebalance | None" = None,
    on_revoke: "OnRebalance | None" = None,
    on_lost: "OnRebalance | None" = None,
    **unknown: Never,
) -> "Consumer":
    """A consumer of all partitions of one or several topics, of an ``assignment``, or of both.

    ``store.consumer("orders", group="billing")``. Partitions added later are read from their
    beginning. Several consumers of a group and this store share the partitions of their topics, by
    Kafka's range assignor; with a broker that serves the store, so do the group's clients.

    Raises GroupConflictError if another process, or a consumer with an ``assignment``, reads one
    of the partitions for the group; UnknownTopicOrPartitionError, InvalidConfigError, and TypeError
    for a setting that does not exist. Safe to call from any thread.

    Parameters
    ----------
    topic, topics
        Names of topics: one, several, or a list of them. ``topics=`` is the same as a keyword.
    group, group_id
        The group whose committed offsets to use; None reads without committed offsets. The second
        is Kafka's name of it.
    enable_auto_commit
        Only False: ``with batch:`` or ``commit`` commit what was processed. Said explicitly, it
        also means that the program may commit nothing: ``close`` does not warn of it then.
    assignment
        Individual partitions to read, as pairs of topic and number. The group does not share them,
        nor, if a call has both, the topics.
    auto_offset_reset
        Where to begin without a committed offset, or with one outside the log:
        ``"earliest"`` (Kafka's clients say ``latest`` by default), ``"latest"``, or
        ``"none"`` for an error.
    max_poll_records
        The most records in one batch.
    timeout
        Seconds without a record after which iteration ends; None waits for more.
    isolation_level
        ``"read_committed"``: only records of committed transactions and non-transactional records.
    metadata_max_age_ms
        How often a store with ``mode="r"`` checks for partitions that another process created.
    max_poll_interval_ms
        How long the group's other members wait in a rebalance for this consumer to poll; then they
        get its partitions.
    on_assign, on_revoke, on_lost
        Kafka's ConsumerRebalanceListener, called in a poll as ``on_revoke(consumer, partitions)``.
        ``on_assign``: after the group has assigned partitions. ``on_revoke``: before a rebalance or
        ``close`` takes them; it may commit what was processed. ``on_lost``: when other members may
        have them already; if None, ``on_revoke`` is called.
    """
    self._check()
    for name in unknown:
        if name != "auto_commit" or unknown[name]:  # False is what every consumer does
            raise unknown_setting(consumer, name)
    if enable_auto_commit:
        raise unknown_setting(consumer, "enable_auto_commit")
    group = _one_of(group, group_id, "group", "group_id")
    for each in topic:
        if isinstance(each, dict) and not all(name in self for name in each):
            raise settings_in_a_dict(consumer, each, "'orders'")
    from kstore.client.consumer import Consumer
    from kstore.coordinator.group.store_group import StoreGroup

    pairs = [as_topic_partition(pair) for pair in _not_a_handle(assignment)]
    names = _as_names(topics)
    if group is None and len(topic) == 1 and isinstance(topic[0], str) and (names or pairs):
        group = _old_group(self, topic[0], names)
    else:
        names += [name for each in topic if each is not None for name in _as_names(each)]
        _check_topics(self, names)
    for name, partition in pairs:
        if name in names:
            raise TypeError(
                f"all partitions of {name!r} are read, since it is named: omit it to read "
                f"one, consumer(group={group!r}, assignment=[({name!r}, {partition})])"
            )
    opened = Consumer(
        self,
        None if group is None else StoreGroup(self, group),
        pairs,
        topics=names,
        auto_offset_reset=auto_offset_reset,
        max_poll_records=max_poll_records,
        timeout=timeout,
        isolation_level=isolation_level,
        metadata_max_age_ms=metadata_max_age_ms,
        max_poll_interval_ms=max_poll_interval_ms,
        on_assign=on_assign,
        on_revoke=on_revoke,
        on_lost=on_lost,
        enable_auto_commit=enable_auto_commit,
    )
    _keep(self, opened)
    return opened


def _as_names(topics: str | Iterable[str]) -> list[str]:
    return [topics] if isinstance(topics, str) else list(_not_a_handle(topics))


def _not_a_handle(names: Iterable[T]) -> Iterable[T]:
    """Return the names; raise TypeError for a Log or Topic, whose records would be read instead."""
    topic = getattr(names, "topic", None)
    partition = 0 if topic is None else getattr(names, "partition", 0)
    if topic is None and hasattr(names, "partition_for"):
        topic = getattr(names, "name", None)
    if topic is None:
        return names
    raise TypeError(
        f"a consumer takes names: consumer({topic!r}) reads a topic, and "
        f"consumer(assignment=[({topic!r}, {partition})]) one partition"
    )


def _check_topics(store: "Store", names: list[str]) -> None:
    """Raise UnknownTopicOrPartitionError for a name that may be a group's."""
    for name in names:
        if name not in store:
            error = store._catalog.unknown(name)
            error.reason += f". If it is a group, write group={name!r}"
            raise error.at()


def _old_group(store: "Store", name: str, topics: list[str]) -> str:
    """The group of a call written for an earlier kstore, in which the first argument was the group.

    With ``topics`` the call has only that meaning. With only an ``assignment``, a name that is also
    a topic's is rejected.
    """
    if not topics and name in store:
        raise InvalidConfigError(
            f"{name!r} is a topic: write consumer(group=..., assignment=...) for partitions of a "
            f"group, or consumer(topics={name!r}, assignment=...) without a group"
        )
    warnings.warn(
        f"the first argument of consumer() is a topic: write group={name!r}",
        DeprecationWarning,
        stacklevel=3,
    )
    return name


def transactional_producer(
    self: "Store",
    transactional_id: str,
    *,
    timeout_ms: "int | timedelta" = 60_000,
    batch_size: int | None = None,
    compression: str | None = None,
    acks: int | str = "all",
    **unknown: Never,
) -> "TransactionalProducer":
    """A producer that writes to any partitions of any topics atomically.

    Raises InvalidConfigError, InvalidTransactionTimeoutError, ReadOnlyError, and TypeError for a
    setting that does not exist. For one transaction, :meth:`transaction` is shorter.

    Parameters
    ----------
    transactional_id
        A name that stays the same over restarts. An earlier producer with this id is fenced,
        and its open transaction is aborted.
    timeout_ms
        How long a transaction may take before it is aborted and its producer fenced.
    batch_size, compression
        As for :meth:`producer`.
    acks
        ``"all"``: a commit returns when it is on disk; ``1``: when the operating system has
        it.
    """
    self._check_writable()
    _check_transactional(transactional_id, unknown)
    from kstore.client.transactional_producer import TransactionalProducer

    opened = TransactionalProducer(
        self,
        transactional_id,
        timeout_ms=timeout_ms,
        batch_size=batch_size,
        compression=compression,
        acks=acks,
    )
    _keep(self, opened)
    return opened


class TransactionBlock(AbstractContextManager["TransactionalProducer"]):
    """A transaction that begins and ends with its ``with`` block: ``Store.transaction``."""

    def __init__(self, block: AbstractContextManager["TransactionalProducer"]) -> None:
        self._block = block

    def __enter__(self) -> "TransactionalProducer":
        return self._block.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> bool | None:
        return self._block.__exit__(kind, error, traceback)

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = no_asyncio(TRANSACTION_IN_ASYNCIO, "a transaction")

        def __getattr__(self, name: str) -> Never:
            raise AttributeError(
                f"a transaction has no {name!r} outside of its block: use `with "
                "store.transaction('id') as transaction: transaction.send(...)`, or "
                "store.transactional_producer('id') for begin_transaction(), "
                "commit_transaction() and abort_transaction()"
            )


def transaction(
    self: "Store",
    transactional_id: str,
    *,
    timeout_ms: "int | timedelta" = 60_000,
    batch_size: int | None = None,
    compression: str | None = None,
    acks: int | str = "all",
    **unknown: Never,
) -> TransactionBlock:
    """One transaction: commits at the end of the block, aborts if the block raises.

    ``with store.transaction("billing") as transaction: transaction.send("orders", b"paid")``.
    Each call takes a new producer epoch, which fences an earlier producer of this id; for many
    transactions, keep a :meth:`transactional_producer`. Parameters and errors are the same.
    """
    _check_transactional(transactional_id, unknown)
    settings = {"timeout_ms": timeout_ms, "batch_size": batch_size, "compression": compression}
    return TransactionBlock(_transaction(self, transactional_id, **settings, acks=acks))


@contextmanager
def _transaction(
    self: "Store", transactional_id: str, **settings: Any
) -> Iterator["TransactionalProducer"]:
    with (
        transactional_producer(self, transactional_id, **settings) as opened,
        opened.transaction(),
    ):
        yield opened


def _check_transactional(transactional_id: object, unknown: Iterable[str]) -> None:
    """Raise TypeError for an unknown setting, and for settings instead of the id."""
    for name in unknown:
        raise unknown_setting(transactional_producer, name)
    if isinstance(transactional_id, dict):
        first = repr(transactional_id.get("transactional.id", "id"))
        raise settings_in_a_dict(transactional_producer, transactional_id, first)
    if isinstance(transactional_id, str) and utf8_size(transactional_id) < 0:
        raise InvalidConfigError(f"a transactional.id is UTF-8 text, not {transactional_id!r}")
