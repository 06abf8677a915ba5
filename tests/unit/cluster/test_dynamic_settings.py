"""Which settings of a broker may change while it runs, and why others may not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp
from kstore.errors import InvalidConfigError, InvalidRequestError

RELOGIN = "sasl.kerberos.min.time.before.relogin"


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[LocalMetadata]:
    with kstore.open(tmp_path) as store:
        local = LocalMetadata(store, node_id=1)
        yield local
        local.close()


def described(metadata: LocalMetadata, name: str) -> tuple[str | None, bool]:
    return next(
        (each.value, each.is_read_only)
        for each in metadata.describe_broker_config()
        if each.name == name
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [(RELOGIN, "58000"), ("background.threads", "9"), ("remote.fetch.max.wait.ms", "100")],
)
def test_a_setting_without_effect_is_kept_as_kafka_keeps_it(
    metadata: LocalMetadata, name: str, value: str
) -> None:
    before = described(metadata, name)
    assert before[1] is False
    metadata.replace_broker_config({name: value})
    assert described(metadata, name) == (value, False)
    metadata.replace_broker_config({})
    assert described(metadata, name) == before


def test_its_value_is_checked(metadata: LocalMetadata) -> None:
    with pytest.raises(InvalidRequestError, match="Not a number of type LONG"):
        metadata.replace_broker_config({RELOGIN: "soon"})


def test_settings_of_a_login_are_those_of_one_broker(metadata: LocalMetadata) -> None:
    text = rf"at default cluster level, broker id must be specified: Set\({RELOGIN}\)"
    with pytest.raises(InvalidRequestError, match=text):
        metadata.replace_broker_config({RELOGIN: "58000"}, for_all=True)
    metadata.replace_broker_config({"background.threads": "9"}, for_all=True)
    assert described(metadata, "background.threads")[0] == "9"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("listeners", "this broker reads listeners only at its start"),
        ("ssl.keystore.location", "this broker reads ssl.keystore.location only at its start"),
        ("listener.name.external.ssl.keystore.location", "only at its start"),
        ("max.connection.creation.rate", "does not support max.connection.creation.rate"),
        ("sasl.jaas.config", "this broker does not support sasl.jaas.config"),
    ],
)
def test_a_change_that_would_be_missed_is_refused_with_the_reason(
    metadata: LocalMetadata, name: str, reason: str
) -> None:
    changes = [(AlterOp.SET, "log.retention.ms", "5"), (AlterOp.SET, name, "1")]
    with pytest.raises(InvalidRequestError) as error:
        metadata.alter_broker_config(changes)
    assert error.value.reason.startswith(f"Cannot update these configs dynamically: Set({name}); ")
    assert error.value.reason.endswith(reason)
    assert metadata.broker_config.dynamic == {}


def test_a_setting_that_is_not_set_can_be_deleted(metadata: LocalMetadata) -> None:
    metadata.alter_broker_config([(AlterOp.DELETE, "listeners", None)])
    assert metadata.broker_config.dynamic == {}
    with pytest.raises(InvalidConfigError, match=r"Unknown broker config name: no\.such"):
        metadata.alter_broker_config([(AlterOp.DELETE, "no.such", None)])
