"""A topic of a live cluster as the mirror needs it: metadata, offsets, batches.

The requests, their encoding and the connections are kafka-python's. Each is sent in the highest
version that both sides support, in which a broker returns batches as they are on its disk: only a
lower version than the broker's own makes it convert them.
"""

import logging
import ssl
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kstore.errors import KStoreError, SourceError, UnknownTopicOrPartitionError
from kstore.mirror.settings import of_the_client
from kstore.mirror.source_types import PASSING, Fetched, Position, TopicDescription
from kstore.partition_files import uuid_to_text

try:
    import kafka.errors
    from kafka.net import KafkaConnectionManager, NetworkSelector
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
    from kafka.protocol.metadata import MetadataRequest
except ImportError as error:
    raise ImportError(
        "mirroring needs kafka-python 3: install it by `pip install 'kstore[mirror]'`"
    ) from error

_LOGGER = logging.getLogger("kstore")

UNKNOWN_TOPIC_OR_PARTITION = 3

_SETTINGS = NetworkSelector.DEFAULT_CONFIG | KafkaConnectionManager.DEFAULT_CONFIG
_HINT = (
    "A broker closes the connection if authentication or the security protocol is wrong, and "
    "before 0.10 on an ApiVersions request: set api_version=0.8.2"
)
_PATIENCE = 30.0  # seconds for temporary errors
_PAUSE = 0.2  # seconds between two attempts
_UNREADABLE = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    struct.error,
)


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
        settings: Mapping[str, Any] | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        """``settings``: kafka-python's, such as ``security_protocol`` and ``sasl_mechanism``.

        Values may be text from a properties file. Raises InvalidConfigError for an unknown name.
        """
        self.topic = topic
        self._patience = patience
        self._servers = (
            bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        )
        options: dict[str, Any] = {
            "client_id": "kstore-mirror",
            "receive_message_max_bytes": 2**31 - 1,
            **of_the_client(settings or {}, _SETTINGS),
        }
        self._network = NetworkSelector(**options)
        self._leaders: dict[int, int] = {}
        self._id: Any = None
        self._manager: Any = None
        try:
            self._bootstrap(options)
        except BaseException:
            self.close()
            raise

    def _bootstrap(self, options: Mapping[str, Any]) -> None:
        seen = None
        try:
            servers = self._servers.split(",")
            self._manager = KafkaConnectionManager(
                self._network, **{**options, "bootstrap_servers": servers}
            )
            self._network.start()
            seen = self._network.run(self._try_each)
            if seen is not None:
                _LOGGER.warning(
                    "no answer from Kafka at %s: %s; trying again for up to %g s",
                    self._servers, seen, self._patience,
                )  # fmt: skip
            self._manager.bootstrap(timeout_ms=self._patience * 1000)
        except kafka.errors.KafkaTimeoutError as error:
            raise self._unreachable(f"{error}; at first: {seen}. {_HINT}") from error
        except (kafka.errors.KafkaError, OSError, ValueError) as error:
            raise self._unreachable(error) from error

    async def _try_each(self) -> BaseException | None:
        """Connect to one of the servers named; what went wrong with the last, None if one answers.

        Raises errors that a retry cannot fix; kafka-python would retry them silently.
        """
        seen: BaseException | None = None
        for server in self._manager.cluster.bootstrap_brokers():
            connection = self._manager.get_connection(server.node_id, refresh_metadata_on_err=False)
            try:
                await connection
                return None
            except (kafka.errors.KafkaError, OSError) as error:
                seen = error
                if isinstance(error, kafka.errors.SaslAuthenticationFailedError | ssl.SSLError):
                    raise
        return seen

    def _unreachable(self, error: BaseException | str) -> SourceError:
        return SourceError(f"cannot talk to Kafka at {self._servers}: {error}")

    @contextmanager
    def _decoding_response(self) -> Iterator[None]:
        """Raise a SourceError for a response that kafka-python cannot decode, or that is invalid.

        It turns some of them into errors of its own, others into Python's.
        """
        try:
            yield
        except KStoreError:
            raise
        except kafka.errors.KafkaError as error:
            raise self._unreachable(error) from error
        except _UNREADABLE as error:
            raise self._unreachable(f"cannot decode the response: {error!r}") from error

    def close(self) -> None:
        """Close the connections; again is harmless."""
        network, self._network = self._network, None
        if network is None:
            return
        if self._manager is not None:
            self._manager.close()
        network.stop(timeout_ms=5000)
        network.close()

    def __enter__(self) -> "KafkaSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sentence(self, code: int) -> str:
        """Kafka's name for an error code, and what it means."""
        return str(kafka.errors.for_code(code)())

    # --- requests -------------------------------------------------------------------------

    def _send(self, requests: Sequence[tuple[int | None, Any]]) -> list[Any]:
        """Answers to (node, request), in order; an exception of kafka-python's for a failure."""

        async def gather() -> list[Any]:
            futures = []
            for node, request in requests:
                target = self._manager.least_loaded_node() if node is None else node
                try:
                    futures.append(self._manager.send(request, node_id=target))
                except kafka.errors.KafkaError as error:
                    futures.append(error)
            answers = []
            for future in futures:
                try:
                    answers.append(
                        future if isinstance(future, kafka.errors.KafkaError) else await future
                    )
                except kafka.errors.KafkaError as error:
                    answers.append(error)
            return answers

        with self._decoding_response():
            found: list[Any] = self._network.run(gather)
        for answer in found:
            if isinstance(answer, kafka.errors.KafkaError) and not _passes(answer):
                raise self._unreachable(answer)
        return found

    def describe(self) -> TopicDescription:
        """Fetch the topic's metadata; updates the partition leaders.

        Raises UnknownTopicOrPartitionError where there is no such topic.
        """
        wanted = MetadataRequest.MetadataRequestTopic(name=self.topic)
        deadline = time.monotonic() + self._patience
        while True:
            request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
            answer = self._send([(None, request)])[0]
            if not isinstance(answer, kafka.errors.KafkaError):
                with self._decoding_response():
                    found = self._topic_entry(answer.topics)
                if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopicOrPartitionError(
                        f"there is no topic {self.topic!r} in the cluster at {self._servers}"
                    )
                with self._decoding_response():
                    self._manager.cluster.update_metadata(answer)
                    leaders = {each.partition_index: each.leader_id for each in found.partitions}
                if found.error_code == 0 and leaders:
                    if sorted(leaders) != list(range(len(leaders))):
                        raise self._unreachable(
                            f"the cluster reports partitions {sorted(leaders)[:9]}, not 0 to n"
                        )
                    self._leaders = leaders
                    self._id = getattr(found, "topic_id", None)
                    text = uuid_to_text(self._id.bytes) if self._id and self._id.int else None
                    return TopicDescription(self.topic, text, max(leaders) + 1)
                answer = kafka.errors.for_code(found.error_code)(self.topic)
                if found.error_code not in PASSING:
                    raise self._unreachable(answer)
            if time.monotonic() > deadline:
                raise self._unreachable(answer)
            time.sleep(_PAUSE)

    def _topic_entry(self, answers: Sequence[Any]) -> Any:
        """The entry of an answer that is about this topic, by name or by id (from Fetch 13 on)."""
        for each in answers:
            name = getattr(each, "name", None) or getattr(each, "topic", None)
            topic_id = getattr(each, "topic_id", None)
            if name == self.topic or (not name and topic_id is not None and topic_id == self._id):
                return each
        raise self._unreachable(f"the answer is not about topic {self.topic!r}")

    def _by_leader(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for partition in partitions:
            found.setdefault(self._leaders.get(partition, -1), []).append(partition)
        return found

    def offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]:
        """The first offset of each partition (when: EARLIEST), or its high watermark (LATEST)."""
        found: dict[int, int] = {}
        deadline = time.monotonic() + self._patience
        while True:
            left = [each for each in partitions if each not in found]
            if not left:
                return found
            error = self._list_offsets(left, when, found)
            if error is not None:
                if time.monotonic() > deadline:
                    raise self._unreachable(error)
                time.sleep(_PAUSE)
                self.describe()

    def _list_offsets(self, partitions: list[int], when: int, found: dict[int, int]) -> Any:
        """Fill in what leaders answer; returns what went wrong, or None."""
        error = None
        requests = []
        for leader, numbers in self._by_leader(partitions).items():
            if leader < 0:
                error = kafka.errors.LeaderNotAvailableError(f"partitions {numbers}")
                continue
            listed = [
                ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                    partition_index=number, timestamp=when, max_num_offsets=1
                )
                for number in numbers
            ]
            topic = ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=listed)
            requests.append((leader, ListOffsetsRequest(isolation_level=0, topics=[topic])))
        for answer in self._send(requests):
            if isinstance(answer, kafka.errors.KafkaError):
                error = answer
                continue
            with self._decoding_response():
                error = self._read_offsets(answer, found) or error
        return error

    def _read_offsets(self, answer: Any, found: dict[int, int]) -> Any:
        error = None
        for each in self._topic_entry(answer.topics).partitions:
            if each.error_code == 0:
                old = getattr(each, "old_style_offsets", None)  # before 0.10.1
                found[each.partition_index] = old[0] if old else each.offset
            else:
                error = kafka.errors.for_code(each.error_code)(f"partition {each.partition_index}")
                if each.error_code not in PASSING:
                    raise self._unreachable(error)
        return error

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
        requests = []
        for committed in (True, False):
            chosen = [n for n, at in positions.items() if at.committed is committed]
            for leader, numbers in self._by_leader(chosen).items():
                if leader < 0:
                    continue
                asked = [
                    FetchRequest.FetchTopic.FetchPartition(
                        partition=number,
                        fetch_offset=positions[number].offset,
                        last_fetched_epoch=positions[number].epoch,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for number in numbers
                ]
                request = FetchRequest(
                    replica_id=-1,
                    max_wait_ms=0 if committed else max_wait_ms,
                    min_bytes=1,
                    max_bytes=max_bytes,
                    isolation_level=int(committed),
                    topics=[
                        FetchRequest.FetchTopic(
                            topic=self.topic, topic_id=self._id, partitions=asked
                        )
                    ],
                )
                requests.append((leader, request))
        found: dict[int, Fetched] = {}
        for (_, request), answer in zip(requests, self._send(requests), strict=True):
            if isinstance(answer, kafka.errors.KafkaError):
                continue
            with self._decoding_response():
                self._read_batches(request, answer, found)
        return found

    def _read_batches(self, request: Any, answer: Any, found: dict[int, Fetched]) -> None:
        wanted = {each.partition for each in request.topics[0].partitions}
        code = getattr(answer, "error_code", 0) or 0
        if code:
            found.update(dict.fromkeys(wanted, Fetched(code, -1, -1, b"", None)))
        for topic in answer.responses:
            for part in self._topic_entry([topic]).partitions:
                if part.partition_index in wanted:
                    found[part.partition_index] = _fetched(part)


def _fetched(part: Any) -> Fetched:
    diverging = getattr(part, "diverging_epoch", None)
    diverged = None if diverging is None or diverging.epoch < 0 else diverging.end_offset
    start = getattr(part, "log_start_offset", None)
    stable = getattr(part, "last_stable_offset", None)
    aborted = getattr(part, "aborted_transactions", None) or ()
    return Fetched(
        part.error_code,
        -1 if part.high_watermark is None else part.high_watermark,
        -1 if start is None else start,
        part.records or b"",
        diverged,
        -1 if stable is None else stable,
        [(each.producer_id, each.first_offset) for each in aborted],
    )


def _passes(error: Any) -> bool:
    """Whether it may pass by itself: a lost connection does, a wrong password does not."""
    return bool(getattr(error, "retriable", False))
