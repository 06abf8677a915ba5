"""Waits for what a KRaft broker and its controller do some time after the broker's start."""

import time
from collections.abc import Callable
from pathlib import Path

from interop.node import Node
from kstore.checkpoint.meta_properties import read_meta_properties
from kstore.files.files import DISK
from kstore.store.cluster_metadata import read_cluster_metadata


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def wait_until_assigned(node: Node, topic: str, log_dir: Path) -> None:
    """Until the metadata says in which directory partition 0 of a topic is.

    A broker that is stopped before, and then loses that directory, makes the partition again in
    another one, empty, and serves it.
    """
    properties = read_meta_properties(DISK, log_dir)
    assert properties is not None
    assert properties.directory_id is not None
    (metadata,) = (path for each in node.log_dirs for path in each.glob("__cluster_metadata-0"))

    def is_assigned() -> bool:
        known = read_cluster_metadata(DISK, str(metadata))
        replicas = known.partition(known.topic_ids[topic], 0)
        return replicas is not None and properties.directory_id in replicas.directories

    wait_until(is_assigned, f"{topic}-0 is assigned to {log_dir}")
