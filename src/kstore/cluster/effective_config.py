"""The settings of a topic's logs: its own, over those of the broker if the topic follows them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kstore.cluster.broker_file import TopicRecord
from kstore.cluster.engine_config import ignoring_message_format, to_log_config
from kstore.cluster.local_image import own_settings
from kstore.cluster.settings.layers import BrokerConfig
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.config import LogConfig

if TYPE_CHECKING:
    from kstore.store.store import Store


class EffectiveLogConfigs:
    """The effective settings of a store's topics, computed again only when an input changed.

    For one thread at a time: the store's lock guards it.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        # by topic: the inputs of its settings (record, own, and the broker's), and the result
        self._known: dict[str, tuple[tuple[object, ...], LogConfig]] = {}

    def config(
        self, name: str, own: LogConfig, record: TopicRecord, broker: BrokerConfig
    ) -> LogConfig:
        """The settings of a topic's logs; ``own`` are those that the store would use by itself."""
        set_here = own_settings(self._store, name)
        inputs = record, own, broker, set_here
        known = self._known.get(name)
        if known is None or known[0] != inputs:
            values = dict(record.config) | set_here
            if record.is_adopted:
                values = {key: broker.topic_default(key) for key in TOPIC_SETTINGS} | values
                own = _with_expiration(ignoring_message_format(own), broker)
            known = self._known[name] = inputs, to_log_config(values, own)
        return known[1]


def _with_expiration(own: LogConfig, broker: BrokerConfig) -> LogConfig:
    """With the broker's producer.id.expiration.ms, which is no setting of topics in Kafka."""
    if own.producer_id_expiration_ms != LogConfig().producer_id_expiration_ms:
        return own  # the store's user has set it
    text = broker.get("producer.id.expiration.ms")
    return own if text is None else replace(own, producer_id_expiration_ms=int(text))
