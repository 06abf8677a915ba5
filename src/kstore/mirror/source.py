"""A topic of a live cluster as the mirror needs it: metadata, offsets, batches."""

import logging
import time
from collections.abc import Mapping, Sequence

from kstore.errors import (
    InvalidConfigError,
    KStoreError,
    SourceChangedError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.mirror.settings import ConnectionSettings, connection_settings
from kstore.mirror.source_types import PASSING, Fetched, Position, TopicDescription
from kstore.partition_files import uuid_to_text
from kstore.remote.answer_errors import error_of, exception_name
from kstore.remote.cluster import ZERO_UUID, Cluster, TopicEntry
from kstore.remote.connection import UndecodableResponseError
from kstore.remote.fetches import TopicLeaders, fetch_partitions
from kstore.remote.offsets import ask_offsets
from kstore.topic_partition import TopicPartition

_LOGGER = logging.getLogger("kstore")

UNKNOWN_TOPIC_OR_PARTITION = 3

_HINT = "A broker closes the connection if authentication or the security protocol is wrong"
_PATIENCE = 30.0  # seconds for temporary errors
_PAUSE = 0.2  # seconds between two attempts


class KafkaSource:
    """A topic of a live cluster. Used by one thread; ``close`` it, or use it in ``with``.

    Every method raises SourceError if the cluster does not answer within ``patience``
    seconds.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        *,
        settings: Mapping[str, object] | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        """``settings``: those of Kafka's clients, such as ``security.protocol`` and
        ``sasl.mechanism``. Raises InvalidConfigError for wrong ones, for kafka-python's names, and
        for an address without a port.
        """
        self.topic = topic
        self._patience = patience
        self._servers = (
            bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        )
        self._leaders: dict[int, int] = {}
        self._id = ZERO_UUID
        self._failed: dict[int, KStoreError] = {}  # why the last fetch has no answer
        self._cluster = self._connect(connection_settings(settings or {}))

    def _connect(self, settings: ConnectionSettings) -> Cluster:
        timeout = min(self._patience, _PATIENCE) if settings.timeout is None else settings.timeout
        deadline = time.monotonic() + self._patience
        first: KStoreError | None = None
        while True:
            try:
                return Cluster(
                    self._servers,
                    client_id=settings.client_id,
                    timeout=timeout,
                    security=settings.security,
                )
            except KStoreError as error:
                self._check_passing(error)
                if first is None:
                    first = error
                    _LOGGER.warning(
                        "no answer from Kafka at %s: %s; trying again for up to %g s",
                        self._servers, error, self._patience,
                    )  # fmt: skip
                if time.monotonic() > deadline:
                    raise self._unreachable(f"{error}; at first: {first}. {_HINT}") from error
            time.sleep(_PAUSE)

    def _unreachable(self, error: BaseException | str) -> SourceError:
        return SourceError(f"cannot talk to Kafka at {self._servers}: {error}")

    def _check_passing(self, error: KStoreError) -> None:
        """Raise unless it may pass by itself: a lost connection does, a wrong password does not."""
        if isinstance(error, InvalidConfigError):  # an address, or a file of the settings
            raise error
        is_garbage = isinstance(error, UndecodableResponseError)
        if is_garbage or (error.code not in PASSING and not isinstance(error, SourceError)):
            raise self._unreachable(error) from error

    def close(self) -> None:
        """Close the connections; again is harmless."""
        self._cluster.close()

    def __enter__(self) -> "KafkaSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sentence(self, code: int) -> str:
        """Kafka's name for an error code, and what it means."""
        error = error_of(code, None, "")
        return f"{exception_name(error).rpartition('.')[2]}: {error.reason}"

    def leader_of(self, partition: int) -> str:
        """The broker that leads a partition, and its address, for a sentence."""
        node = self._leaders.get(partition, -1)
        if node < 0:
            return "no broker"
        try:
            host, port = self._cluster.address(node)
        except SourceError:  # the latest metadata do not list it
            return f"broker {node}"
        return f"broker {node} at {host}:{port}"

    def problem(self, partition: int) -> str:
        """Why the last fetch has no answer for a partition; empty if that is unknown."""
        leader = self.leader_of(partition)
        if self._leaders.get(partition, -1) < 0:
            return f"{leader} leads it"
        failed = self._failed.get(partition)
        return f"{leader} sends no answer for it" if failed is None else f"{leader}: {failed}"

    # --- requests -------------------------------------------------------------------------

    def describe(self) -> TopicDescription:
        """Fetch the topic's metadata; updates the partition leaders.

        Raises UnknownTopicOrPartitionError where there is no such topic.
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                found = self._ask_metadata()
            except KStoreError as error:
                self._check_passing(error)
                if time.monotonic() > deadline:
                    raise self._unreachable(error) from error
            else:
                if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopicOrPartitionError(
                        f"there is no topic {self.topic!r} in the cluster at {self._servers}"
                    )
                return self._learn(found)
            time.sleep(_PAUSE)

    def _ask_metadata(self) -> TopicEntry:
        """The topic's entry; raises the error that it has, unless there is no such topic."""
        found = self._cluster.metadata([self.topic]).get(self.topic)
        if found is None:
            raise UndecodableResponseError(f"the answer is not about topic {self.topic!r}")
        if found.error_code not in (0, UNKNOWN_TOPIC_OR_PARTITION):
            raise error_of(found.error_code, None, self.topic)
        return found

    def _learn(self, found: TopicEntry) -> TopicDescription:
        leaders = {each.partition_index: each.leader_id for each in found.partitions}
        if not leaders or sorted(leaders) != list(range(len(leaders))):
            raise self._unreachable(
                f"the cluster reports partitions {sorted(leaders)[:9]}, not 0 to n"
            )
        self._leaders, self._id = leaders, found.topic_id
        topic_id = None if self._id == ZERO_UUID else uuid_to_text(self._id)
        return TopicDescription(self.topic, topic_id, len(leaders))

    def offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]:
        """The first offset of each partition (when: EARLIEST), or its high watermark (LATEST).

        Raises SourceChangedError if the topic is created again meanwhile.
        """
        found: dict[TopicPartition, int] = {}
        wanted = [TopicPartition(self.topic, each) for each in partitions]
        topic_id = self._id
        deadline = time.monotonic() + self._patience
        while True:
            left = [each for each in wanted if each not in found]
            problem: KStoreError | None = None
            try:
                found |= ask_offsets(self._cluster, left, when)
            except KStoreError as error:
                self._check_passing(error)
                problem = error
            # Looking for a leader fetches the metadata, too.
            if self._id != topic_id or self._cluster.topic_id(self.topic) != topic_id:
                raise SourceChangedError(
                    f"topic {self.topic!r} was created again in the cluster while its offsets were "
                    "fetched. Nothing was changed here"
                )
            if len(found) == len(wanted):
                return {each.partition: offset for each, offset in found.items()}
            if time.monotonic() > deadline:
                raise self._unreachable(problem or f"no offsets of partitions {left[:9]}")
            time.sleep(_PAUSE)
            self.describe()

    def fetch(
        self,
        positions: Mapping[int, Position],
        *,
        max_wait_ms: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> dict[int, Fetched]:
        """Batches from each position on, as their leaders have them on disk; what was answered.

        A partition whose leader could not be asked is not in the answer. ``describe`` again then.
        """
        self._failed = {}
        try:
            return fetch_partitions(
                self._cluster,
                TopicLeaders(self.topic, self._id, self._leaders),
                positions,
                max_wait_ms=max_wait_ms,
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
                failed=self._failed,
            )
        except KStoreError as error:
            raise self._unreachable(error) from error
