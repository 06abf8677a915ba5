"""Groups of kstore are those of a broker after a handover, and the other way round."""

from pathlib import Path

from kafka import KafkaAdminClient

import kstore
from interop.kafka_jars import run
from interop.node import node
from interop.old_node import old_node
from kstore.handover import check_broker, hand_over

VERSION = "3.9.2"
OLD_VERSION = "2.8.2"  # with ZooKeeper
COMMANDS = {
    VERSION: "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    OLD_VERSION: "kafka.admin.ConsumerGroupCommand",
}
OFFSETS = "__consumer_offsets"
PARTITIONS = 50
SETTINGS = {"offsets.topic.num.partitions": PARTITIONS}
GROUPS = {"billing": {0: 30, 1: 7}, "audit": {0: 100}}


def run_groups_tool(address: str, *words: str, version: str = VERSION) -> list[list[str]]:
    """The lines of Kafka's tool, as words."""
    server = ("--bootstrap-server", address, "--timeout", 60_000)
    done = run(version, COMMANDS[version], *server, *words)
    return [line.split() for line in done.stdout.decode().splitlines() if line.strip()]


def offsets_at(address: str, version: str = VERSION) -> dict[str, dict[int, int]]:
    """The committed offsets of every group, by partition of topic t."""
    found: dict[str, dict[int, int]] = {}
    for words in run_groups_tool(address, "--describe", "--all-groups", version=version):
        if len(words) > 3 and words[1] == "t" and words[3].isdigit():
            found.setdefault(words[0], {})[int(words[2])] = int(words[3])
    return found


def offsets_of(store: kstore.Store) -> dict[str, dict[int, int]]:
    return {
        name: {tp.partition: each.offset for tp, each in group.offsets.items()}
        for name, group in store.groups().items()
        if group.offsets
    }


def fill(own: Path, groups: dict[str, dict[int, int]]) -> None:
    """A topic t of two partitions, and groups that have committed."""
    with kstore.open(own) as store:
        topic = store.create_topic("t", 2)
        for log in topic:
            log.extend([b"%d" % number for number in range(100)])
        for name, offsets in groups.items():
            with store.consumer("t", group=name) as consumer:
                consumer.commit({("t", number): at for number, at in offsets.items()})


def test_groups_there_and_back(tmp_path: Path) -> None:
    own = tmp_path / "own"
    fill(own, GROUPS)
    (tmp_path / "node").mkdir()
    with node(VERSION, tmp_path / "node", **SETTINGS) as broker:
        broker.create_topic("t", 2)
        broker.create_topic(OFFSETS, PARTITIONS, cleanup_policy="compact")
        broker.stop()
        report = hand_over(own, broker.log_dir, topics=["t", OFFSETS])
        assert report.executed, report.findings

        broker.start()
        assert sorted(each[0] for each in run_groups_tool(broker.address, "--list")) == sorted(
            GROUPS
        )
        assert offsets_at(broker.address) == GROUPS
        reset = ("--reset-offsets", "--execute", "--topic", "t:1", "--to-offset", "50")
        run_groups_tool(broker.address, "--group", "billing", *reset)
        run_groups_tool(broker.address, "--group", "new", *reset)
        broker.stop()

        expected = {**GROUPS, "billing": {0: 30, 1: 50}, "new": {1: 50}}
        assert check_broker(broker.log_dir).ok
        with kstore.open(broker.log_dir) as store:
            assert offsets_of(store) == expected
            store.alter_group_offsets("audit", {("t", 1): 99})
            store.delete_group("new")
        broker.start()
        del expected["new"]
        assert offsets_at(broker.address) == {**expected, "audit": {0: 100, 1: 99}}


def test_groups_there_and_back_with_zookeeper(tmp_path: Path) -> None:
    """Kafka 2.8, which adopts the folders of topics that it knows by name."""
    own = tmp_path / "own"
    fill(own, GROUPS)
    (tmp_path / "node").mkdir()
    with old_node(OLD_VERSION, tmp_path / "node", settings=SETTINGS) as broker:
        run_groups_tool(
            broker.address, "--describe", "--group", "none", version=OLD_VERSION
        )  # makes the topic
        create_t(broker.address)
        broker.stop()
        report = hand_over(own, broker.log_dir, topics=["t", OFFSETS])
        assert (report.kind, report.executed) == ("ZooKeeper", True), report.findings

        broker.start()
        listed = run_groups_tool(broker.address, "--list", version=OLD_VERSION)
        assert sorted(each[0] for each in listed) == sorted(GROUPS)
        assert offsets_at(broker.address, OLD_VERSION) == GROUPS
        reset = ("--reset-offsets", "--execute", "--topic", "t:1", "--to-offset", "50")
        run_groups_tool(broker.address, "--group", "billing", *reset, version=OLD_VERSION)
        broker.stop()
        with kstore.open(broker.log_dir) as store:
            assert offsets_of(store) == {**GROUPS, "billing": {0: 30, 1: 50}}


def create_t(address: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics({"t": {"num_partitions": 2, "replication_factor": 1}})
    admin.close()
