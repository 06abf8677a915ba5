"""Stray folders: partitions that a KRaft broker's metadata does not assign to it.

The broker renames such a folder to ``-stray`` when it starts (Kafka's
LogManager.isStrayKraftReplica).
"""

from collections.abc import Container

from kstore.partition_files import ClusterMetadata, count_of, is_reserved_uuid

_CREATE = "Create the topic on it first (kafka-topics --create --topic {}), stop it cleanly"


def find_stray_reason(
    known: ClusterMetadata,
    node_id: int | None,
    directory_ids: Container[str],
    key: tuple[str, int],
    topic_id: str,
) -> str | None:
    """The reason that the broker would not serve a folder with this topic id; None if it would.

    ``directory_ids``: of the broker's log directories that were given.
    """
    topic = key[0]
    expected = known.topic_ids.get(topic)
    if expected is None:
        return (
            f"the cluster has no topic {topic!r} (metadata up to offset {known.end_offset}): "
            f"the broker would rename the folder to -stray. {_CREATE.format(topic)}"
        )
    if expected != topic_id:
        return (
            f"the cluster's topic {topic!r} has the id {expected}, not {topic_id}: the broker "
            "would rename the folder to -stray and begin an empty one"
        )
    replicas = known.partition(topic_id, key[1])
    if replicas is None:
        return (
            f"the cluster's topic {topic!r} has only "
            f"{count_of(len(known.topics[topic_id]), 'partition')}, no {key[1]}: the broker "
            "would rename the folder to -stray. Add partitions first"
        )
    if node_id is None or node_id not in replicas.nodes:
        return (
            f"the partition is assigned to nodes {list(replicas.nodes)}, not to "
            f"{node_id}: the broker would rename the folder to -stray"
        )
    directory = replicas.directory_of(node_id)
    if directory is None or is_reserved_uuid(directory) or directory in directory_ids:
        return None
    return (
        f"the partition is assigned to the directory with id {directory}, which is none of "
        "those given: name all log.dirs of the broker. Where that one is lost for good, start "
        "the broker without it and stop it again: it then informs the cluster"
    )
