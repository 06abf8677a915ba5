"""Topics without a topic id, as created by Kafka before 2.8."""

from pathlib import Path

import kstore
from support.stores import QUIET, make_kafkas_partition

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
# (has_stamp, by_kstore): with a stamp, any later topic of the same name is recognized as a
# different topic; without it, only one created by kstore, which has an id.
WAYS = [(True, True), (True, False), (False, True)]


def make_topic(path: Path, *counts: int, value: bytes = b"old") -> None:
    """Create topic ``t`` with these numbers of records by partition; a kstore writer adds
    stamps."""
    for partition in range(len(counts)):
        make_kafkas_partition(path, "t", partition)
    with kstore.open(path, config=QUIET) as store:
        for partition, count in enumerate(counts):
            store["t"][partition].extend([value] * count)


def forget_stamps(path: Path) -> None:
    """Remove the stamps, as if no kstore had opened the directory for writing yet."""
    (path / "kstore.topics").unlink()


def make_topic_again(path: Path, *counts: int, by_kstore: bool = False) -> None:
    """Delete the topic and recreate it; a topic created by kstore has an id."""
    with kstore.open(path, config=QUIET) as store:
        store.delete_topic("t", foreign=True)
        if by_kstore:
            topic = store.create_topic("t", len(counts))
            for partition, count in enumerate(counts):
                topic[partition].extend([b"new"] * count)
    if not by_kstore:
        make_topic(path, *counts, value=b"new")


def assign_id(path: Path) -> None:
    """Assign a topic id, as an upgraded broker does."""
    for folder in path.glob("t-*"):
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
