"""Settings of consumer groups, Kafka's resource GROUP; messages are those of its GroupConfig."""

from pathlib import Path

import pytest

import kstore
from kstore.broker.handlers.configs import ConfigHandlers
from support.broker_requests import Client, local_metadata
from unit.broker.handlers.test_configs import (
    DELETE,
    DONE,
    GROUP,
    SET,
    alter,
    change,
    client,
    describe,
    listed,
    one,
)

__all__ = ["client"]
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_setting_is_changed_for_one_group_only(client: Client) -> None:
    (result,) = describe(client, 4, (GROUP, "g", None), include_synonyms=True)
    found = [
        (each.name, each.value, each.config_source, each.config_type) for each in result.configs
    ]
    assert found == [(HEARTBEAT, "5000", 5, 3), (SESSION, "45000", 5, 3)]
    assert change(client, (GROUP, "g", [(SESSION, SET, "50000")])) == DONE
    config = one(client, GROUP, "g", SESSION, include_synonyms=True)
    assert (config.value, config.config_source, config.read_only) == ("50000", 8, False)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        (SESSION, "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert one(client, GROUP, "other", SESSION).value == "45000"
    assert listed(client, 1, GROUP) == (0, [(GROUP, "g")])
    assert alter(client, (GROUP, "g", [(HEARTBEAT, "6000")])) == DONE  # resets the other one
    assert one(client, GROUP, "g", SESSION).config_source == 5
    assert change(client, (GROUP, "g", [(HEARTBEAT, DELETE, None)])) == DONE
    assert listed(client, 1, GROUP) == (0, [])


@pytest.mark.parametrize(
    ("name", "setting", "value", "error", "message"),
    [
        ("g", SESSION, "44999", 40, f"{SESSION} must be greater than or equal to "
         "group.consumer.min.session.timeout.ms"),
        ("g", SESSION, "60001", 40, f"{SESSION} must be less than or equal to "
         "group.consumer.max.session.timeout.ms"),
        ("g", HEARTBEAT, "4999", 40, f"{HEARTBEAT} must be greater than or equal to "
         "group.consumer.min.heartbeat.interval.ms"),
        ("g", HEARTBEAT, "15001", 40, f"{HEARTBEAT} must be less than or equal to "
         "group.consumer.max.heartbeat.interval.ms"),
        ("g", SESSION, "x", 40, f"Invalid value x for configuration {SESSION}: "
         "Not a number of type INT"),
        ("g", "session.timeout.ms", "1", 40, "Unknown group config name: session.timeout.ms"),
        ("", SESSION, "50000", 42, "Default group resources are not allowed."),
    ],
)  # fmt: skip
def test_settings_that_are_refused(
    client: Client, name: str, setting: str, value: str, error: int, message: str
) -> None:
    assert change(client, (GROUP, name, [(setting, SET, value)])) == [(error, message)]
    assert listed(client, 1, GROUP) == (0, [])
    (result,) = describe(client, 4, (GROUP, "", None))
    assert (result.error_code, result.error_message) == (42, "Group name must not be empty")


def test_validate_only_changes_nothing(client: Client) -> None:
    wanted = (GROUP, "g", [(SESSION, SET, "50000")])
    assert change(client, wanted, validate_only=True) == DONE
    assert one(client, GROUP, "g", SESSION).config_source == 5


def test_settings_outlive_a_broker(tmp_path: Path) -> None:
    for value in ("45000", "50000"):
        with kstore.open(tmp_path, "a") as store:
            metadata = local_metadata(store)
            client = Client(ConfigHandlers, metadata=metadata, store=store)
            assert one(client, GROUP, "g", SESSION).value == value
            assert change(client, (GROUP, "g", [(SESSION, SET, "50000")])) == DONE
            metadata.close()
