"""The fast path for Produce requests of one small batch.

A producer typically sends small batches, each for one partition, several ahead of their responses.
Native code reads a connection, appends such batches (consecutive ones of a partition with one
write), and sends the responses together (:mod:`kstore._native.broker.produce_turn`). It leaves all
other cases to :mod:`kstore.broker.handlers.produce`: requests that are rejected, that wait, or that
need a disk worker.
Both give the same responses.
"""

from typing import TYPE_CHECKING

from kstore._native.broker.frame_cutter import READ_SIZE
from kstore._native.broker.produce_turn import ProduceTarget, ProduceTurn
from kstore.broker.partitions import HostedPartition
from kstore.cluster.image import ClusterImage
from kstore.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kstore._native.broker.frame_cutter import FrameCutter
    from kstore.broker.request_memory import Holder, RequestMemory
    from kstore.broker.send_queue import SendQueue, Transport
    from kstore.broker.services import Services
    from kstore.broker.settings import BrokerSettings

INLINE_SIZE = 64 << 10  # the largest batch, in bytes, that the event loop's thread appends itself


class ProduceTurns:
    """Handles Produce requests of one small batch. Loop's thread only."""

    __slots__ = (
        "_counters",
        "_loop",
        "_max_frame",
        "_partitions",
        "_settings",
        "_turn",
        "handle_frame",
        "is_complete",
    )

    def __init__(self, services: "Services") -> None:
        self._counters = services.counters
        self._loop = services.loop
        self._partitions = services.partitions
        self._settings = services.settings
        self._max_frame = services.settings.socket_request_max_bytes
        self._turn = ProduceTurn(
            services.partitions.by_key,
            services.workers.busy_keys,
            services.metadata,
            self._find_target,
            INLINE_SIZE,
            READ_SIZE,
        )
        self.handle_frame = self._turn.handle_frame
        self.is_complete = False  # the last ``receive`` left nothing that can be handled

    def receive(
        self,
        connection: "Transport",
        cutter: "FrameCutter",
        queue: "SendQueue",
        memory: "RequestMemory",
        holder: "Holder",
    ) -> int:
        """Read a connection once, handle the plain requests at the front, and buffer the rest.

        Returns the byte count, 0 at the end of the stream or for a lost connection. Raises
        BlockingIOError, OSError.
        """
        if queue.size or cutter.is_long:
            self.is_complete = False
            count = cutter.receive(connection)
            memory.add(count)
            return count
        turn, left, began = self._turn, cutter.take(), self._loop.time()
        try:
            count = turn.receive(connection.fileno(), left, self._max_frame)
        except Exception:
            cutter.put(left)  # its bytes still count as request memory
            raise
        rest = turn.rest
        if rest:
            cutter.put(rest)
        if count < 0:
            raise BlockingIOError
        self.is_complete = turn.is_complete
        if not turn.handled:
            memory.add(count)
            return count
        memory.handled_at_once(holder, len(rest) - len(left))
        if turn.unsent:
            self.is_complete = False
            queue.add_small(turn.unsent)
        if self._counters is not None:
            seconds = self._loop.time() - began
            for version, requests in turn.requests_of_versions():
                self._counters.answered(ApiKey.PRODUCE, version, seconds, requests)
        return count

    def _find_target(self, topic: str, number: int, image: ClusterImage) -> ProduceTarget | None:
        """Where to append batches of a partition immediately, acknowledged without a disk flush;
        None if they need the general handler."""
        hosted = self._partitions.get(topic, number, image)
        log, topic_image, partition = hosted.log, hosted.topic_image, hosted.image
        if (
            log is None
            or topic_image is None
            or partition is None
            or topic_image.is_internal
            or is_durable(hosted, self._settings)
        ):
            return None
        state = log._require_writer().state
        counters = None if self._counters is None else self._counters.topic(topic)
        hosted.produce_target = ProduceTarget(
            image,
            log,
            state,
            state.appender,
            counters,
            len(partition.isr) >= len(partition.replicas),
        )
        return hosted.produce_target


def is_durable(hosted: HostedPartition, settings: "BrokerSettings") -> bool:
    """Whether an acknowledgement for this partition means that its records are on disk."""
    topic = hosted.topic_image
    of_topic = None if topic is None else topic.config.get("kstore.acks.durable")
    if of_topic is not None:
        return of_topic == "true"
    return settings.kstore_acks_durable
