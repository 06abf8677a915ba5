"""--bootstrap-controller of cluster, configs and features: a broker, or a controller, answers.

``tests/interop`` compares with Kafka's tools.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kstore.broker.broker import serve
from kstore.cli import main
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kstore.protocol.messages.describe_cluster import DescribeClusterResponse
from kstore.protocol.wire import Writer

MISMATCHED = (
    "org.apache.kafka.common.errors.MismatchedEndpointTypeException: The request was sent to an "
    "endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
)
UNSUPPORTED = (
    "org.apache.kafka.common.errors.UnsupportedEndpointTypeException: This Admin API is not yet "
    "supported when communicating directly with the controller quorum."
)
OF_FEATURES = (
    "Feature: kraft.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
    "FinalizedVersionLevel: 1\tEpoch: 7"
)


@contextmanager
def controller(newest: int = 1) -> Iterator[str]:
    """The address of a controller that knows DescribeCluster up to a version."""
    Keys, Features, Finalized = (  # noqa: N806 (classes)
        ApiVersionsResponse.ApiKeys,
        ApiVersionsResponse.SupportedFeatures,
        ApiVersionsResponse.FinalizedFeatures,
    )
    versions = ApiVersionsResponse(
        api_keys=[
            Keys(ApiKey.API_VERSIONS, 0, ApiVersionsRequest.MAX_VERSION),
            Keys(ApiKey.DESCRIBE_CLUSTER, 0, newest),
        ],
        supported_features=[Features("kraft.version", 0, 1)],
        finalized_features_epoch=7,
        finalized_features=[Finalized("kraft.version", 1, 1)],
    )
    described = DescribeClusterResponse(endpoint_type=2, cluster_id="QuorumQuorumQuorum-abc")

    def answer(connection: socket.socket) -> None:
        while head := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
            key, version, correlation_id = struct.unpack_from(">hhi", request)
            writer = Writer()
            if key == ApiKey.API_VERSIONS:
                versions.encode(writer, version)
                body = struct.pack(">i", correlation_id)
            else:
                described.encode(writer, version)
                body = struct.pack(">ix", correlation_id)
            body += b"".join(bytes(chunk) for chunk in writer.chunks())
            connection.sendall(struct.pack(">i", len(body)) + body)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("kafka"), port=0) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cluster cluster-id -C AT", MISMATCHED),
        ("features --bootstrap-controller AT describe", MISMATCHED),
        ("features describe --bootstrap-controller AT", MISMATCHED),
        ("cluster unregister -i 9 -C AT", UNSUPPORTED),
        ("configs --describe --entity-type brokers --bootstrap-controller AT", MISMATCHED),
        ("configs --alter --broker 0 --add-config a=b --bootstrap-controller AT", MISMATCHED),
        ("configs --describe --entity-type topics --bootstrap-controller AT", UNSUPPORTED),
        ("configs --describe --user alice --bootstrap-controller AT", UNSUPPORTED),
    ],
)
def test_a_broker_is_no_controller(
    broker: str, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.replace("AT", broker).split()) == 1
    tool = words.partition(" ")[0]
    assert capsys.readouterr() == ("", f"kstore {tool}: {sentence}\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--describe --topic orders", "Dynamic configs for topic orders are:"),
        ("--describe --broker 1 --all", "All configs for broker 1 are:"),
        ("--describe --broker-defaults", "Default configs for brokers in the cluster are:"),
    ],
)
def test_the_heading_comes_before_the_error(
    broker: str, words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["configs", *words.split(), "--bootstrap-controller", broker]) == 1
    assert capsys.readouterr() == (f"{line}\n", f"kstore configs: {MISMATCHED}\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cluster cluster-id -C x:1 -b x:1", "not allowed with argument"),
        (
            "cluster cluster-id",
            "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required",
        ),
        (
            "features --bootstrap-controller x:1 --bootstrap-server x:1 describe",
            "argument --bootstrap-controller: not allowed with argument --bootstrap-server",
        ),
        (
            "configs --describe --topic t --bootstrap-controller x:1 --bootstrap-server x:1",
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be "
            "specified",
        ),
        (
            "configs --describe --topic t --bootstrap-controller x:1 --log-dir x",
            'Option "[log-dir]" can\'t be used with option "[bootstrap-controller]"',
        ),
        ("configs --alter --topic t --bootstrap-controller x:1", "At least one of --add-config"),
    ],
)
def test_options_beside_it(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    assert sentence in capsys.readouterr().err.partition("\n")[0]


def test_a_wrong_address_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "cluster-id", "-C", "nope"]) == 1
    assert "--bootstrap-controller is host:port" in capsys.readouterr().err


def test_a_controller_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with controller() as address:
        at = ("--bootstrap-controller", f"127.0.0.1:1,{address}")  # the first one does not answer
        assert main(["cluster", "cluster-id", *at]) == 0
        assert capsys.readouterr().out == "Cluster ID: QuorumQuorumQuorum-abc\n"
        assert main(["features", *at, "describe"]) == 0
        assert capsys.readouterr().out == f"{OF_FEATURES}\n"
        for words in (
            ["cluster", "list-endpoints"],
            ["configs", "--describe", "--broker", "1"],
        ):
            assert main([*words, *at]) == 1
            assert "name one by --bootstrap-server host:port" in capsys.readouterr().err


def test_a_server_before_kafka_3_7(capsys: pytest.CaptureFixture[str]) -> None:
    with controller(newest=0) as address:
        assert main(["cluster", "cluster-id", "-C", address]) == 1
    assert capsys.readouterr().err == (
        "kstore cluster: org.apache.kafka.common.errors.UnsupportedVersionException: Attempted to "
        "write a non-default endpointType at version 0\n"
    )


def test_the_hint_for_zookeeper(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--zookeeper", "--zk-tls-config-file"):
        assert main(["configs", "--describe", "--topic", "t", option, "x"]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == f"{option.lstrip('-')} is not a recognized option"
        assert "name a broker by --bootstrap-server host:port" in lines[1]
