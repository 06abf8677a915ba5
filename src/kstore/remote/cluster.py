"""Finds brokers and leaders, and retries requests after retriable errors."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from kstore.errors import ForkedError, InvalidConfigError, KStoreError, SourceError
from kstore.integers import check_seconds
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.remote.answer_errors import error_of, is_retriable
from kstore.remote.authentication import AuthenticationFailedError
from kstore.remote.client_metrics import ClientMetrics
from kstore.remote.connection import (
    Answer,
    Begun,
    Connection,
    Request,
    UndecodableResponseError,
)
from kstore.security.client_settings import ClientSecurity

if TYPE_CHECKING:
    from kstore.integers import Seconds

_PLAINTEXT = ClientSecurity()
Result = TypeVar("Result")
_PAUSE = 0.1  # seconds between two attempts
_SHORTEST, _LONGEST = 0.001, 1e6  # seconds; a socket takes at most 24 days, and 0 is no waiting
ZERO_UUID = bytes(16)
TopicEntry = MetadataResponse.Topics


def parse_servers(text: str, *, option: str = "--bootstrap-server") -> list[tuple[str, int]]:
    """Parse ``host:port,host:port``, the value of an option. Raises InvalidConfigError."""
    found = []
    for server in text.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidConfigError(
                f"{option} is host:port or a comma-separated list of them, not {server!r}"
            )
        found.append((host.strip("[]"), int(port)))
    return found


def _bounded(timeout: "Seconds") -> float:
    """A timeout that a socket takes; None is the longest."""
    seconds = check_seconds("timeout", timeout)
    return _LONGEST if seconds is None else min(max(seconds, _SHORTEST), _LONGEST)


class Cluster:
    """Connections to the brokers of a cluster. For one thread at a time; ``close`` it after use.

    A forked child can only close its copies: a request on them would mix with those of its parent,
    and receive their responses. Every other method raises ForkedError there.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "kstore",
        timeout: "Seconds" = 30.0,
        security: ClientSecurity = _PLAINTEXT,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.metrics = ClientMetrics() if metrics is None else metrics
        self._pid = os.getpid()
        self.bootstrap_servers = bootstrap_servers
        self._servers = parse_servers(bootstrap_servers)
        self._client_id = client_id
        self._timeout = _bounded(timeout)
        self.has_patience = True  # False: :meth:`retrying` makes one attempt
        self._security = security
        self._connections: dict[int, Connection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._racks: dict[int, str | None] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self.coordinators: dict[tuple[int, str], int] = {}  # nodes by kind and key
        self._bootstrap: Connection | None = None
        self._failed: dict[tuple[str, int], None] = {}  # addresses to be tried last, in this order
        self._reports_versions = False  # whether one of its brokers has answered ApiVersions
        self.controller_id = -1
        self.cluster_id: str | None = None
        try:
            self.metadata([])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections. Idempotent."""
        connections = [*self._connections.values()]
        self._connections.clear()
        if self._bootstrap is not None:
            connections.append(self._bootstrap)
            self._bootstrap = None
        for connection in connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- connections ----------------------------------------------------------------------

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child of the process that opened the connections."""
        return self._pid != os.getpid()

    def _check_process(self) -> None:
        if self.is_forked:
            raise ForkedError(
                "these connections to a cluster were opened before a fork; open new ones here"
            )

    def _any(self) -> Connection:
        """A connection to one of the bootstrap servers, or brokers, which stays open."""
        self._check_process()
        if self._bootstrap is not None:
            return self._bootstrap
        problem: SourceError | None = None
        for address in self._candidates():
            try:
                self._bootstrap = self._open(*address)
                return self._bootstrap
            except SourceError as error:
                self._try_last(address)
                problem = error
        assert problem is not None
        raise problem

    def _candidates(self) -> list[tuple[str, int]]:
        """The addresses for a request to any broker; those that failed last are the last."""
        known = dict.fromkeys([*self._servers, *self._addresses.values()])
        failed = [each for each in self._failed if each in known]
        return [*(each for each in known if each not in self._failed), *failed]

    def _try_last(self, address: tuple[str, int]) -> None:
        self._failed.pop(address, None)
        self._failed[address] = None

    def _open(self, host: str, port: int) -> Connection:
        connection = Connection(
            host,
            port,
            client_id=self._client_id,
            timeout=self._timeout,
            security=self._security,
            may_be_old=not self._reports_versions,
            metrics=self.metrics,
        )
        self._reports_versions = self._reports_versions or bool(connection.versions)
        return connection

    def _node(self, node_id: int) -> Connection:
        self._check_process()
        connection = self._connections.get(node_id)
        if connection is None:
            connection = self._connections[node_id] = self._open(*self.address(node_id))
        return connection

    def ask(
        self,
        request: Request,
        response: type[Answer],
        *,
        node: int | None = None,
        timeout: float = 0.0,
        highest: int | None = None,
    ) -> Answer:
        """Send a request to one broker, by default any, in a version up to ``highest``.

        The next request replaces a failed connection.
        """
        connection = self._any() if node is None else self._node(node)
        try:
            return connection.ask(request, response, timeout=timeout, highest=highest)
        except (SourceError, AuthenticationFailedError):
            self._drop(node)
            raise
        except KStoreError:
            raise
        except BaseException:  # interrupted: the next request would get this one's response
            self._drop(node)
            raise

    def ask_each(
        self,
        requests: Sequence[tuple[int, Request]],
        response: type[Answer],
        *,
        timeout: float = 0.0,
        highest: int | None = None,
    ) -> list[Answer | KStoreError]:
        """Send requests to the brokers of these ids, then receive the responses, in order.

        The brokers work at the same time. An error is returned instead of the response; the next
        request replaces a failed connection.
        """
        self._check_process()
        answers: list[Answer | KStoreError] = []
        begun: list[tuple[Connection, Begun] | KStoreError] = []
        try:
            for node, request in requests:
                begun.append(self._begin(node, request, timeout, highest))
            for (node, _), each in zip(requests, begun, strict=True):
                if isinstance(each, KStoreError):
                    answers.append(each)
                    continue
                try:
                    answers.append(each[0].finish(each[1], response))
                except KStoreError as error:
                    self._drop_failed(node, each[0])
                    answers.append(error)
        except BaseException:  # interrupted: the next requests would get these ones' responses
            for node, _ in requests:
                self._drop(node)
            raise
        return answers

    def _begin(
        self, node: int, request: Request, timeout: float, highest: int | None
    ) -> tuple[Connection, Begun] | KStoreError:
        try:
            connection = self._node(node)
        except KStoreError as error:
            return error
        try:
            return connection, connection.begin(request, timeout=timeout, highest=highest)
        except (SourceError, AuthenticationFailedError) as error:
            self._drop_failed(node, connection)
            return error
        except KStoreError as error:
            return error

    def _drop_failed(self, node: int, connection: Connection) -> None:
        """Close a connection that failed; the next request may have replaced it already."""
        if self._connections.get(node) is connection:
            del self._connections[node]
        connection.close()

    def learn(self, node_id: int, host: str, port: int) -> None:
        """Remember the address of a broker from a response."""
        self._addresses[node_id] = (host, port)

    def address(self, node_id: int) -> tuple[str, int]:
        """Host and port of a broker. Raises SourceError for an unknown broker."""
        found = self._addresses.get(node_id)
        if found is None:
            raise SourceError(f"the cluster has no broker {node_id}")
        return found

    def rack(self, node_id: int) -> str | None:
        """The rack of a broker, None if it has none."""
        return self._racks.get(node_id)

    def versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """The lowest and highest version of each request that a broker supports, by its key."""
        return self._node(node_id).versions

    def _drop(self, node: int | None) -> None:
        connection = self._bootstrap if node is None else self._connections.pop(node, None)
        if node is None:
            self._bootstrap = None
            if connection is not None:
                self._try_last(connection.where)
        if connection is not None:
            connection.close()

    def send(self, request: Request, *, node: int, highest: int | None = None) -> None:
        """Send a request that gets no response. The next request replaces a failed connection."""
        try:
            self._node(node).send(request, highest)
        except (SourceError, AuthenticationFailedError):
            self._drop(node)
            raise

    # --- metadata -------------------------------------------------------------------------

    def metadata(
        self, topics: Iterable[str] | None, *, may_create: bool = False
    ) -> dict[str, TopicEntry]:
        """Request the metadata of these topics (None: of all), and remember brokers and leaders.

        Returns entries by name, which may have error codes. With ``may_create`` a broker that
        creates topics on demand creates those that are missing.
        """
        wanted = None if topics is None else [MetadataRequest.Topics(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        answer = self._ask_in_turn(request, MetadataResponse)
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self._racks = {each.node_id: each.rack for each in answer.brokers}
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        found = {}
        for topic in answer.topics:
            name = topic.name or ""
            found[name] = topic
            self._topic_ids[name] = topic.topic_id
            for partition in topic.partitions:
                self._leaders[name, partition.partition_index] = partition.leader_id
        return found

    def _ask_in_turn(self, request: Request, response: type[Answer]) -> Answer:
        """Ask any broker; if it does not respond, the others, each once."""
        attempts = len(self._candidates())
        while True:
            address = self._any().where  # raises if none accepts a connection
            attempts -= 1
            try:
                answer = self.ask(request, response)
            except SourceError:
                if attempts <= 0:
                    raise
            else:
                self._failed.pop(address, None)
                return answer

    @property
    def nodes(self) -> list[int]:
        """The ids of the brokers in the latest metadata."""
        return sorted(self._addresses)

    @property
    def controller(self) -> int | None:
        """The controller, which changes topics; None: any broker."""
        return self.controller_id if self.controller_id in self._addresses else None

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition.

        Raises UnknownTopicOrPartitionError, or SourceError if no broker leads it.
        """
        node = self._leaders.get((topic, partition), -1)
        if node < 0:
            entry = self.metadata([topic]).get(topic)
            if entry is not None and entry.error_code:
                raise error_of(entry.error_code, None, topic)
            node = self._leaders.get((topic, partition), -1)
            if entry is None or partition not in {
                each.partition_index for each in entry.partitions
            }:
                raise error_of(3, None, f"{topic}-{partition}")
            if node < 0:
                raise error_of(5, None, f"{topic}-{partition}")
        return node

    def topic_id(self, topic: str) -> bytes:
        """The topic's id in the latest metadata; zeros if the broker has no ids."""
        return self._topic_ids.get(topic) or ZERO_UUID

    def has_topic_id(self, topic: str) -> bool:
        """Whether fetches may use the topic id, which they must since version 13."""
        return self.topic_id(topic) != ZERO_UUID

    def forget_leader(self, topic: str, partition: int) -> None:
        """Look up the leader again at the next use."""
        self._leaders.pop((topic, partition), None)

    def retrying(
        self,
        attempt: Callable[[], Result],
        *,
        forget: tuple[str, int] | None,
        pause: float | None = None,
    ) -> Result:
        """Call ``attempt`` until it succeeds, raises a non-retriable error, or the timeout
        expires; with a pause in between of 0.1 seconds, or another one."""
        deadline = time.monotonic() + (self._timeout if self.has_patience else 0.0)
        while True:
            try:
                return attempt()
            except KStoreError as error:
                if forget is not None:
                    self.forget_leader(*forget)
                passes = isinstance(error, SourceError) or is_retriable(error.code)
                passes = passes and not isinstance(error, UndecodableResponseError)
                if not passes or error.code == 3 or time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE if pause is None else pause)
