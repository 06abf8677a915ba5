"""Key- and truststores that keytool wrote: in the broker, kstore's tools and a Java client."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from interop.kafka_jars import run, unavailable
from kstore.cli import main
from kstore.errors import InvalidConfigError

PASSWORD = "a secret"


def keytool(folder: Path, *words: str) -> None:
    if shutil.which("keytool") is None:
        unavailable("keytool, which comes with a JDK, is missing")
    done = subprocess.run(
        ["keytool", "-storepass", PASSWORD, "-noprompt", *words],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of a broker and a client, which trust each other, as Kafka's documentation does."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ("server", "client"):
        keytool(
            folder, "-genkeypair", "-keystore", f"{name}.jks", "-alias", name, "-keyalg", "RSA",
            "-dname", f"CN={name}", "-ext", "san=dns:localhost,ip:127.0.0.1",
        )  # fmt: skip
        keytool(
            folder, "-exportcert", "-keystore", f"{name}.jks", "-alias", name, "-file",
            f"{name}.crt",
        )  # fmt: skip
    for name, other in (("server", "client"), ("client", "server")):
        keytool(
            folder, "-importcert", "-keystore", f"{name}.trust.jks", "-alias", other, "-file",
            f"{other}.crt",
        )  # fmt: skip
    keytool(
        folder, "-genkeypair", "-keystore", "old.jks", "-storetype", "JKS", "-alias", "old",
        "-keyalg", "RSA", "-dname", "CN=old", "-keypass", PASSWORD,
    )  # fmt: skip
    return folder


def settings_of(stores: Path, name: str) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(stores / f"{name}.jks"),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(stores / f"{name}.trust.jks"),
        "ssl.truststore.password": PASSWORD,
    }


@pytest.fixture(scope="module")
def broker(stores: Path) -> Iterator[kstore.Broker]:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PKCS12",
        **settings_of(stores, "server"),
    }
    with kstore.serve(stores / "data", settings=settings) as broker:
        broker.store.create_topic("orders")
        yield broker


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_both_tools(
    broker: kstore.Broker,
    stores: Path,
    kafka: str,
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {
        "security.protocol": "SSL",
        "ssl.keystore.type": kind,
        "ssl.truststore.type": kind,
        **settings_of(stores, "client"),
    }
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ["--list", "--bootstrap-server", broker.bootstrap_servers, "--command-config"]
    assert main(["topics", *words, str(path)]) == 0
    assert capsys.readouterr().out == "orders\n"
    found = run(kafka, "org.apache.kafka.tools.TopicCommand", *words, path)
    assert found.stdout.decode() == "orders\n"


def test_an_old_store_is_refused_with_the_command_that_converts_it(stores: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(stores / "old.jks"),
        "ssl.keystore.password": PASSWORD,
    }
    with pytest.raises(InvalidConfigError, match="keytool -importkeystore") as raised:
        kstore.serve(stores / "old", settings=settings)
    command = str(raised.value).partition("convert it: ")[2].split()
    assert command[0] == "keytool"
    keytool(stores, *command[1:], "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD)
    settings["ssl.keystore.location"] += ".p12"
    with kstore.serve(stores / "new", settings=settings) as broker:
        assert broker.port
