"""Quotas: Kafka's ConfigCommand and kstore's say the same, and a client's producer is throttled."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from kstore import cli

VERSION = "3.9.2"
PATIENCE = 60


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node | KstoreNode]:
    libs(VERSION)
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        yield broker


def theirs(served: Node | KstoreNode, *words: str) -> str:
    main = "kafka.admin.ConfigCommand"
    return run(VERSION, main, "--bootstrap-server", served.address, *words).stdout.decode()


def lines(text: str) -> list[list[str]]:
    """Each line with its quotas sorted: Kafka's order is a hash's."""
    found = (line.partition(" are ") for line in text.splitlines())
    return sorted([head, *sorted(rest.split(", "))] for head, _, rest in found)


def test_both_tools_print_and_do_the_same(
    served: Node | KstoreNode, capfd: pytest.CaptureFixture[str]
) -> None:
    def ours(*words: str) -> str:
        capfd.readouterr()
        assert cli.main(["configs", *words, "--bootstrap-server", served.address]) == 0
        return capfd.readouterr().out

    users, clients, default = (
        ("--entity-type", "users"),
        ("--entity-type", "clients"),
        ("--entity-default",),
    )
    alice = (*users, "--entity-name", "alice")
    for words in (
        (*alice, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=99999999999"),
        (*users, *default, *clients, *default, "--add-config", "request_percentage=12.5"),
        ("--ip", "10.0.0.1", "--add-config", "connection_creation_rate=7"),
    ):
        said = ours("--alter", *words)
        assert said.startswith("Completed updating ")
        assert theirs(served, "--alter", *words) == said
    ours("--alter", *alice, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=secret]")
    for words in (users, (*users, *clients), alice, ("--entity-type", "ips")):
        said = ours("--describe", *words)
        assert said
        assert lines(theirs(served, "--describe", *words)) == lines(said)
    ours("--alter", *alice, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    said = theirs(served, "--describe", *alice)
    assert (
        said == "SCRAM credential configs for user-principal 'alice' are "
        "SCRAM-SHA-512=iterations=8192\n"
    )


def test_a_producer_of_librdkafka_is_throttled(served: Node | KstoreNode) -> None:
    served.create_topic("orders")
    words = ("--entity-type", "clients", "--entity-name", "limited")
    theirs(served, "--alter", *words, "--add-config", "producer_byte_rate=100000")
    throttled: list[float] = []

    def send(client_id: str) -> None:
        settings = {
            "bootstrap.servers": served.address, "client.id": client_id, "linger.ms": 0,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }  # fmt: skip
        producer = Producer(settings)
        for _ in range(12):
            producer.produce("orders", b"x" * 100_000)
        assert producer.flush(PATIENCE) == 0
        producer.poll(1)

    send("free")
    assert throttled == []
    send("limited")
    assert max(throttled) > 0
    theirs(served, "--alter", *words, "--delete-config", "producer_byte_rate")
    throttled.clear()
    send("limited")
    assert throttled == []
