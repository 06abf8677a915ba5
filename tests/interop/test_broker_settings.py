"""Which settings of a broker may be altered while it runs: kstore answers as Kafka 3.9.2 does.

Every setting that the brokers describe is altered, for one broker and for all of them, without
effect (``validate_only``).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from interop.kafka_jars import libs
from interop.kstore_node import kstore_node
from interop.node import node
from interop.same_bytes.asker import Asker
from kstore.cluster.settings.dynamic_settings import NOT_SUPPORTED, READ_AT_START
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode

VERSION = "3.9.2"
NODE_ID, BROKER, SET, DELETE = "1", 4, 0, 1
REFUSED = READ_AT_START | NOT_SUPPORTED
SAMPLES = {1: "true", 2: "x", 3: "1", 4: "1", 5: "1", 6: "1", 7: "x", 8: "x", 9: "x"}  # by type
OTHERS = (  # values that users set
    ("sasl.kerberos.min.time.before.relogin", "58000"),
    ("sasl.kerberos.min.time.before.relogin", "x"),
    ("background.threads", "9"),
    ("background.threads", "0"),
    ("num.network.threads", "4"),
    ("num.replica.fetchers", "2"),
    ("log.cleaner.io.buffer.size", "1048576"),
    ("remote.fetch.max.wait.ms", "100"),
    ("sasl.login.refresh.window.factor", "0.7"),
    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
    ("ssl.endpoint.identification.algorithm", ""),
    ("log.retention.ms", "100000"),
    ("log.retention.ms", "0"),
    ("num.partitions", "3"),
)


def described(asker: Asker) -> dict[str, Any]:
    resources = [{"resource_type": BROKER, "resource_name": NODE_ID, "configuration_keys": None}]
    [result] = asker.look(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
    return {each.name: each for each in result.configs if not each.name.startswith("kstore.")}


def code(asker: Asker, node_id: str, name: str, operation: int, value: str | None) -> int:
    config = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": BROKER, "resource_name": node_id, "configs": [config]}
    fields = {"resources": [resource], "validate_only": True}
    [answer] = asker.look(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **fields).responses
    found: int = answer.error_code
    return found


@pytest.fixture(scope="module")
def askers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asker, Asker]]:
    """One asks Kafka's broker, the other kstore."""
    libs(VERSION)
    root = tmp_path_factory.mktemp("brokers")
    (root / "kafka").mkdir()
    with node(VERSION, root / "kafka") as kafka, kstore_node(root / "kstore") as kstore:
        both = Asker(kafka.address), Asker(kstore.address)
        yield both
        for each in both:
            each.close()


def test_the_same_settings_are_read_only(askers: tuple[Asker, Asker]) -> None:
    kafka, kstore = map(described, askers)
    assert kafka.keys() == kstore.keys()
    differing = {name for name in kafka if kafka[name].read_only != kstore[name].read_only}
    assert differing == REFUSED


@pytest.mark.parametrize("node_id", [NODE_ID, ""])
def test_the_same_settings_can_be_altered(askers: tuple[Asker, Asker], node_id: str) -> None:
    kafka, kstore = askers
    differing = {}
    for name, entry in described(kafka).items():
        value = SAMPLES[entry.config_type] if entry.value is None else entry.value
        for operation, text in ((SET, value), (DELETE, None)):
            codes = [code(each, node_id, name, operation, text) for each in (kafka, kstore)]
            if codes[0] != codes[1]:
                differing[name, operation] = codes
    allowed = {(name, SET): [ErrorCode.NONE, ErrorCode.INVALID_REQUEST] for name in REFUSED}
    assert {key: codes for key, codes in differing.items() if allowed.get(key) != codes} == {}
    assert differing, "kstore carries out what it refused"


@pytest.mark.parametrize(("name", "value"), OTHERS)
@pytest.mark.parametrize("node_id", [NODE_ID, ""])
def test_the_same_values_are_accepted(
    askers: tuple[Asker, Asker], node_id: str, name: str, value: str
) -> None:
    kafka, kstore = (code(each, node_id, name, SET, value) for each in askers)
    assert kstore == kafka
