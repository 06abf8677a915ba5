"""Tools with --command-config on listeners with TLS and SASL."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kstore
from kstore.cli import main
from kstore.remote.authentication import AuthenticationFailedError
from kstore.remote.connection import Connection
from kstore.remote.store import RemoteStore
from kstore.security.client_settings import client_security
from support.secure_broker import MECHANISMS, PLAIN_MODULE, secure_broker

PASSWORD = 'a secret, = "quoted"'
QUOTED = PASSWORD.replace('"', '\\"')
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required "
USER = f'username="alice" password="{QUOTED}";'
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "num.io.threads": 1,  # which the fixture starts
}
CASES = [("SSL", "")]
CASES += [
    (protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS
]


def write_properties(path: Path, settings: dict[str, str]) -> str:
    lines = (f"{name}={value}\n" for name, value in settings.items())
    path.write_text("".join(lines).replace("\\", "\\\\"))  # as Java's properties read them
    return os.fspath(path)


class Served(NamedTuple):
    broker: kstore.Broker
    trusted: Path
    client: Path

    def settings(self, protocol: str, mechanism: str) -> dict[str, str]:
        """The client's settings of a listener."""
        found = {"security.protocol": protocol}
        if protocol != "SASL_PLAINTEXT":
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": os.fspath(self.trusted),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": os.fspath(self.client),
            }
        if mechanism:
            module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": module + USER}
        return found

    def run(self, protocol: str, settings: dict[str, str], folder: Path, *words: str) -> int:
        """Run a tool with a file of settings."""
        path = write_properties(folder / "client.properties", settings)
        server = ("--bootstrap-server", self.broker.listeners[protocol])
        return main([*words, *server, "--command-config", path])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served")
    with secure_broker(root, f'user_alice="{QUOTED}"', SETTINGS) as secured:
        broker = secured.broker
        broker.store.create_topic("orders", partitions=2)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            set_password(broker, mechanism)
        yield Served(*secured)


def set_password(broker: kstore.Broker, mechanism: str) -> None:
    from kstore.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from kstore.security.scram import salted

    salt = b"0123456789abcdef"
    upsertion = AlterUserScramCredentialsRequest.Upsertions(
        name="alice",
        mechanism=1 if mechanism.endswith("256") else 2,
        iterations=4096,
        salt=salt,
        salted_password=salted(mechanism, PASSWORD, salt, 4096),
    )
    host, port = broker.listeners["INTERNAL"].split(":")
    with Connection(host, int(port)) as connection:
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        answer = connection.ask(request, AlterUserScramCredentialsResponse)
        assert [each.error_code for each in answer.results] == [0]


@pytest.mark.parametrize(("protocol", "mechanism"), CASES)
def test_tools_connect(
    served: Served, protocol: str, mechanism: str, tmp_path: Path, capsys: Any
) -> None:
    settings = served.settings(protocol, mechanism)
    assert served.run(protocol, settings, tmp_path, "topics", "--list") == 0
    assert "orders\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["configs", "--describe", "--topic", "orders"],
        ["get-offsets", "--topic", "orders"],
        ["consumer-groups", "--list"],
        ["log-dirs", "--describe"],
        ["broker-api-versions"],
        ["cluster", "cluster-id"],
        ["cluster", "list-endpoints"],
        ["features", "describe"],
        ["metadata-quorum", "describe", "--status"],
        ["groups", "--list"],
        ["transactions", "list"],
        ["reassign-partitions", "--list"],
        ["leader-election", "--election-type", "preferred", "--all-topic-partitions"],
        ["producer-perf", "--topic", "orders", "--num-records", "3", "--record-size", "10",
         "--throughput", "-1"],
        ["consumer-perf", "--topic", "orders", "--messages", "3"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_each_tool_takes_the_file(
    served: Served, words: list[str], tmp_path: Path, capsys: Any
) -> None:
    settings = served.settings("SASL_SSL", "SCRAM-SHA-512")
    assert served.run("SASL_SSL", settings, tmp_path, *words) == 0, capsys.readouterr()


def test_older_names_of_the_option(served: Served, tmp_path: Path, capsys: Any) -> None:
    path = write_properties(
        tmp_path / "client.properties", served.settings("SASL_PLAINTEXT", "PLAIN")
    )
    server = ["--bootstrap-server", served.broker.listeners["SASL_PLAINTEXT"]]
    for words in (
        ["transactions", *server, "--command-config", path, "list"],
        ["leader-election", *server, "--admin.config", path, "--election-type",
         "preferred", "--all-topic-partitions"],
        ["producer-perf", "--topic", "orders", "--num-records", "3", "--record-size", "10",
         "--throughput", "-1", "--producer.config", path, "--producer-props",
         f"bootstrap.servers={server[1]}", "acks=1"],
        ["consumer-perf", *server, "--consumer.config", path, "--topic", "orders",
         "--messages", "3"],
    ):  # fmt: skip
        assert main(words) == 0, capsys.readouterr()


def test_console_tools_send_and_read_over_sasl_ssl(
    served: Served, tmp_path: Path, capsys: Any, stdin_of: Callable[[bytes], None]
) -> None:
    settings = served.settings("SASL_SSL", "SCRAM-SHA-256")
    served.broker.store.create_topic("console")
    stdin_of(b"one\ntwo\n")
    assert served.run("SASL_SSL", settings, tmp_path, "console-producer", "--topic", "console") == 0
    words = ["console-consumer", "--topic", "console", "--from-beginning", "--max-messages", "2"]
    assert served.run("SASL_SSL", settings, tmp_path, *words, "--group", "g") == 0
    out, err = capsys.readouterr()
    assert out == "one\ntwo\n"
    assert "without effect" not in err


@pytest.fixture
def stdin_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    files = []

    def feed(data: bytes) -> None:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        files.append(os.fdopen(reading))
        monkeypatch.setattr("sys.stdin", files[-1])

    yield feed
    for file in files:
        file.close()


@pytest.mark.parametrize(
    ("protocol", "mechanism", "changes", "text"),
    [
        ("SASL_PLAINTEXT", "PLAIN",
         {"sasl.jaas.config": PLAIN_MODULE + 'username="alice" password="x";'},
         "Authentication failed: Invalid username or password"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512",
         {"sasl.jaas.config": SCRAM + 'username="alice" password="x";'},
         "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ("SASL_PLAINTEXT", "PLAIN", {"security.protocol": "PLAINTEXT"}, "security protocol"),
        ("SSL", "", {"ssl.truststore.location": "", "ssl.truststore.type": ""},
         "the certificate of 127.0.0.1:{port} is not trusted: "),
        ("SSL", "", {"ssl.keystore.location": "", "ssl.keystore.type": ""}, "127.0.0.1:{port}"),
        ("SSL", "", {"security.protocol": "PLAINTEXT"}, "127.0.0.1:{port}"),
        ("SSL", "", {"ssl.truststore.type": "JKS"}, "it is PEM, set the type to PEM"),
        ("INTERNAL", "", {"security.protocol": "SSL"}, "does that listener use TLS?"),
        ("SSL", "", {"sasl.mechanismus": "PLAIN"}, "does not support sasl.mechanismus"),
    ],
)  # fmt: skip
def test_refusals_say_why(
    served: Served,
    protocol: str,
    mechanism: str,
    changes: dict[str, str],
    text: str,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kstore.remote.cluster._PAUSE", 0.0)
    known = "SSL" if protocol == "INTERNAL" else protocol
    settings = {**served.settings(known, mechanism), **changes}
    assert served.run(protocol, settings, tmp_path, "topics", "--list") == 1
    error = "".join(capsys.readouterr())  # kafka-topics prints what a server says on stdout
    port = served.broker.listeners[protocol].rpartition(":")[2]
    assert text.format(port=port) in error
    assert "secret" not in error
    assert "Traceback" not in error


def test_a_session_that_ends_is_renewed(served: Served) -> None:
    settings = client_security(served.settings("SASL_SSL", "SCRAM-SHA-256"))
    address = served.broker.listeners["SASL_SSL"]
    with RemoteStore(address, security=settings) as store:
        connection = store.cluster._any()
        done: list[object] = []
        authenticate = connection._authenticate
        connection._authenticate = lambda sasl: done.append(sasl)
        assert "orders" in store
        assert done == []
        connection._session_ends = 0.0
        assert "orders" in store
        assert done == [settings.sasl]
        # This broker's sessions never end: it refuses the repetition, and the tool says so.
        connection._authenticate = authenticate
        with pytest.raises(AuthenticationFailedError):
            connection._authenticate(settings.sasl)


def test_a_broker_with_sessions_takes_the_renewal(tmp_path: Path) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_MODULE
        + f'user_alice="{QUOTED}";',
        "kstore.sasl.plain.without.tls": True,
        "connections.max.reauth.ms": 3_600_000,
    }
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": PLAIN_MODULE + USER,
        }
    )
    with (
        kstore.serve(tmp_path / "data", settings=settings) as broker,
        RemoteStore(broker.bootstrap_servers, security=security) as store,
    ):
        connection = store.cluster._any()
        ends = connection._session_ends
        assert ends < float("inf")
        connection._session_ends = 0.0
        assert list(store) == []
        assert connection._session_ends >= ends
