"""Creates topics that clients ask for by Metadata (``auto.create.topics.enable``)."""

import logging
from functools import partial

from kstore.broker.handlers.controller_work import METADATA_KEY, error_of
from kstore.broker.services import Services
from kstore.cluster.image import TopicImage
from kstore.files.filenames import INTERNAL_TOPICS
from kstore.protocol.error_codes import ErrorCode

_LOGGER = logging.getLogger("kstore.broker")
_MAX_AT_ONCE = 1000  # topics whose creation, or whose refusal, is remembered

# __cluster_metadata is none of the topics that a client may have; the internal topics are created
# by the group and transaction coordinators, with settings of their own.
_NOT_CREATED = frozenset({*INTERNAL_TOPICS, "__cluster_metadata"})


class AutoCreateTopics:
    """Kafka's AutoTopicCreationManager. Loop's thread.

    The first answer for a topic is LEADER_NOT_AVAILABLE, and the client asks again, as with a
    Kafka that has its controller in the same process. A topic is not created while a log directory
    is offline: its records may be there, and a second topic of its name would hide them.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._in_work: set[str] = set()
        self._refused: dict[str, ErrorCode] = {}

    def request(self, name: str) -> ErrorCode:
        """Begin to create a topic; the error for this answer. Why a creation was refused is the
        answer to the next request for the topic, and the one after that tries again."""
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
        """On a disk worker. None if the topic must wait for a log directory."""
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
