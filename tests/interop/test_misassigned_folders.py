"""Folders that the cluster has on another node, or in a directory that was not named.

`handover` refuses both; a real broker, given them all the same, shows what that spares.
"""

import gc
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

import kstore
from interop.assignment import wait_until_assigned
from interop.handover_checks import end_of, refusals
from interop.node import Node, two_nodes
from kstore.errors import SourceError
from kstore.handover import check_broker, plan_handover
from support.stores import QUIET


@pytest.fixture(autouse=True)
def _closed_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def fill(store_dir: Path, topic: str, count: int) -> None:
    with kstore.open(store_dir, config=QUIET) as store:
        store[topic][0].extend([b"v"] * count)


def test_a_folder_of_another_node(kafka: str, tmp_path: Path) -> None:
    with two_nodes(kafka, tmp_path) as (first, second):
        admin = KafkaAdminClient(bootstrap_servers=first.address)
        admin.create_topics([NewTopic("far", replica_assignments={0: [2]})])
        admin.close()
        assert end_of(second, "far") == 0
        second.stop()
        first.stop()
        fill(second.log_dir, "far", 7)
        shutil.copytree(second.log_dir / "far-0", first.log_dir / "far-0")

        assert refusals(check_broker(second.log_dir)) == []
        (refusal,) = refusals(check_broker(first.log_dir))
        assert "assigned to nodes [2], not to 1" in refusal
        assert "-stray" in refusal
        with kstore.open(tmp_path / "own", config=QUIET) as store:
            store.create_topic("far").append(b"v")
        planned = refusals(plan_handover(tmp_path / "own", first.log_dir))
        assert any("assigned to nodes [2], not to 1" in each for each in planned)

        first.start()
        second.start()
        assert end_of(second, "far") == 7
        second.stop()
        first.stop()
        assert not (first.log_dir / "far-0").exists()
        assert [path.name.split(".")[0] for path in first.log_dir.glob("*-stray")] == ["far-0"]
        assert refusals(check_broker(first.log_dir)) == []


def test_a_folder_of_a_directory_that_was_not_named(kafka: str, tmp_path: Path) -> None:
    node = Node(kafka, tmp_path, dirs=2)
    one, two = node.log_dirs
    try:
        node.start()
        admin = KafkaAdminClient(bootstrap_servers=node.address)
        admin.create_topics([NewTopic(name, 1, 1) for name in ("t0", "t1", "t2", "t3")])
        admin.close()
        for number in range(4):
            assert end_of(node, f"t{number}") == 0
        for path in two.glob("t?-0"):
            wait_until_assigned(node, path.name[:-2], two)
        node.stop()
        topic = next(path for path in sorted(two.glob("t?-0"))).name[:-2]
        fill(two, topic, 7)
        shutil.copytree(two / f"{topic}-0", one / f"{topic}-0")

        (refusal,) = refusals(check_broker(one))
        assert "name all log.dirs" in refusal
        both = refusals(check_broker(node.log_dirs))
        assert any("the same partition is in" in each for each in both)

        node.log_dirs = [one]  # the broker without it, as the refusal says
        node.start()
        with pytest.raises(SourceError):
            end_of(node, topic, patience=4)
        wait_until_assigned(node, topic, one)
        node.stop()
        # It has reported to the cluster, and serves it now.
        assert refusals(check_broker(one)) == []
        node.start()
        assert end_of(node, topic) == 7
        node.stop()
    finally:
        node.kill()
