"""All directories of tests/data in one broker: each partition folder as a topic of its own.

A folder keeps its files and its log start offset; what the set's own log.dir says beside that
(epochs of leaders, who the node is) is the new broker's.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient

from interop.node import Node
from kafka_files.data_sets import DATA, Fixtures, unpack

_FOLDER = re.compile(r"[A-Za-z0-9._-]+-\d+")
# What a broker loads of a partition. Of the leader epochs it keeps its own: those of a fixture
# are of leaders that this controller never elected.
_FILES = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.swap|\.cleaned|\.deleted)?")


class Served(NamedTuple):
    """A partition folder of a set, and the topic that it became (partition 0)."""

    topic: str
    folder: Path
    log_start: int


def folders(root: Path) -> list[Served]:
    """What a broker of today can serve of tests/data."""
    return [each for each in _all(root) if not UNSERVED.fullmatch(each.topic)]


def _all(root: Path) -> Iterator[Served]:
    """Every partition folder of tests/data that was left by a clean stop, or recovered by its
    own broker, and every record set as a log of one segment."""
    names = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))
    for name in names:
        if name.startswith("dump-"):
            continue
        unpacked = unpack(name, root / name)
        if name == "fixtures":
            yield from _record_sets(unpacked)
        yield from _below(unpacked, name)
    yield from _below(DATA / "cluster-metadata", "cluster-metadata")


# What no broker can serve: two partitions keep a batch whose checksum is wrong (it lies below the
# recovery point, so their own broker left it there; consumers stop at it, and so does kstore); of
# the record set each batch has offset 0, and a broker that loads it cuts off all but the first.
UNSERVED = re.compile(
    r"recovered-kraft-[0-9.]+\.middle\.after\.storm-(plain-0|tx-1)"
    r"|record-sets\.kafka-python\.record_batch_data_v2"
)


def _below(unpacked: Path, name: str) -> Iterator[Served]:
    for folder in sorted(unpacked.rglob("*-*")):
        parts = folder.relative_to(unpacked).parts
        if not folder.is_dir() or not _FOLDER.fullmatch(folder.name) or "before" in parts:
            continue
        if any(folder.glob("*.log")):
            topic = ".".join(("made" if name == "fixtures" else name, *parts))
            topic = re.sub(r"^made\.segments\.", "", topic)
            yield Served(topic, folder, _log_start(folder))


def _log_start(folder: Path) -> int:
    checkpoint = folder.parent / "log-start-offset-checkpoint"
    if checkpoint.exists():
        topic, _, partition = folder.name.rpartition("-")
        for line in checkpoint.read_text().splitlines()[2:]:
            if line.split()[:2] == [topic, partition]:
                return int(line.split()[2])
    return 0


def _record_sets(root: Path) -> Iterator[Served]:
    for fixture in Fixtures(root).of_kind("record-set"):
        first = fixture.expected["base_offset"]
        if first is None or first < 0:
            continue  # no complete batch in it; or as a client sends it, before it has an offset
        folder = root / "as-logs" / fixture.name.replace("/", ".").removesuffix(".bin")
        folder.mkdir(parents=True)
        (folder / f"{first:020}.log").write_bytes(fixture.data)
        yield Served(folder.name, folder, 0)


def hand_over(node: Node, served: list[Served]) -> None:
    """Make the topics, stop the broker, and put the folders' files into its log.dir."""
    node.start()
    admin = KafkaAdminClient(bootstrap_servers=node.address, request_timeout_ms=120_000)
    try:  # all in one request: one after another they take minutes
        admin.create_topics([each.topic for each in served], timeout_ms=120_000)
    finally:
        admin.close()
    node.stop()
    starts = {}
    for each in served:
        target = node.log_dir / f"{each.topic}-0"
        for path in target.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        found = [path for path in each.folder.iterdir() if _FILES.fullmatch(path.name)]
        subprocess.run(["cp", "--sparse=always", *found, target], check=True)
        if each.log_start:
            starts[each.topic] = each.log_start
    lines = "".join(f"{topic} 0 {start}\n" for topic, start in sorted(starts.items()))
    (node.log_dir / "log-start-offset-checkpoint").write_text(f"0\n{len(starts)}\n{lines}")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (node.log_dir / name).unlink(missing_ok=True)


def copy(log_dir: Path, target: Path) -> Path:
    """As it lies, holes in files kept."""
    subprocess.run(["cp", "-r", "--sparse=always", log_dir, target], check=True)
    shutil.rmtree(target / "__cluster_metadata-0")
    return target
