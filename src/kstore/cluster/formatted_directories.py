"""Formats log directories as Kafka's Formatter does: gives them the cluster's id before a broker
first serves them.

Kafka's tool writes ``meta.properties``. kstore never creates that file; it writes
``kstore.broker``, in which a broker would otherwise keep a random id.
"""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.meta_properties import read_meta_properties
from kstore.cluster.broker_file import BrokerState, read_broker_file, write_broker_file
from kstore.cluster.node_identity import find_node_identity
from kstore.errors import InvalidConfigError
from kstore.files.filenames import BROKER_FILE, META_PROPERTIES
from kstore.files.files import DISK, Files
from kstore.kafka_uuid import random_uuid

if TYPE_CHECKING:
    from kstore.store.store import Store


def new_cluster_id() -> str:
    """A random id, as ``kafka-storage random-uuid`` prints it."""
    return random_uuid()


def formatted(
    paths: Iterable[str], cluster_id: str, node_id: int, files: Files = DISK
) -> list[str]:
    """The directories that have the id of a cluster already, from Kafka or from kstore. Only reads.

    Raises InvalidConfigError if one has another cluster's or node's; CorruptFileError.
    """
    found = []
    for path in paths:
        if not files.exists(path):
            continue
        log_dir = LogDir(files, path, writable=False)
        name, own = META_PROPERTIES, find_node_identity([log_dir], node_id).cluster_id
        if own is None and read_meta_properties(files, path) is None:
            state = read_broker_file([log_dir])
            if state is None:
                continue
            name, own = BROKER_FILE, state.cluster_id
        if own not in (None, cluster_id):
            raise InvalidConfigError(
                f"Invalid cluster.id in: {os.path.join(path, name)}. "
                f"Expected {cluster_id}, but read {own}"
            )
        found.append(path)
    return found


def write_cluster_id(store: "Store", cluster_id: str) -> None:
    """Keep the id in all directories of a store that is open for writing, for its first broker.

    Raises StorageError.
    """
    log_dirs: Sequence[LogDir] = store._manager._dirs
    write_broker_file(log_dirs, read_broker_file(log_dirs) or BrokerState(cluster_id))
