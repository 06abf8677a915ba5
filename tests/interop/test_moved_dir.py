"""A broker with two log.dirs serves what kstore moved between them."""

import kstore
from interop.node import Node
from kstore import StoreConfig


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
