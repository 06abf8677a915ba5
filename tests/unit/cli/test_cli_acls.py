"""``kstore acls``: Kafka's options, rules and lines."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main

Run = Callable[..., tuple[int, str, str]]
ALICE = ("--allow-principal", "User:alice")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with kstore.serve(tmp_path / "data", port=0, settings=settings) as broker:
        yield broker


@pytest.fixture
def run(broker: kstore.Broker, capsys: Any) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        status = main(["acls", "--bootstrap-server", broker.bootstrap_servers, *words])
        return status, *capsys.readouterr()

    return run


def block(resource: str, *entries: str, title: str = "Current") -> str:
    """What Kafka prints of a resource; an entry is principal, host, operation, permission."""
    names = ("principal", "host", "operation", "permissionType")
    lines = [
        "\t(" + ", ".join(map("=".join, zip(names, each.split(), strict=True))) + ")"
        for each in entries
    ]
    text = "\n".join(lines)
    return f"{title} ACLs for resource `ResourcePattern({resource})`: \n {text} \n\n"


ORDERS = "resourceType=TOPIC, name=orders, patternType=LITERAL"
BILLING = "resourceType=GROUP, name=billing, patternType=LITERAL"
CLUSTER = "resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL"


def test_lists_are_added_shown_and_removed(run: Run) -> None:
    assert run("--list") == (0, "", "")
    words = ("--operation", "Read", "--topic", "orders", "--deny-principal", "User:bob")
    entries = ("User:alice * READ ALLOW", "User:bob 10.0.0.1 READ DENY")
    assert run("--add", *ALICE, *words, "--deny-host", "10.0.0.1") == (
        0, block(ORDERS, *entries, title="Adding"), "",
    )  # fmt: skip
    assert run("--list") == (0, block(ORDERS, *entries), "")
    assert run("--list", "--topic", "other") == (0, "", "")
    assert run("--list", "--principal", "User:bob") == (
        0, "ACLs for principal `User:bob`\n" + block(ORDERS, entries[1]), "",
    )  # fmt: skip
    assert run("--remove", *ALICE, "--operation", "read", "--topic", "orders", "--force") == (
        0, "", "",
    )  # fmt: skip
    assert run("--list") == (0, block(ORDERS, entries[1]), "")
    assert run("--remove", "--topic", "orders", "--force") == (0, "", "")
    assert run("--list") == (0, "", "")


def test_what_producers_and_consumers_need(run: Run) -> None:
    words = ("--producer", "--consumer", "--topic", "orders", "--group", "billing", "--idempotent")
    status, out, _ = run("--add", *ALICE, *words)
    assert status == 0
    of_topic = [f"User:alice * {each} ALLOW" for each in ("WRITE", "DESCRIBE", "CREATE", "READ")]
    assert out == (
        block(ORDERS, *of_topic, title="Adding")
        + block(CLUSTER, "User:alice * IDEMPOTENT_WRITE ALLOW", title="Adding")
        + block(BILLING, "User:alice * READ ALLOW", title="Adding")
    )


def test_kinds_of_resources_and_patterns(run: Run) -> None:
    assert run("--add", *ALICE, "--topic", "ord", "--resource-pattern-type", "prefixed")[0] == 0
    prefix = "resourceType=TOPIC, name=ord, patternType=PREFIXED"
    for pattern in ("match", "ANY"):
        name = "orders" if pattern == "match" else "ord"
        words = ("--list", "--topic", name, "--resource-pattern-type", pattern)
        assert run(*words) == (0, block(prefix, "User:alice * ALL ALLOW"), "")
    for option, kind, operation, shown in (
        ("transactional-id", "TRANSACTIONAL_ID", "write", "WRITE"),
        ("delegation-token", "DELEGATION_TOKEN", "Describe", "DESCRIBE"),
        ("user-principal", "USER", "CreateTokens", "CREATE_TOKENS"),
        ("group", "GROUP", "all", "ALL"),
    ):
        words = (f"--{option}", "x", "--operation", operation)
        resource = f"resourceType={kind}, name=x, patternType=LITERAL"
        entry = f"User:alice * {shown} ALLOW"
        assert run("--add", *ALICE, *words) == (0, block(resource, entry, title="Adding"), "")
    assert run("--add", *ALICE, "--cluster", "--operation", "cluster_action")[1] == block(
        CLUSTER, "User:alice * CLUSTER_ACTION ALLOW", title="Adding"
    )


@pytest.mark.parametrize(("answer", "left"), [("y\n", ""), ("n\n", "alice"), ("", "alice")])
def test_removing_acls_asks_for_confirmation(
    run: Run, answer: str, left: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("--add", *ALICE, "--topic", "orders")[0] == 0
    path = tmp_path / "answer"
    path.write_text(answer)
    with path.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        status, out, _ = run("--remove", "--topic", "orders")
    assert status == 0
    question = "Are you sure you want to delete all ACLs for resource filter `ResourcePattern("
    assert out == f"{question}{ORDERS})`? (y/n)\n"
    assert left in run("--list")[1]
    assert bool(left) == bool(run("--list")[1])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Command must include exactly one action: --list, --add, --remove."),
        (["--list", "--add"], "exactly one action"),
        (["--add", "--topic", "a"], "specify one of: --allow-principal, --deny-principal"),
        (["--add", *ALICE], "at least one resource: --topic <topic> or --cluster"),
        (["--remove"], "at least one resource"),
        (["--add", *ALICE, "--topic", "a", "--operation", "Bogus"], "no operation 'Bogus'"),
        (["--add", *ALICE, "--topic", "a", "--operation", "ClusterAction"],
         "ResourceType TOPIC only supports operations Read, All, AlterConfigs"),
        (["--add", *ALICE, "--topic", "a", "--resource-pattern-type", "any"],
         "'ANY' is not valid when adding acls"),
        (["--add", *ALICE, "--topic", "a", "--resource-pattern-type", "x"], "one of LITERAL"),
        (["--add", *ALICE, "--producer", "--group", "g"], "With --producer you must specify"),
        (["--add", *ALICE, "--consumer", "--topic", "g"], "With --consumer you must specify"),
        (["--add", *ALICE, "--consumer", "--topic", "g", "--group", "g", "--cluster"],
         "With --consumer you must specify"),
        (["--add", *ALICE, "--producer", "--topic", "g", "--operation", "Read"],
         'Option "[producer]" can\'t be used with option "[operation]"'),
        (["--add", *ALICE, "--idempotent", "--topic", "g"], "--idempotent option is only"),
        (["--list", *ALICE], 'Option "[list]" can\'t be used with option "[allow-principal]"'),
        (["--add", "--principal", "User:x", "--topic", "a"], "Did you mean --allow-principal?"),
        (["--list", "--authorizer", "x"], "kstore does not ask ZooKeeper: name a broker, "
         "which keeps the lists, by --bootstrap-server host:port"),
    ],
)  # fmt: skip
def test_invalid_options_of_acls_are_errors(run: Run, words: list[str], text: str) -> None:
    status, out, error = run(*words)
    assert (status, out) == (1, "")
    assert text in error.partition("\n\n")[0]


def test_refusals_of_a_broker_are_printed_as_kafkas_tools_print_them(
    run: Run, tmp_path: Path, capsys: Any
) -> None:
    assert run("--add", "--allow-principal", "alice", "--topic", "a")[:2] == (
        1, "Error while executing ACL command: expected a string in format "
        "principalType:principalName but got alice\n",
    )  # fmt: skip
    with kstore.serve(tmp_path / "open", port=0) as broker:
        assert main(["acls", "--list", "--bootstrap-server", broker.bootstrap_servers]) == 1
    assert "No Authorizer is configured" in capsys.readouterr().out
