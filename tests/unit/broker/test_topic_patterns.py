"""Patterns of topics (KIP-848) are matched by a disk worker, and refused without ``google-re2``."""

import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

import kstore
from kstore.broker import consumer_group_service
from kstore.broker.topic_patterns import match_topics
from kstore.errors import InvalidConfigError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from support.raw_client import RawClient
from unit.broker.test_consumer_groups import SETTINGS, join, numbers


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders", 2)
        with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
            yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        client.ask(FindCoordinatorRequest(key="g"), 3)
        yield client


def test_a_pattern_is_matched_on_a_disk_worker(
    broker: kstore.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large pattern and many topics take long, in which the loop answers other clients."""
    threads: list[threading.Thread] = []

    def match(patterns: Collection[str], names: Collection[str]) -> Mapping[str, frozenset[str]]:
        threads.append(threading.current_thread())
        return match_topics(patterns, names)

    monkeypatch.setattr(consumer_group_service, "match_topics", match)
    answer = join(client, subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    assert numbers(answer) == [0, 1]
    assert threads
    assert all(each in broker._services.workers for each in threads)


def test_without_re2_patterns_are_refused_and_names_are_not(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)  # its import fails
    answer = join(client, subscribed_topic_names=None, subscribed_topic_regex="ord.*")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION == 128
    assert "pip install kstore[patterns]" in str(answer.error_message)
    assert numbers(join(client)) == [0, 1]
    with pytest.raises(InvalidConfigError, match="google-re2"):
        match_topics(["ord.*"], ["orders"])
