"""What callers guess of a consumer's topics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("jobs", partitions=2)
        yield opened


@pytest.mark.parametrize("keyword", [None, "topics", "assignment"])
def test_a_consumer_takes_names_not_logs(
    store: Store, keyword: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log was iterated to its end for names of topics."""
    consumer: Any = store.consumer
    topic = store["jobs"]

    def refuse(self: object) -> Iterator[object]:
        raise AssertionError("the records are read")

    monkeypatch.setattr(kstore.Log, "__iter__", refuse)
    for handle, number in ((topic[1], 1), (topic, 0)):
        with pytest.raises(TypeError) as caught:
            consumer(handle, group="g") if keyword is None else consumer(**{keyword: handle})
        assert str(caught.value) == (
            "a consumer takes names: consumer('jobs') reads a topic, and "
            f"consumer(assignment=[('jobs', {number})]) one partition"
        )
    with store.consumer("jobs", group="g") as opened:
        assert len(opened.assignment) == 2


@pytest.mark.parametrize("kind", [list, set, frozenset])
def test_partitions_may_be_given_as_a_collection(store: Store, kind: type) -> None:
    with store.consumer("jobs") as consumer:
        consumer.pause(kind([("jobs", 1), ("jobs", 0)]))
        assert consumer.paused == {("jobs", 0), ("jobs", 1)}
        consumer.resume(kind([]))  # no partition, not all
        assert consumer.paused == {("jobs", 0), ("jobs", 1)}
        consumer.resume(["jobs", 0])  # a pair
        assert consumer.paused == {("jobs", 1)}
        with pytest.raises(TypeError, match="a partition is named by a pair"):
            consumer.pause(kind(["jobs"]))
