"""An internal topic: its creation, and the loading of its partitions for a coordinator."""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.handlers.controller_work import METADATA_KEY
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.fields import partition_for_name

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.cluster.image import ClusterImage

_LOGGER = logging.getLogger("kstore.broker")
# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_RETRY_SECONDS = 5.0  # delay before loading a failed partition again


class InternalTopic:
    """The partitions of one internal topic, and their loading states. Loop's thread only.

    Disk workers call ``load(partition)`` and ``filled()``; the event loop's thread calls
    ``on_loaded(partition, result)`` and, if the topic is deleted, ``on_lost()``.
    """

    def __init__(
        self,
        services: "Services",
        name: str,
        *,
        partition_count: int,
        properties: Mapping[str, str],
        filled: Callable[[], Collection[int]],
        load: Callable[[int], Any],
        on_loaded: Callable[[int, Any], object],
        on_lost: Callable[[], object],
    ) -> None:
        self.name = name
        self._services = services
        self._new_partition_count = partition_count
        self._properties = properties
        self._filled = filled
        self._load_work = load
        self._on_loaded = on_loaded
        self._on_lost = on_lost
        self._states: dict[int, ErrorCode] = {}  # by partition: NONE if loaded, otherwise the error
        self._due: set[int] = set()  # failed partitions whose retry is due
        self._topic_id: bytes | None = None
        self._image: ClusterImage | None = None  # that the next two are of
        self._partition_count = 0
        self._config: Mapping[str, str] = {}
        self._waiters: list[Callable[[ErrorCode], object]] = []

    def start(self) -> None:
        """Load the partitions that have records, so that clients need not wait later."""
        if self.partition_count:
            self._services.workers.submit(self.name, self._filled, self._list_ended)

    def _list_ended(self, partitions: Collection[int] | None, error: BaseException | None) -> None:
        if partitions is None:
            _LOGGER.warning("%s cannot be listed: %s", self.name, error)
        else:
            self._take_filled(partitions)

    def _take_filled(self, partitions: Collection[int]) -> None:
        """Load the partitions that have records; mark the empty ones as loaded."""
        for partition in range(self.partition_count):
            if partition in partitions:
                self._load(partition)
            elif partition not in self._states:
                self._states[partition] = _NONE

    # --- partitions and their loading -------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions; 0 while the topic does not exist."""
        image = self._services.metadata.image
        if image is not self._image:  # a change replaces it
            self._image, self._partition_count = image, self._count_partitions(image)
        return self._partition_count

    @property
    def config(self) -> Mapping[str, str]:
        """The settings of the topic; none while it does not exist."""
        return self._config if self.partition_count else {}

    def _count_partitions(self, image: "ClusterImage") -> int:
        topic = image.topics.get(self.name)
        self._config = {} if topic is None else topic.config
        if topic is None:
            self._forget()
            return 0
        if topic.topic_id != self._topic_id:
            self._forget()
            self._topic_id = topic.topic_id
        return len(topic.partitions)

    def _forget(self) -> None:
        self._topic_id = None
        if self._states:
            self._states.clear()
            self._due.clear()
            self._on_lost()

    def partition_of(self, key: str) -> int:
        return partition_for_name(key, self.partition_count)

    def check(self, key: str) -> ErrorCode:
        """NONE if the key's partition is loaded, NOT_COORDINATOR if the topic does not exist,
        otherwise COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE."""
        count = self.partition_count
        if not count:
            return ErrorCode.NOT_COORDINATOR
        return self.state_of(partition_for_name(key, count))

    def state_of(self, partition: int) -> ErrorCode:
        """NONE if a partition is loaded; otherwise start to load it and return the error."""
        state = self._states.get(partition)
        if state is None:
            self._load(partition)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if state != _NONE and partition in self._due:
            self._due.discard(partition)
            del self._states[partition]
            self._load(partition)
            self._states[partition] = state  # until it is loaded
        return state

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading, or its loading has not started."""
        count = self.partition_count
        return len(self._states) < count or (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in self._states.values()
        )

    def _load(self, partition: int) -> None:
        if partition in self._states:
            return
        self._states[partition] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._services.workers.submit(
            (self.name, partition),
            partial(self._load_work, partition),
            partial(self._load_ended, partition, self._topic_id),
        )

    def _load_ended(
        self, partition: int, topic_id: bytes | None, loaded: Any, error: BaseException | None
    ) -> None:
        if topic_id != self._topic_id:
            return
        if error is not None:
            _LOGGER.warning(
                "%s-%d cannot be loaded; its clients get COORDINATOR_NOT_AVAILABLE: %s",
                self.name, partition, error,
            )  # fmt: skip
            self._states[partition] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._services.loop.call_later(_RETRY_SECONDS, self._retry, partition)
        else:
            self._states[partition] = _NONE
            self._on_loaded(partition, loaded)

    def _retry(self, partition: int) -> None:
        if self._states.get(partition) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._due.add(partition)

    # --- the topic --------------------------------------------------------------------------

    def with_topic(self, then: Callable[[ErrorCode], object]) -> None:
        """Create the topic if it is missing, then call ``then`` with NONE or 15."""
        if self.partition_count:
            then(_NONE)
            return
        self._waiters.append(then)
        if len(self._waiters) == 1:
            self._services.workers.submit(METADATA_KEY, self._create, self._created)

    def _create(self) -> bool:
        """Create the topic, on a disk worker; False if it exists already."""
        services = self._services
        if self.name in services.metadata.image.topics:
            return False
        if any(each.offline is not None for each in services.store.log_dirs):
            raise OSError(f"{self.name} is not created while a log directory is offline")
        services.metadata.create_topic(
            self.name, partitions=self._new_partition_count, config=self._properties
        )
        return True

    def _created(self, is_new: bool | None, error: BaseException | None) -> None:
        waiters, self._waiters = self._waiters, []
        if error is not None:
            _LOGGER.warning("%s was not created: %s", self.name, error)
        exists = bool(self.partition_count)
        if exists and is_new:
            self._take_filled(())
        code = _NONE if exists else ErrorCode.COORDINATOR_NOT_AVAILABLE
        for then in waiters:
            then(code)
