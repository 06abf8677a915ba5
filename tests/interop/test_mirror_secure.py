"""Kafka with TLS and SASL: mirroring and the tools, with settings from a properties file."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import run, unavailable
from interop.node import Node, free_ports
from kstore.cli import main

WORD = "000123"  # of digits alone: not a number for all that
PAIRS = [(f"k{n}", f"value {n}") for n in range(40)]


def certificate(folder: Path) -> None:
    """A key store for the broker, and its certificate for clients that trust it."""
    if shutil.which("keytool") is None:
        unavailable("keytool, which comes with a JDK, is missing")
    common = ["-keystore", str(folder / "broker.p12"), "-storepass", "secret", "-alias", "broker"]
    for command in (
        ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1"],
        ["-exportcert", "-rfc", "-file", str(folder / "ca.pem")],
    ):
        subprocess.run(["keytool", *command, *common], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def secured(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, dict]]:
    root = tmp_path_factory.mktemp("secured")
    certificate(root)
    node = Node(kafka, root)
    ports = dict(zip(("TLS", "SASL", "BOTH"), free_ports(3), strict=True))
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    own = ["PLAINTEXT://" + node.address, *(f"{n}://{a}" for n, a in addresses.items())]
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    node.settings = {
        "listeners": ",".join([*own, f"CONTROLLER://127.0.0.1:{node._controller}"]),
        "advertised.listeners": ",".join(own),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
        "SASL:SASL_PLAINTEXT,BOTH:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f'{plain} user_reader="{WORD}";',
        "listener.name.both.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.both.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": root / "broker.p12",
        "ssl.keystore.password": "secret",
        "ssl.keystore.type": "PKCS12",
    }
    try:
        node.start()
        node.create_topic("t")
        node.produce("t", PAIRS)
        who = ["--entity-type", "users", "--entity-name", "reader"]
        what = ["--alter", "--add-config", f"SCRAM-SHA-512=[password={WORD}]"]
        run(kafka, "kafka.admin.ConfigCommand", "--bootstrap-server", node.address, *who, *what)
        yield node, addresses
    finally:
        node.kill()


def settings_of(node: Node) -> dict[str, str]:
    """The files that Kafka's own tools take, for each listener."""
    tls = f"ssl.truststore.type=PEM\nssl.truststore.location={node.log_dir.parent / 'ca.pem'}\n"
    module = "sasl.jaas.config=org.apache.kafka.common.security.{} required "
    user = f'username="reader" password="{WORD}";\n'
    plain, scram = module.format("plain.PlainLoginModule"), module.format("scram.ScramLoginModule")
    return {
        "TLS": "security.protocol=SSL\n" + tls,
        "SASL": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" + plain + user,
        "BOTH": "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n" + tls + scram + user,
    }


def mirror(address: str, target: Path, settings: str) -> int:
    path = target / "client.properties"
    target.mkdir(exist_ok=True)
    path.write_text(settings)
    arguments = ["--topic", "t", "--log-dir", str(target / "copy"), "--command-config", str(path)]
    return main(["mirror", "--bootstrap-server", address, *arguments])


def test_a_topic_is_mirrored_over_each_security_protocol(
    secured: tuple[Node, dict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, addresses = secured
    ways = settings_of(node)
    name_of_log = Path("t-0", f"{0:020}.log")
    theirs = (node.log_dir / name_of_log).read_bytes()
    for name, settings in ways.items():
        assert mirror(addresses[name], tmp_path / name, settings) == 0, capsys.readouterr()
        assert (tmp_path / name / "copy" / name_of_log).read_bytes() == theirs

    capsys.readouterr()
    for name, settings, reason in (
        ("SASL", ways["SASL"].replace(WORD, "not-this"), "Invalid username or password"),
        ("BOTH", ways["BOTH"].replace(WORD, "not-this"), "invalid credentials"),
        ("TLS", "security.protocol=SSL\n", "is not trusted"),
        ("BOTH", ways["BOTH"].replace("security.protocol", "security_protocol"), "instead of it"),
    ):
        assert mirror(addresses[name], tmp_path / "refused", settings) == 1
        error = capsys.readouterr().err
        assert reason in error, name
        assert "not-this" not in error
        assert not (tmp_path / "refused" / "copy" / name_of_log).exists()


def test_tools_of_each_protocol(
    secured: tuple[Node, dict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same files that Kafka's own tools take."""
    node, addresses = secured
    ways = settings_of(node)
    path = tmp_path / "client.properties"
    for name, settings in ways.items():
        path.write_text(settings)
        server = ["--bootstrap-server", addresses[name], "--command-config", str(path)]
        assert main(["get-offsets", "--topic", "t", *server]) == 0, capsys.readouterr()
        ours = capsys.readouterr().out
        assert ours == f"t:0:{len(PAIRS)}\n"
        theirs = run(node.version, "org.apache.kafka.tools.GetOffsetShell", "--topic", "t", *server)
        assert theirs.stdout.decode() == ours
        words = ["console-consumer", "--topic", "t", "--from-beginning", "--group", f"of-{name}"]
        assert main([*words, "--max-messages", "3", *server]) == 0, capsys.readouterr()
        assert capsys.readouterr().out == "".join(f"{value}\n" for _, value in PAIRS[:3])
    path.write_text(ways["BOTH"].replace(WORD, "not-this"))
    server = ["--bootstrap-server", addresses["BOTH"], "--command-config", str(path)]
    assert main(["get-offsets", "--topic", "t", *server]) == 1
    error = capsys.readouterr().err
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in error
    assert "not-this" not in error
