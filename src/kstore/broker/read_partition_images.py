"""Reads the partitions of topics on a disk worker, before a handler on the loop needs them.

Each partition's leader epoch is in a file of its own, which the first use of its image reads.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.partitions import continue_with
from kstore.broker.request import Answer, Pending
from kstore.cluster.image import TopicImage
from kstore.cluster.local_image import LocalPartitions

if TYPE_CHECKING:
    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_KEY = "partition images"  # of the disk workers


def is_read(topic: TopicImage) -> bool:
    """Whether the images of all partitions exist, so that no access reads a file."""
    return not isinstance(topic.partitions, LocalPartitions) or topic.partitions.is_read


def read_partitions(topics: Iterable[TopicImage]) -> None:
    """Create the images of all partitions. Blocks: for disk workers."""
    for topic in topics:
        for _ in topic.partitions.values():
            pass


def call_when_read(
    services: "Services", topics: Iterable[TopicImage], handle: Callable[[], Answer]
) -> Answer:
    """Call ``handle()`` for the response once all partitions of these topics are read.

    If they are read already, it is called immediately. Loop's thread.
    """
    unread = [topic for topic in topics if not is_read(topic)]
    if not unread:
        return handle()
    return call_after(services, partial(read_partitions, unread), handle)


def call_after(
    services: "Services", work: Callable[[], object], handle: Callable[[], Answer]
) -> Answer:
    """Call ``work()`` on a disk worker, then ``handle()`` on the loop for the response.

    An error of ``work`` is only logged, because ``handle`` raises it again or does the work itself.
    """
    pending = Pending()

    def done(_: object, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.error("the partitions of topics cannot be read", exc_info=error)
        continue_with(pending, handle)

    services.workers.submit(_KEY, work, done)
    return pending
