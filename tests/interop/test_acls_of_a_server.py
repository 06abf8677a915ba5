"""``kstore acls`` and Kafka's AclCommand say the same, on Kafka and on kstore."""

from collections.abc import Iterator

import pytest

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from kstore import cli

VERSION = "3.9.2"
SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node | KstoreNode]:
    libs(VERSION)
    with either_node(request.param, tmp_path_factory.mktemp("served"), **SETTINGS) as broker:
        yield broker


def blocks(text: str) -> list[list[str]]:
    """The text about each resource with its entries in an order: Kafka's order is a hash's."""
    return sorted(
        [first, *sorted(line.strip() for line in rest)]
        for first, *rest in (part.split("\n") for part in text.split(" \n\n") if part.strip())
    )


def test_both_tools_print_and_do_the_same(
    served: Node | KstoreNode, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ("--bootstrap-server", served.address)

    def ours(*words: str) -> list[list[str]]:
        capfd.readouterr()
        assert cli.main(["acls", *server, *words]) == 0
        return blocks(capfd.readouterr().out)

    def theirs(*words: str) -> list[list[str]]:
        return blocks(run(VERSION, "kafka.admin.AclCommand", *server, *words).stdout.decode())

    alice = ("--add", "--allow-principal", "User:alice")
    both = (
        *alice, "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Read",
        "--operation", "describe", "--topic", "orders", "--topic", "audit", "--group", "billing",
    )  # fmt: skip
    needs = (*alice, "--producer", "--consumer", "--topic", "p", "--group", "g", "--idempotent")
    prefix = (*alice, "--transactional-id", "tx", "--resource-pattern-type", "prefixed")
    for words in (both, needs, prefix):
        said = ours(*words)
        assert said
        assert theirs(*words) == said  # what exists already is created again
    everything = ours("--list")
    assert len(everything) == 7
    assert theirs("--list") == everything
    matching = ("--list", "--transactional-id", "txn", "--resource-pattern-type", "match")
    for words in (matching, ("--list", "--principal", "User:bob", "--topic", "orders")):
        found = ours(*words)
        assert found
        assert theirs(*words) == found

    remove = ("--remove", "--force", "--topic", "orders")
    assert ours(*remove, "--allow-principal", "User:alice", "--operation", "Read") == []
    [left] = theirs("--list", "--topic", "orders")
    assert len(left) == 4
    assert ours(*remove) == []
    assert theirs("--list", "--topic", "orders") == []
