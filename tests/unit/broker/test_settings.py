"""A broker's settings by Kafka's names."""

import pytest

from kstore.broker.settings import BrokerSettings
from kstore.cluster.settings.layers import BrokerConfig
from kstore.errors import InvalidConfigError, UnknownSettingError


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


def test_describe_configs_shows_the_defaults_that_count() -> None:
    shown = {entry.name: entry.value for entry in BrokerConfig().describe()}
    settings = BrokerSettings().to_properties()
    assert {name: shown.get(name) for name in settings if not name.startswith("kstore.")} == {
        name: value for name, value in settings.items() if not name.startswith("kstore.")
    }
    assert shown["num.io.threads"] == "4"
