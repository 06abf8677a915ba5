"""Incremental fetch sessions (KIP-227; Kafka's FetchSession, FetchManager, FetchSessionCache).

A consumer of many partitions sends only the changes since its last request, and the response
contains only partitions with news. The broker keeps the session's state in a bounded cache.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from random import randrange
from typing import TYPE_CHECKING

from kstore.cluster.image import ZERO_UUID, ClusterImage
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from kstore._native.broker.fetch_frame import WantedFrame

NO_SESSION = 0
FIRST_EPOCH, FINAL_EPOCH = 0, -1
EVICTION_SECONDS = 120.0  # a session that is idle for longer may be evicted by any other
_EPOCHS = 0x7FFFFFFF
_PARTITIONS_OF_A_SLOT = 1_000  # on average
_TOPIC_IDS_SINCE = 13  # version of Fetch

PartitionAnswer = FetchResponse.Responses.Partitions
PartitionKey = tuple[str | bytes, int]


def next_epoch(epoch: int) -> int:
    """1 follows 2147483647; Kafka's FetchMetadata.nextEpoch."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCHS else epoch + 1


class FetchedPartition:
    """A partition of a session: the fetch position, and the state that was last sent.

    ``topic`` is None while the cluster has no topic with this id.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "number",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str | None, topic_id: bytes, wanted: FetchRequest.Topics.Partitions
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = wanted.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.update(wanted)

    @property
    def key(self) -> PartitionKey:
        return partition_key(self.topic, self.topic_id, self.number)

    def update(self, wanted: FetchRequest.Topics.Partitions) -> None:
        """Adopt the position of a later request."""
        self.current_leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes

    def is_news(self, answer: PartitionAnswer) -> bool:
        """Whether an incremental response must include this partition; records the state that it
        sends.

        Kafka's CachedPartition.maybeUpdateResponseData.
        """
        news = bool(answer.records) or answer.preferred_read_replica >= 0
        if answer.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark, news = answer.high_watermark, True
        if answer.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset, news = answer.log_start_offset, True
        if answer.error_code != ErrorCode.NONE:
            self.sent_high_watermark, news = -1, True  # sent again once the error is resolved
        return news or answer.diverging_epoch is not None


def partition_key(topic: str | None, topic_id: bytes, number: int) -> PartitionKey:
    """A partition's key in a session: the topic id, or the topic name if there is no id."""
    return (topic or "", number) if topic_id == ZERO_UUID else (topic_id, number)


class Session:
    """A session: its partitions, in reading order, and the epoch expected next."""

    __slots__ = (
        "created",
        "epoch",
        "evictable_by_all",
        "evictable_by_privileged",
        "id",
        "last_used",
        "partitions",
        "privileged",
        "size",
        "uses_topic_ids",
    )

    def __init__(
        self, number: int, partitions: dict[PartitionKey, FetchedPartition], now: float
    ) -> None:
        self.id = number
        self.partitions = partitions
        self.epoch = next_epoch(FIRST_EPOCH)
        self.created = self.last_used = now
        self.size = 0  # number of partitions at the last use
        self.privileged = False  # a follower's
        self.uses_topic_ids = False
        self.evictable_by_all = self.evictable_by_privileged = False

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Eviction order, lowest first: small sessions of consumers."""
        return self.privileged, self.size, self.id

    def update(self, wanted: Iterable[FetchedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Update positions, append new partitions, and remove forgotten ones."""
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.current_leader_epoch = partition.current_leader_epoch
                known.fetch_offset = partition.fetch_offset
                known.last_fetched_epoch = partition.last_fetched_epoch
                known.log_start_offset = partition.log_start_offset
                known.max_bytes = partition.max_bytes
        for key in forgotten:
            self.partitions.pop(key, None)


class SessionCache:
    """The sessions of a broker, at most ``max.incremental.fetch.session.cache.slots``. All sessions
    together may have 1,000 partitions per slot, since a single session may have 100,000.

    If the cache is full, a new session evicts a session that has been idle for two minutes, or else
    one of lower rank (smaller, or a consumer's session if the new one is a follower's) that is at
    least two minutes old (Kafka's FetchSessionCache.tryEvict).
    """

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._most_partitions = slots * _PARTITIONS_OF_A_SLOT
        self._clock = clock
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions."""
        return sum(each.size for each in self)

    @property
    def is_overfull(self) -> bool:
        """Whether the sessions have more partitions than the cache may hold."""
        return self.partitions > self._most_partitions

    def get(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def remove(self, number: int) -> None:
        self._sessions.pop(number, None)

    def touch(self, session: Session) -> None:
        """Mark a session as used now."""
        now = self._clock()
        session.last_used = now
        session.size = len(session.partitions)
        is_old = now - session.created > EVICTION_SECONDS
        session.evictable_by_privileged = not session.privileged or is_old
        session.evictable_by_all = is_old
        self._sessions.move_to_end(session.id)

    def create(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> Session | None:
        """A new session; None if the cache is full and no session may be evicted."""
        now = self._clock()
        size = len(partitions)
        if size > self._most_partitions:
            return None
        while len(self._sessions) >= self._slots or self.partitions + size > self._most_partitions:
            if not self._evict(privileged, size, now):
                return None
        number = randrange(1, _EPOCHS)
        while number in self._sessions:
            number = randrange(1, _EPOCHS)
        session = self._sessions[number] = Session(number, partitions, now)
        session.privileged, session.uses_topic_ids = privileged, uses_topic_ids
        self.touch(session)
        return session

    def _evict(self, privileged: bool, size: int, now: float) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used > EVICTION_SECONDS:
            del self._sessions[oldest.id]
            return True
        evictable = (
            each
            for each in self._sessions.values()
            if (each.evictable_by_privileged if privileged else each.evictable_by_all)
        )
        lowest = min(evictable, key=lambda each: each.rank, default=None)
        if lowest is None or (privileged, size, 0) < lowest.rank:
            return False
        del self._sessions[lowest.id]
        return True


@lazy_dataclass()
class FetchContext:
    """The partitions that one request fetches, and the kind of response it gets.

    A response with an ``error`` has no partitions. ``session`` is the session of an incremental
    request; ``creates`` requests a new session with the partitions of the response.
    """

    partitions: list[FetchedPartition]
    error: ErrorCode = ErrorCode.NONE
    session: Session | None = None
    expected_epoch: int = 0  # of the session, when the response is built
    creates: bool = False
    is_follower: bool = False
    uses_topic_ids: bool = False


class FetchSessions:
    """Opens the context of each Fetch request, and builds its response. Loop's thread only."""

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self.cache = SessionCache(slots, clock)

    def open(
        self, request: FetchRequest, version: int, image: ClusterImage, *, is_follower: bool
    ) -> FetchContext:
        """Kafka's FetchManager.newContext."""
        uses_ids = version >= _TOPIC_IDS_SINCE
        wanted = wanted_partitions(request, image, uses_ids=uses_ids)
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self.cache.remove(request.session_id)
            return FetchContext(
                list(wanted.values()),
                creates=request.session_epoch == FIRST_EPOCH,
                is_follower=is_follower,
                uses_topic_ids=uses_ids,
            )
        session = self.cache.get(request.session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_ids:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted.values(), forgotten_partitions(request, uses_ids=uses_ids))
        if not session.partitions:
            self.cache.remove(session.id)
            return FetchContext(list(wanted.values()))
        had = session.size
        self.cache.touch(session)
        if session.size > had and self.cache.is_overfull:
            self.cache.remove(session.id)
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = next_epoch(session.epoch)
        for partition in session.partitions.values():
            if partition.topic is None:
                partition.topic = image.names_by_id.get(partition.topic_id)
        return FetchContext(
            list(session.partitions.values()), session=session, expected_epoch=session.epoch
        )

    def only_partition(self, wanted: "WantedFrame") -> FetchedPartition | None:
        """The partition of a request, if its session has no other and the epoch is the next."""
        session = self.cache.get(wanted.session_id)
        if session is None or session.epoch != wanted.session_epoch or len(session.partitions) != 1:
            return None
        return session.partitions.get((wanted.topic or wanted.topic_id or "", wanted.partition))

    def advance(self, wanted: "WantedFrame", high_watermark: int, log_start: int) -> None:
        """Note a request of :meth:`only_partition`, whose response has records, as ``open`` and
        ``answer`` do."""
        session = self.cache.get(wanted.session_id)
        assert session is not None
        [partition] = session.partitions.values()
        partition.current_leader_epoch = wanted.leader_epoch
        partition.fetch_offset = wanted.offset
        partition.last_fetched_epoch = -1
        partition.max_bytes = wanted.partition_max_bytes
        partition.sent_high_watermark = high_watermark
        partition.sent_log_start_offset = log_start
        self.cache.touch(session)
        session.epoch = next_epoch(session.epoch)

    def answer(
        self, context: FetchContext, answers: list[tuple[FetchedPartition, PartitionAnswer]]
    ) -> FetchResponse:
        """The response to a request; an incremental response has only partitions with news.

        The session's next request reads the partitions with records last.
        """
        if context.error != ErrorCode.NONE:
            return FetchResponse(error_code=int(context.error))
        response = FetchResponse()
        session = context.session
        if session is not None:
            response.session_id = session.id
            if session.epoch != context.expected_epoch:  # another request came meanwhile
                response.error_code = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
                return response
            answers = [(each, answer) for each, answer in answers if each.is_news(answer)]
            for each, answer in answers:
                if answer.records and session.partitions.get(each.key) is each:
                    session.partitions[each.key] = session.partitions.pop(each.key)
        elif context.creates:
            created = self.cache.create(
                {each.key: each for each, _ in answers},
                privileged=context.is_follower,
                uses_topic_ids=context.uses_topic_ids,
            )
            if created is not None:
                response.session_id = created.id
                for each, answer in answers:
                    each.sent_high_watermark = answer.high_watermark
                    each.sent_log_start_offset = answer.log_start_offset
        response.responses = by_topic(answers)
        return response


def wanted_partitions(
    request: FetchRequest, image: ClusterImage, *, uses_ids: bool
) -> dict[PartitionKey, FetchedPartition]:
    """The partitions of a request, in order; a repeated partition takes its last position."""
    wanted: dict[PartitionKey, FetchedPartition] = {}
    for topic in request.topics:
        name = image.names_by_id.get(topic.topic_id) if uses_ids else topic.topic
        topic_id = topic.topic_id if uses_ids else ZERO_UUID
        for each in topic.partitions:
            partition = FetchedPartition(name, topic_id, each)
            wanted[partition.key] = partition
    return wanted


def forgotten_partitions(request: FetchRequest, *, uses_ids: bool) -> list[PartitionKey]:
    """The partitions that a request removes from its session."""
    return [
        partition_key(topic.topic, topic.topic_id if uses_ids else ZERO_UUID, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]


def by_topic(
    answers: Iterable[tuple[FetchedPartition, PartitionAnswer]],
) -> list[FetchResponse.Responses]:
    """Group consecutive responses of the same topic, as Kafka's FetchResponse.toMessage does."""
    topics: list[FetchResponse.Responses] = []
    for each, answer in answers:
        name = each.topic or ""
        last = topics[-1] if topics else None
        if last is None or (
            last.topic_id != each.topic_id if each.topic_id != ZERO_UUID else last.topic != name
        ):
            last = FetchResponse.Responses(topic=name, topic_id=each.topic_id)
            topics.append(last)
        last.partitions.append(answer)
    return topics
