"""Fetch: records for consumers and followers (Kafka's KafkaApis.handleFetchRequest).

A request's context lists the partitions to read (:mod:`kstore.broker.fetch_session`), a reader
reads them (:mod:`kstore.broker.fetch_reader`), and the request is parked if they give too few bytes
(:mod:`kstore.broker.delayed_fetch`).
"""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker import down_convert
from kstore.broker.api_table import Api
from kstore.broker.delayed_fetch import DelayedFetch, is_enough
from kstore.broker.fetch_frames import FetchFrames
from kstore.broker.fetch_reader import FetchParameters, FetchReader, PartitionRead
from kstore.broker.fetch_session import FetchContext, FetchSessions
from kstore.broker.leader_hints import LeaderHints
from kstore.broker.partitions import Partitions, continue_with
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from kstore.broker.metrics.counters import BrokerCounters
    from kstore.broker.services import Services

_READ_COMMITTED = 1
_REPLICA_STATE_SINCE = 15


class FetchHandlers:
    """Serves Fetch."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        slots = services.settings.max_incremental_fetch_session_cache_slots
        self.sessions = FetchSessions(slots, services.loop.time)

    def apis(self) -> list[Api]:
        frames = FetchFrames(self._services, self.sessions)
        # The fast path does not count its two one-element arrays against the request limit.
        is_limited = self._services.settings.kstore_max_request_partitions < 2
        return [Api(ApiKey.FETCH, 0, 17, self.fetch, None if is_limited else frames.handle_frame)]

    def fetch(self, request: Request) -> Answer:
        """Respond with records, or park the request until enough are available."""
        message = FetchRequest.decode(request.reader, request.api_version)
        parameters = self._parameters(message, request)
        context = self.sessions.open(
            message, request.api_version, request.image, is_follower=parameters.is_follower
        )
        if context.error != ErrorCode.NONE:
            return self.sessions.answer(context, [])
        return FetchCall(self._services, self.sessions, request, parameters, context).start()

    def _parameters(self, message: FetchRequest, request: Request) -> FetchParameters:
        version, replica_id = request.api_version, message.replica_id
        if version >= _REPLICA_STATE_SINCE:
            replica_id = -1 if message.replica_state is None else message.replica_state.replica_id
        max_wait_seconds = message.max_wait_ms / 1000
        if request.attempt is not None:  # FetchFrames has waited
            max_wait_seconds = request.attempt.result
        max_bytes = max(0, min(message.max_bytes, self._services.settings.fetch_max_bytes))
        return FetchParameters(
            version=version,
            replica_id=replica_id,
            is_committed=message.isolation_level == _READ_COMMITTED and replica_id < 0,
            max_bytes=max_bytes,
            min_bytes=min(message.min_bytes, max_bytes),
            max_wait_seconds=max_wait_seconds,
        )


class FetchCall:
    """One Fetch request until its response. Loop's thread only."""

    __slots__ = (
        "_context",
        "_hints",
        "_parameters",
        "_partitions",
        "_reader",
        "_request",
        "_services",
        "_sessions",
    )

    def __init__(
        self,
        services: "Services",
        sessions: FetchSessions,
        request: Request,
        parameters: FetchParameters,
        context: FetchContext,
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._request = request
        self._parameters = parameters
        self._context = context
        self._hints = LeaderHints(request)
        self._partitions: Partitions = services.partitions
        self._reader = FetchReader(self._partitions, parameters, self._hints, request.access)

    def start(self) -> Answer:
        """Read the partitions; first open logs that are not open."""
        reads = self._read(may_wait=False)
        closed = [
            read.hosted for read in reads if read.hosted is not None and read.hosted.needs_opening
        ]
        if closed:
            return self._partitions.when_open(closed, self._start_opened)
        return self._load_and_answer(reads)

    def _start_opened(self) -> Answer:
        return self._load_and_answer(self._read(may_wait=False))

    def _read(self, *, may_wait: bool) -> list[PartitionRead]:
        return self._reader.read_all(
            self._context.partitions, self._request.image, may_wait=may_wait
        )

    def _load_and_answer(self, reads: list[PartitionRead]) -> Answer:
        """Respond; first let a disk worker load pages that are not in the page cache."""
        if not any(read.is_cold for read in reads):
            return self._answer_or_park(reads)
        pending = Pending()
        self._services.workers.submit(
            self,  # its own key: reads of several requests run concurrently
            partial(self._reader.load_cold, reads),
            partial(self._loaded, pending),
        )
        return pending

    def _loaded(self, pending: Pending, _: None, error: BaseException | None) -> None:
        def answer() -> Answer:
            if error is not None:
                raise error
            return self._answer_or_park(self._read(may_wait=True))

        continue_with(pending, answer)

    def _answer_or_park(self, reads: list[PartitionRead]) -> Answer:
        if is_enough(reads, self._parameters):
            return self._respond(reads)
        return DelayedFetch(
            reads,
            loop=self._services.loop,
            purgatory=self._services.delayed_fetches,
            reader=self._reader,
            parameters=self._parameters,
            get_image=lambda: self._services.metadata.image,
            respond=self._respond,
        ).start()

    def _respond(self, reads: list[PartitionRead]) -> Answer:
        version = self._parameters.version
        if version > down_convert.LAST_VERSION:
            return self._response(reads)
        self._refuse_conversions(reads)
        if not any(read.size for read in reads):
            return self._response(reads)
        pending = Pending()
        self._services.workers.submit(
            self,  # its own key: conversions of several requests run concurrently
            partial(
                down_convert.convert_all,
                reads,
                version,
                cuts_batches=self._parameters.cuts_batches,
            ),
            partial(self._converted, pending, reads),
        )
        return pending

    def _refuse_conversions(self, reads: list[PartitionRead]) -> None:
        """Return UNSUPPORTED_VERSION for topics with message.downconversion.enable=false."""
        broker_config = self._request.image.broker_config
        for read in reads:
            topic = None if read.hosted is None else read.hosted.topic_image
            if topic is not None and not down_convert.is_allowed(topic.config, broker_config):
                read.fail(ErrorCode.UNSUPPORTED_VERSION)
                read.size, read.answer.records = 0, b""

    def _converted(
        self, pending: Pending, reads: list[PartitionRead], _: None, error: BaseException | None
    ) -> None:
        def answer() -> Answer:
            if error is not None:
                raise error
            return self._response(reads)

        continue_with(pending, answer)

    def _response(self, reads: list[PartitionRead]) -> FetchResponse:
        if self._services.counters is not None and not self._parameters.is_follower:
            self._count(self._services.counters, reads)
        response = self._sessions.answer(
            self._context, [(read.wanted, read.answer) for read in reads]
        )
        response.node_endpoints = [
            FetchResponse.NodeEndpoints(*endpoint) for endpoint in self._hints.endpoints()
        ]
        return response

    def _count(self, counters: "BrokerCounters", reads: list[PartitionRead]) -> None:
        for read in reads:
            if read.hosted is not None and read.hosted.image is not None:
                counters.topic(read.hosted.topic).fetched(read.size, read.answer.error_code)
