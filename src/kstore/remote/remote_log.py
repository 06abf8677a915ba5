"""A partition of a cluster: offsets, batch appends, record deletion."""

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from kstore.config import LogConfig
from kstore.errors import SourceError
from kstore.log.append_info import AppendInfo
from kstore.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kstore.protocol.messages.produce import ProduceRequest, ProduceResponse
from kstore.record import timestamp
from kstore.remote.answer_errors import error_of, raise_for
from kstore.remote.connection import UndecodableResponseError
from kstore.remote.fetches import check_topic
from kstore.remote.produce_counts import ProduceCounts

if TYPE_CHECKING:
    from datetime import datetime

    from kstore.remote.cluster import Cluster

LATEST, EARLIEST, MAX_TIMESTAMP, LATEST_TIERED = -1, -2, -3, -5
Entry = TypeVar("Entry")
_NO_EPOCH = -1
_DELETE_TIMEOUT_MS = 30_000
_PRODUCE_TIMEOUT_MS = 30_000
# Version 12 adds partitions to a transaction of version 2, and 13 names topics by their ids.
_HIGHEST_PRODUCE = 11


class RemoteLog:
    """One partition of a topic of a cluster. For one thread at a time.

    It has those methods of :class:`kstore.Log` that the tools use; each sends a request to the
    partition's leader. They raise SourceError if the leader does not respond, and kstore's
    exceptions with Kafka's code and message if it returns an error.
    """

    closed = False
    path = None  # the file that errors name; a server's is unknown here
    transactional_id: str | None = None

    def __init__(
        self, cluster: "Cluster", topic: str, partition: int, *, config: LogConfig, acks: int = -1
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.config = config
        self.acks = acks
        self._cluster = cluster

    def _leader(self) -> int:
        return self._cluster.leader(self.topic, self.partition)

    def _check_partition(self, number: int) -> None:
        """Refuse a response about another partition."""
        if number != self.partition:
            raise UndecodableResponseError(
                f"the response about {self.name} is about partition {number}"
            )

    # --- offsets ----------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        return self._list_offset(EARLIEST) or 0

    @property
    def end_offset(self) -> int:
        """The high watermark, which is the end for consumers."""
        return self._list_offset(LATEST) or 0

    def newest_offset(self) -> int | None:
        """The offset of the record with the largest timestamp, None if there are no records."""
        return self._list_offset(MAX_TIMESTAMP)

    def tiered_offset(self) -> int | None:
        """The last offset in tiered storage, None if there is none."""
        return self._list_offset(LATEST_TIERED)

    def offset_at(self, when: "datetime | int") -> int:
        """The offset of the first record at or after a time, otherwise the end offset."""
        found = self.first_offset_at(when)
        return self.end_offset if found is None else found

    def first_offset_at(self, when: "datetime | int") -> int | None:
        """The offset of the first record at or after a time, None if there is none."""
        return self._list_offset(timestamp.to_lookup_time(when))

    def _list_offset(self, when: int) -> int | None:
        return self._cluster.retrying(
            lambda: self._ask_offset(when), forget=(self.topic, self.partition)
        )

    def _ask_offset(self, when: int) -> int | None:
        asked = ListOffsetsRequest.Topics.Partitions(
            partition_index=self.partition, timestamp=when, max_num_offsets=1
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.Topics(name=self.topic, partitions=[asked])]
        )
        answer = self._cluster.ask(request, ListOffsetsResponse, node=self._leader())
        found = only(only(answer.topics, self.name).partitions, self.name)
        self._check_partition(found.partition_index)
        raise_for(found.error_code, None, self.name)
        if found.old_style_offsets:  # version 0
            return found.old_style_offsets[0]
        return None if found.offset < 0 else found.offset

    # --- changes ----------------------------------------------------------------------------

    def append_as_leader(self, batch: Any) -> AppendInfo:
        """Send one batch (Produce) and return its offsets; with ``acks`` 0 they are -1."""
        asked = ProduceRequest.TopicData.PartitionData(index=self.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[ProduceRequest.TopicData(name=self.topic, partition_data=[asked])],
        )
        counts = ProduceCounts(self._cluster.metrics, self.topic, batch)
        if self.acks == 0:
            self._cluster.send(request, node=self._leader(), highest=_HIGHEST_PRODUCE)
            return AppendInfo(-1, -1, -1, len(batch))

        def attempt() -> AppendInfo:
            counts.attempt()
            return self._produce(request, len(batch))

        try:
            return self._cluster.retrying(attempt, forget=(self.topic, self.partition))
        except Exception as error:
            counts.fail(error)
            raise

    def _produce(self, request: ProduceRequest, size: int) -> AppendInfo:
        began = monotonic()
        answer = self._cluster.ask(
            request, ProduceResponse, node=self._leader(), highest=_HIGHEST_PRODUCE
        )
        self._cluster.metrics.measure("request-latency", (monotonic() - began) * 1000)
        found = only(only(answer.responses, self.name).partition_responses, self.name)
        self._check_partition(found.index)
        message = found.error_message
        if found.record_errors and found.record_errors[0].batch_index_error_message:
            message = found.record_errors[0].batch_index_error_message
        raise_for(found.error_code, message, self.name)
        return AppendInfo(found.base_offset, -1, found.log_append_time_ms, size)

    def flush(self) -> None:
        """Do nothing: a client has only the broker's acknowledgement."""

    def producers(self) -> list[Any]:
        """Return an empty list: the tools' batches have no producer id."""
        return []

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start to before_offset (-1: the high watermark); return the log start."""
        asked = DeleteRecordsRequest.Topics.Partitions(
            partition_index=self.partition, offset=before_offset
        )
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsRequest.Topics(name=self.topic, partitions=[asked])],
            timeout_ms=_DELETE_TIMEOUT_MS,
        )
        answer = self._cluster.ask(request, DeleteRecordsResponse, node=self._leader())
        found = only(only(answer.topics, self.name).partitions, self.name)
        self._check_partition(found.partition_index)
        raise_for(found.error_code, None, self.name)
        return found.low_watermark

    # --- reading ----------------------------------------------------------------------------

    def fetch(
        self, offset: int, *, max_bytes: int, max_wait_ms: int, isolation_level: int
    ) -> FetchResponse.Responses.Partitions:
        """Fetch from an offset. Raises the error in the leader's response."""
        return self._cluster.retrying(
            lambda: self._fetch(offset, max_bytes, max_wait_ms, isolation_level),
            forget=(self.topic, self.partition),
        )

    def _fetch(
        self, offset: int, max_bytes: int, max_wait_ms: int, isolation_level: int
    ) -> FetchResponse.Responses.Partitions:
        node = self._leader()
        asked = FetchRequest.Topics.Partitions(
            partition=self.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        asked_topic = FetchRequest.Topics(
            topic=self.topic, topic_id=self._cluster.topic_id(self.topic), partitions=[asked]
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_epoch=_NO_EPOCH,
            topics=[asked_topic],
        )
        highest = None if self._cluster.has_topic_id(self.topic) else 12
        answer = self._cluster.ask(
            request, FetchResponse, node=node, timeout=max_wait_ms / 1000, highest=highest
        )
        raise_for(answer.error_code, None, self.name)
        topic = only(answer.responses, self.name)
        found = only(topic.partitions, self.name)
        self._check_partition(found.partition_index)
        check_topic(topic, self.topic, asked_topic.topic_id)
        if found.error_code:
            raise error_of(found.error_code, None, f"{self.name}, offset {offset}")
        return found


def only(entries: list[Entry], about: str) -> Entry:
    """The only entry of a response. Raises SourceError if it has none or several."""
    if len(entries) != 1:
        raise SourceError(f"the response about {about} has {len(entries)} entries, not 1")
    return entries[0]
