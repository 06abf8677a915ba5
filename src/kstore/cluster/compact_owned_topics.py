"""Gives the internal topics that a broker owns their settings, even if Kafka created them.

Every other topic that existed before keeps its settings, so that nothing is shortened. These two
are the broker's own: it appends to them for as long as it serves, and without compaction they grow
without end. With the policy ``compact`` alone, retention deletes none of their records, and the
latest record of each key stays: the commit of each group and partition, the state of each
transactional id.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kstore.cluster.broker_file import TopicRecord
from kstore.cluster.local_image import own_settings
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
_POLICY = "cleanup.policy"


def compact_owned_topics(store: "Store", record_of: Callable[[str], TopicRecord | None]) -> None:
    """Give the owned topics that exist the settings that a broker creates them with.

    Only those without a policy of their own, and only what is not set. A topic whose settings
    cannot be read or written stays as it is, with a warning: it works, and grows.
    """
    for name, wanted in OWNED_TOPICS.items():
        if name not in store:
            continue
        try:
            present = _set_for(store, name, record_of(name))
            if _POLICY not in present:
                missing = {key: value for key, value in wanted.items() if key not in present}
                store.alter_topic(name, missing)
                _LOGGER.info("topic %s: compacted from now on, with %s", name, missing)
        except KStoreError as error:
            _LOGGER.warning("topic %s is not compacted: %s", name, error)


def _set_for(store: "Store", name: str, record: TopicRecord | None) -> Mapping[str, str]:
    """What was set for a topic, in ``kstore.topics`` and in ``kstore.broker``."""
    with store._lock:
        own = own_settings(store, name)
    return {**own, **(record.config if record is not None else {})}
