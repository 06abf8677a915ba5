"""``kstore configs`` for users, clients and ips of a server: Kafka's lines and rules."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.cli.server_quotas import java_double

Run = Callable[..., tuple[int, str, str]]
USERS, CLIENTS, IPS = (("--entity-type", each) for each in ("users", "clients", "ips"))
ALICE = (*USERS, "--entity-name", "alice")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    with kstore.serve(tmp_path / "data", port=0) as broker:
        yield broker


@pytest.fixture
def run(broker: kstore.Broker, capsys: Any) -> Run:
    def run(action: str, *words: str) -> tuple[int, str, str]:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        status = main(["configs", f"--{action}", *server, *words])
        return status, *capsys.readouterr()

    return run


def test_quotas_of_users_clients_and_addresses(run: Run) -> None:
    for words, said in (
        ((*ALICE, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2e10"),
         "Completed updating config for user alice."),
        ((*ALICE, *CLIENTS, "--entity-name", "c", "--add-config", "request_percentage=12.5"),
         "Completed updating config for user alice."),
        ((*USERS, "--entity-default", *CLIENTS, "--entity-default", "--add-config",
          "producer_byte_rate=5"), "Completed updating default config for users in the cluster."),
        (("--client-defaults", "--add-config", "controller_mutation_rate=3"),
         "Completed updating default config for clients in the cluster."),
        (("--ip", "10.0.0.1", "--add-config", "connection_creation_rate=7"),
         "Completed updating config for ip 10.0.0.1."),
        ((*IPS, "--entity-default", "--add-config", "connection_creation_rate=9"),
         "Completed updating default config for ips in the cluster."),
    ):  # fmt: skip
        assert run("alter", *words) == (0, f"{said}\n", "")
    alice = (
        "Quota configs for user-principal 'alice' are consumer_byte_rate=2.0E10, "
        "producer_byte_rate=1024.0\n"
    )
    both = "Quota configs for user-principal 'alice', client-id 'c' are request_percentage=12.5\n"
    default = (
        "Quota configs for the default user-principal, the default client-id are "
        "producer_byte_rate=5.0\n"
    )
    client = "Quota configs for the default client-id are controller_mutation_rate=3.0\n"
    ip = "Quota configs for ip '10.0.0.1' are connection_creation_rate=7.0\n"
    ips = "Quota configs for the default ip are connection_creation_rate=9.0\n"
    for words, said in (
        (USERS, alice),
        (ALICE, alice),
        (("--user", "alice"), alice),
        ((*USERS, "--entity-default"), ""),
        ((*USERS, *CLIENTS), both + default),
        ((*ALICE, *CLIENTS), both),
        (("--user-defaults", "--client-defaults"), default),
        (CLIENTS, client),
        (IPS, ip + ips),
        (("--ip-defaults",), ips),
    ):
        assert run("describe", *words) == (0, said, ""), words


def test_a_quota_that_is_removed_has_to_exist(run: Run) -> None:
    alice = ("--user", "alice")
    assert run("alter", *alice, "--add-config", "producer_byte_rate=1024")[0] == 0
    assert run("alter", *alice, "--delete-config", "producer_byte_rate")[0] == 0
    assert run("describe", *alice) == (0, "", "")
    status, out, error = run("alter", *alice, "--delete-config", "producer_byte_rate")
    assert (status, out) == (1, "")
    assert "Invalid config(s): producer_byte_rate" in error


def test_a_dry_run_checks_and_changes_nothing(run: Run) -> None:
    words = ("--user", "alice", "--dry-run", "--add-config")
    assert run("alter", *words, "producer_byte_rate=1024")[:2] == (
        0, "The config for user alice would be updated.\n",
    )  # fmt: skip
    assert run("alter", *words, "producer_byte_rate=-1")[0] == 1
    assert run("describe", "--user", "alice") == (0, "", "")


def test_scram_credentials_are_set_described_and_deleted(run: Run, broker: kstore.Broker) -> None:
    bob = ("--user", "bob")
    secret = "SCRAM-SHA-512=[iterations=8192,password=a=secret]"
    status, out, error = run("alter", *bob, "--add-config", secret)
    assert (status, out, error) == (0, "Completed updating config for user bob.\n", "")
    line = "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=8192\n"
    assert run("describe", *bob) == (0, line, "")
    assert run("describe", *USERS) == (0, line, "")
    assert run("describe", *USERS, "--entity-default") == (0, "", "")
    assert run("alter", *bob, "--delete-config", "SCRAM-SHA-512")[0] == 0
    assert run("describe", *bob) == (0, "", "")
    for words, text in (
        ((*CLIENTS, "--entity-name", "c", "--add-config", secret), "those of one user"),
        ((*bob, "--add-config", f"{secret},producer_byte_rate=1"), "Only one of quotas and SCRAM"),
        ((*bob, "--add-config", "SCRAM-SHA-512=[iterations=1,password=a]"), "4096 to 16384"),
        ((*bob, "--add-config", "SCRAM-SHA-512=secret"), "iterations may be missing"),
        ((*bob, "--add-config", secret, "--dry-run"), "--dry-run does not go"),
    ):
        status, _, error = run("alter", *words)
        assert status == 1
        assert text in error
        assert "secret" not in error.replace("password=...", "")


@pytest.mark.parametrize(
    ("action", "words", "text"),
    [
        ("alter", (*USERS, "--add-config", "producer_byte_rate=1"), "name or default must be"),
        ("alter", ("--user", "a", "--add-config", "producer_byte_rate=x"), "Cannot parse quota"),
        ("alter", ("--user", "a", "--add-config", "producer_byte_rate=1.5"), "fractional"),
        ("alter", ("--user", "a", "--add-config", "bogus=1"), "Invalid configuration key bogus"),
        ("alter", ("--user", "a", "--ip", "1.1.1.1", "--add-config", "x=1"), "may be specified"),
        ("alter", ("--ip", "no host", "--add-config", "connection_creation_rate=1"), "valid IP"),
        ("alter", (*USERS, *USERS, "--add-config", "x=1"), "may be specified together"),
        ("alter", (*USERS, "--entity-name", "a", "--entity-name", "b", "--add-config", "x=1"),
         "needs an --entity-type"),
        ("alter", ("--user", "a"), "At least one of --add-config"),
        ("describe", ("--entity-type", "topics", "--entity-default"), "goes with brokers, users"),
        ("describe", ("--entity-type", "hosts"), "Invalid entity type hosts"),
    ],
)  # fmt: skip
def test_wrong_use_is_explained(run: Run, action: str, words: tuple[str, ...], text: str) -> None:
    status, out, error = run(action, *words)
    assert (status, out) == (1, "")
    assert text in error


def test_a_directory_has_no_users(tmp_path: Path, capsys: Any) -> None:
    assert main(["configs", "--describe", "--user", "a", "--log-dir", str(tmp_path)]) == 1
    assert "those of a server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (12.5, "12.5"), (1024.0, "1024.0"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (99999999999.0, "9.9999999999E10"), (0.0001, "1.0E-4"),
    ],
)  # fmt: skip
def test_numbers_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text
