"""A broker's settings by Kafka's names."""

import pytest

from kstore.broker.settings import BrokerSettings
from kstore.cluster.settings.layers import BrokerConfig
from kstore.coordinator.group.server_assignors import assignors_of
from kstore.errors import InvalidConfigError, UnknownSettingError

MIGRATION_POLICY = "group.consumer.migration.policy"


def test_text_and_values_by_kafkas_names() -> None:
    settings = BrokerSettings.from_properties(
        {"fetch.max.bytes": "2048", "auto.create.topics.enable": "False", "num.partitions": 3}
    )
    assert settings.fetch_max_bytes == 2048
    assert settings.auto_create_topics_enable is False
    assert settings.num_partitions == 3
    assert settings.socket_request_max_bytes == 104_857_600


def test_all_settings_survive_their_text() -> None:
    settings = BrokerSettings(kstore_acks_durable=True, max_connections=7)
    assert BrokerSettings.from_properties(settings.to_properties()) == settings


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partitions", "0", "from 1 to"),
        ("num.partitions", "many", "a whole number"),
        ("num.partitions", True, "a whole number"),
        ("delete.topic.enable", "yes", "true or false"),
        ("delete.topic.enable", 1, "true or false"),
    ],
)
def test_wrong_values_are_named(name: str, value: object, words: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"{name} is {words}"):
        BrokerSettings.from_properties({name: value})


def test_an_unknown_name_suggests_a_close_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"did you mean fetch\.max\.bytes"):
        BrokerSettings.from_properties({"fetch.max.byte": "1"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"heartbeat.interval.ms": 4_999}, "heartbeat.interval.ms must be greater than or equal"),
        ({"heartbeat.interval.ms": 15_001}, r"max\.heartbeat\.interval\.ms must be greater"),
        ({"session.timeout.ms": 44_999}, "session.timeout.ms must be greater than or equal"),
        ({"min.session.timeout.ms": 1, "session.timeout.ms": 5_000}, "must be less than"),
        ({"assignors": "uniform,sticky"}, "has some of uniform, range"),
        ({"assignors": " , "}, "has some of uniform, range"),
        ({"migration.policy": "sideways"}, "is one of bidirectional, disabled"),
    ],
)
def test_settings_of_consumer_groups_fit_each_other(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        BrokerSettings.from_properties(
            {f"group.consumer.{name}": value for name, value in settings.items()}
        )


def test_words_and_kafkas_classes_name_assignors() -> None:
    settings = BrokerSettings.from_properties({"group.consumer.assignors": "range, uniform"})
    assert assignors_of(settings.group_consumer_assignors) == ("range", "uniform")
    assert assignors_of(BrokerSettings().group_consumer_assignors) == ("uniform", "range")


def test_describe_configs_shows_the_defaults_that_count() -> None:
    shown = {entry.name: entry.value for entry in BrokerConfig().describe()}
    settings = BrokerSettings().to_properties()
    # Kafka 3.9 has the policy, too, and does not show it.
    own = {name for name in settings if name.startswith("kstore.")} | {MIGRATION_POLICY}
    assert {name: shown.get(name) for name in settings if name not in own} == {
        name: value for name, value in settings.items() if name not in own
    }
    assert shown["num.io.threads"] == "4"
