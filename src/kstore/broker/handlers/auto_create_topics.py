"""Creates missing topics that clients name in Metadata (``auto.create.topics.enable``)."""

import logging
from functools import partial

from kstore.broker.handlers.controller_work import METADATA_KEY, error_of
from kstore.broker.services import Services
from kstore.cluster.image import TopicImage
from kstore.files.filenames import INTERNAL_TOPICS
from kstore.protocol.error_codes import ErrorCode

_LOGGER = logging.getLogger("kstore.broker")
_MAX_AT_ONCE = 1000  # topics whose creation is in progress, or whose failure is remembered

# Clients may not create __cluster_metadata. The group and transaction coordinators create the
# internal topics, with their own settings.
_NOT_CREATED = frozenset({*INTERNAL_TOPICS, "__cluster_metadata"})


class AutoCreateTopics:
    """Kafka's AutoTopicCreationManager. Loop's thread only.

    The first response for a topic is LEADER_NOT_AVAILABLE, upon which clients retry. (Kafka's KRaft
    brokers send UNKNOWN_TOPIC_OR_PARTITION, upon which KafkaJS 2.2.4 does not.) No topic is created
    while a log directory is offline, since that directory may contain a topic of the same name,
    whose records the new topic would hide.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._in_work: set[str] = set()
        self._refused: dict[str, ErrorCode] = {}

    def request(self, name: str) -> ErrorCode:
        """Start creating a topic; return the error for this response. If the creation fails, the
        next request for the topic returns that error, and the request after it tries again."""
        if name in _NOT_CREATED:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refusal = self._refused.pop(name, None)
        if refusal is not None:
            return refusal
        if name not in self._in_work and len(self._in_work) < _MAX_AT_ONCE:
            self._in_work.add(name)
            self._services.workers.submit(
                METADATA_KEY, partial(self._create, name), partial(self._created, name)
            )
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _create(self, name: str) -> TopicImage | None:
        """Create a topic, on a disk worker. None if it exists or must wait for a log directory."""
        services = self._services
        if name in services.metadata.image.topics:
            return None
        if any(each.offline is not None for each in services.store.log_dirs):
            _LOGGER.warning("topic %s is not created while a log directory is offline", name)
            return None
        created: TopicImage = services.metadata.create_topic(name)
        return created

    def _created(self, name: str, topic: TopicImage | None, error: BaseException | None) -> None:
        self._in_work.discard(name)
        if error is not None:
            code, _ = error_of(error)
            _LOGGER.warning("topic %s was not created: %s", name, error)
            if code != ErrorCode.TOPIC_ALREADY_EXISTS and len(self._refused) < _MAX_AT_ONCE:
                self._refused[name] = code
        elif topic is not None:
            self._services.partitions.open_new_topic(name)
