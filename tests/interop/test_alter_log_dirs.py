"""A broker with two log.dirs serves what kstore moved between them."""

import time

import pytest

import kstore
from interop.node import Node
from kstore import StoreConfig
from kstore.handover import check_broker


def test_a_broker_serves_a_moved_partition(kafka, tmp_path):
    root = tmp_path / "node"
    root.mkdir()
    broker = Node(kafka, root, dirs=2)
    first, second = broker.log_dirs
    try:
        broker.start()
        broker.create_topic("moved", 2)
        pairs = [(f"key-{n}", f"value-{n}") for n in range(200)]
        broker.produce("moved", pairs)
        broker.stop()
        with kstore.open([first, second], config=StoreConfig(background=False)) as store:
            for log in store["moved"]:
                target = second if log.path.startswith(f"{first}/") else first
                log.extend([b"by kstore"] * 50)
                store.move("moved", log.partition, target)
                log.append(b"after the move")
                assert log.path == str(target / f"moved-{log.partition}")
            kept = {log.partition: [(r.offset, r.value) for r in log] for log in store["moved"]}
        for path in (first, second):
            assert (path / ".kafka_cleanshutdown").exists()
        broker.start()
        found = broker.consume("moved", sum(map(len, kept.values())))
        assert {
            partition: [(r.offset, r.value.encode()) for r in found if r.partition == partition]
            for partition in kept
        } == kept
        broker.produce("moved", [("k", "and on")])
        broker.stop()
        for path in (first, second):
            assert not list(path.glob("*-stray"))
            assert not list(path.glob("*-delete"))
        with kstore.open([first, second], "r") as store:
            ends = sum(log.end_offset for log in store["moved"])
            assert ends == sum(map(len, kept.values())) + 1
    finally:
        broker.kill()


def folders_at_rest(broker: Node, topic: str) -> dict[str, list[str]]:
    """Where its folders are once nothing is on the move any more (or after 20 s)."""
    deadline = time.monotonic() + 20
    while True:
        found = {
            path.name: sorted(
                each.name for each in path.glob(f"{topic}-*") if not each.name.endswith("-delete")
            )
            for path in broker.log_dirs
        }
        names = [name for each in found.values() for name in each]
        if names == [f"{topic}-0"] or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


class Halt(Exception):
    """Ends a move half way."""


def halt(done: int, _size: int) -> None:
    if done > 5000:
        raise Halt


def test_a_broker_continues_or_empties_unfinished_copies(kafka, tmp_path):
    """It continues one of kstore; one whose partition is gone it uses, or empties."""
    root = tmp_path / "node"
    root.mkdir()
    broker = Node(kafka, root, dirs=2)
    try:
        broker.start()
        for topic in ("begun", "alone", "astray"):
            broker.create_topic(topic)
            broker.produce(topic, [(f"key-{n}", f"value-{n}" * 20) for n in range(200)])
        broker.stop()
        home = {
            topic: next(path for path in broker.log_dirs if (path / f"{topic}-0").exists())
            for topic in ("begun", "alone", "astray")
        }
        other = {
            topic: next(path for path in broker.log_dirs if path != home[topic]) for topic in home
        }
        with kstore.open(broker.log_dirs, config=StoreConfig(background=False)) as store:
            log = store["begun"][0]
            log.extend([b"by kstore" * 20] * 100)
            with pytest.raises(Halt):
                store.move("begun", 0, other["begun"], progress=halt)
        future = f".{1:032x}-future"
        (home["alone"] / "alone-0").rename(home["alone"] / f"alone-0{future}")
        (home["astray"] / "astray-0").rename(other["astray"] / f"astray-0{future}")
        warned = [each for each in check_broker(broker.log_dirs).findings if "empties" in each[2]]
        assert {each.where.rpartition("/")[2].split("-")[0] for each in warned} == {
            "alone",
            "astray",
        }
        assert {each.level for each in warned} == {"warning"}

        broker.start()
        for topic, log_dir in (
            ("begun", other["begun"]), ("alone", home["alone"]), ("astray", other["astray"])
        ):  # fmt: skip
            assert folders_at_rest(broker, topic)[log_dir.name] == [f"{topic}-0"], topic
        ends = {topic: broker.end_offsets(topic)[0] for topic in home}
        assert ends == {"begun": 300, "alone": 200, "astray": 0}
        broker.stop()
    finally:
        broker.kill()
