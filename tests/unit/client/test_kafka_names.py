"""Methods of Kafka's clients under their names there: the error says what to call."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.kafka_names import OF_CONSUMERS, OF_PRODUCERS, OF_TRANSACTIONS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("t")
        yield opened


def clients(store: Store) -> Iterator[tuple[Any, dict[str, str]]]:
    yield store.consumer("t"), OF_CONSUMERS
    yield store.producer("t"), OF_PRODUCERS
    yield store.producer(), OF_PRODUCERS
    yield store.transactional_producer("id"), OF_TRANSACTIONS


def test_a_method_with_another_name_is_named(store: Store) -> None:
    for client, names in clients(store):
        for name, instead in names.items():
            with pytest.raises(AttributeError) as caught:
                getattr(client, name)
            kind = type(client).__name__
            assert str(caught.value) == f"{kind!r} object has no attribute {name!r}: {instead}"


def test_other_attributes_are_missing_as_usual(store: Store) -> None:
    for client, names in clients(store):
        assert not set(names) & set(dir(type(client)))
        assert not hasattr(client, "nothing")
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            client.nothing  # noqa: B018
