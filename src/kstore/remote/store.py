"""Presents a cluster to the tools as a store."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Self, cast

from kstore.client.producer import Producer
from kstore.errors import InvalidConfigError
from kstore.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kstore.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kstore.remote.answer_errors import error_of, raise_for
from kstore.remote.client_metrics import ClientMetrics
from kstore.remote.cluster import Cluster
from kstore.remote.consumer import RemoteConsumer
from kstore.remote.group_consumer import GroupConsumer
from kstore.remote.produce_counts import prepare_counts
from kstore.remote.remote_log import only
from kstore.remote.topic import RemoteTopic
from kstore.remote.transactional_id import TransactionalId
from kstore.remote.transactional_producer import RemoteTransactionalProducer
from kstore.security.client_settings import ClientSecurity

if TYPE_CHECKING:
    from kstore.integers import Seconds

_PLAINTEXT = ClientSecurity()
_TIMEOUT_MS = 30_000
_BROKERS_CHOICE = -1  # use the broker's default partitions and replication factor (KIP-464)


class RemoteStore(Mapping[str, RemoteTopic]):
    """A cluster's topics by name; each lookup requests the topic's metadata.

    For one thread at a time, except its producers, which send on their own threads. ``close`` it,
    or use it in ``with``. Methods raise SourceError if no broker responds, and kstore's exceptions
    with Kafka's code and message if one returns an error.

    Parameters
    ----------
    bootstrap_servers
        ``host:port``, or a comma-separated list.
    timeout
        Time after which a request without a response fails, and for which temporary errors are
        retried: seconds, or a ``timedelta``; None: eleven days.
    client_id
        The client id in requests.
    security
        How its connections are encrypted and authenticated; by default not.
    metrics
        Count what the connections and their clients do, including producers; by default its own.
    """

    writable = True

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        timeout: "Seconds" = 30.0,
        client_id: str = "kstore",
        security: ClientSecurity = _PLAINTEXT,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_id = client_id
        self._timeout = timeout
        self._security = security
        self.cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            timeout=timeout,
            security=security,
            metrics=metrics,
        )
        self._of_producers: list[RemoteStore] = []

    def close(self) -> None:
        """Close the connections, including those of producers. Idempotent."""
        self.cluster.close()
        while self._of_producers:
            self._of_producers.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the mapping ------------------------------------------------------------------------

    def __getitem__(self, name: str) -> RemoteTopic:
        entry = self.cluster.metadata([name]).get(name)
        if entry is None or entry.error_code:
            raise error_of(3 if entry is None else entry.error_code, None, f"topic {name!r}")
        return RemoteTopic(self, entry)

    def __iter__(self) -> Iterator[str]:
        found = self.cluster.metadata(None)
        return iter(sorted(name for name, entry in found.items() if not entry.error_code))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        entry = self.cluster.metadata([name]).get(name)
        return entry is not None and not entry.error_code

    # --- changes of topics ------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; None: the broker's default number of partitions and replicas.

        ``assignment``: the brokers of each partition, in place of the two numbers.
        """
        configs = [
            CreateTopicsRequest.Topics.Configs(name=key, value=value)
            for key, value in (config or {}).items()
        ]
        asked = CreateTopicsRequest.Topics(
            name=name,
            num_partitions=_BROKERS_CHOICE if partitions is None else partitions,
            replication_factor=(
                _BROKERS_CHOICE if replication_factor is None else replication_factor
            ),
            assignments=[
                CreateTopicsRequest.Topics.Assignments(partition_index=number, broker_ids=brokers)
                for number, brokers in enumerate(map(list, assignment or ()))
            ],
            configs=configs,
        )
        request = CreateTopicsRequest(
            topics=[asked], timeout_ms=_TIMEOUT_MS, validate_only=validate_only
        )
        answer = self.cluster.ask(request, CreateTopicsResponse, node=self.cluster.controller)
        found = only(answer.topics, name)
        raise_for(found.error_code, found.error_message, name)

    def add_partitions(
        self,
        name: str,
        partitions: int,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to a topic until it has this many.

        ``assignment``: the brokers of each partition, also of those that the topic has.
        """
        assignments = None
        if assignment is not None:
            added = assignment[len(self[name]) :]
            assignments = [
                CreatePartitionsRequest.Topics.Assignments(broker_ids=list(brokers))
                for brokers in added
            ]
        asked = CreatePartitionsRequest.Topics(name=name, count=partitions, assignments=assignments)
        request = CreatePartitionsRequest(
            topics=[asked], timeout_ms=_TIMEOUT_MS, validate_only=validate_only
        )
        answer = self.cluster.ask(request, CreatePartitionsResponse, node=self.cluster.controller)
        found = only(answer.results, name)
        raise_for(found.error_code, found.error_message, name)

    def alter_topic(
        self, name: str, config: Mapping[str, object], *, unset: Iterable[str] = ()
    ) -> None:
        """Change some settings of a topic and leave the others."""
        self[name].alter(config, unset=unset)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.Topics(name=name)],
            topic_names=[name],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = self.cluster.ask(request, DeleteTopicsResponse, node=self.cluster.controller)
        found = only(answer.responses, name)
        raise_for(found.error_code, found.error_message, name)

    # --- records ----------------------------------------------------------------------------

    def producer(self, topic: str, *, acks: int | str = "all", **options: Any) -> Producer:
        """A producer for a topic; options as in :meth:`kstore.Store.producer`.

        It has its own connections, because it sends on its own thread. Close it before the store.
        """
        handle = self._open_topic(topic)
        handle.acks = -1 if acks in ("all", -1) else int(acks)
        return Producer(cast(Any, handle), acks=acks, **options)

    def transactional_producer(
        self, topic: str, transactional_id: str, *, timeout_ms: int = 60_000, **options: Any
    ) -> RemoteTransactionalProducer:
        """A producer whose records are in transactions, which a newer one of the same
        ``transactional_id`` fences; other options as in :meth:`kstore.Store.producer`.

        The coordinator aborts a transaction that takes longer than ``timeout_ms``. Close it before
        the store.
        """
        if options.setdefault("acks", "all") not in ("all", -1):
            raise InvalidConfigError("acks must be 'all' for transactions")
        if not options.pop("enable_idempotence", True):
            raise InvalidConfigError("transactions need enable.idempotence=true")
        handle = self._open_topic(topic)
        cluster = handle.store.cluster
        began = perf_counter_ns()
        handle.transactions = TransactionalId(cluster, transactional_id, timeout_ms)
        handle.transactions.init()
        cluster.metrics.add("txn-init-time-ns", perf_counter_ns() - began)
        producer = Producer(cast(Any, handle), **options)
        return RemoteTransactionalProducer(producer, handle.transactions, cluster.metrics)

    def _open_topic(self, topic: str) -> RemoteTopic:
        """A topic with connections of its own, for a producer."""
        store = RemoteStore(
            self.bootstrap_servers,
            timeout=self._timeout,
            client_id=self.client_id,
            security=self._security,
            metrics=self.cluster.metrics,
        )
        self._of_producers.append(store)
        prepare_counts(store.cluster.metrics, topic)
        return store[topic]

    def consumer(
        self,
        *,
        assignment: Iterable[tuple[str, int]],
        auto_offset_reset: str = "latest",
        isolation_level: str = "read_uncommitted",
    ) -> RemoteConsumer:
        """A consumer of these partitions, without a group."""
        return RemoteConsumer(self, assignment, auto_offset_reset, isolation_level)

    def group_consumer(
        self,
        group: str,
        topics: Callable[[], Sequence[str]],
        *,
        auto_offset_reset: str = "latest",
        isolation_level: str = "read_uncommitted",
        **options: Any,
    ) -> GroupConsumer:
        """A group member that subscribes to the topics that ``topics()`` returns; further options
        as in :class:`GroupConsumer`."""
        return GroupConsumer(self, group, topics, auto_offset_reset, isolation_level, **options)
