"""The internal topics that a broker owns, with the settings that it creates them with."""

_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "104857600"}

OWNED_TOPICS = {"__consumer_offsets": _COMPACTED, "__transaction_state": _COMPACTED}


def advice_for_missing(topic: str, partition: int) -> str:
    """What to do if a store has single partitions of a topic without the needed one; empty for a
    topic that no coordinator owns."""
    if topic not in OWNED_TOPICS:
        return ""
    return (
        "; groups and transactional ids belong to a partition by their hash: "
        f"create_partition({topic!r}, {partition}) creates this one, and delete_topic({topic!r}) "
        "lets the store create all of them when it needs the topic, without what is in it now"
    )
