"""The internal topics that a broker owns, with the settings that it creates them with."""

_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "104857600"}

OWNED_TOPICS = {"__consumer_offsets": _COMPACTED, "__transaction_state": _COMPACTED}
