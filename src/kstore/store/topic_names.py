"""The names of a store's topics, as a list, and what a store answers to guesses about them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Never

from kstore.hints.kafka_names import OF_STORES, OF_TOPIC_NAMES
from kstore.hints.missing_names import answer_names


class TopicNames(list[str]):
    """Names of topics, sorted. A list like any other, except that it explains a lookup by name."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(sorted(names))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise TypeError(f"store.topics lists names; the topic is store[{index!r}]")
        return super().__getitem__(index)

    def __call__(self, *_: object, **__: object) -> Never:
        raise TypeError("store.topics is a list of names, without (); store['orders'] is a topic")


class GuessedNamesOfStores:
    """Explains names and statements that a store lacks: it is a mapping that is not assigned to."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which would take a store for a mutable mapping

        def __setitem__(self, name: object, _: object) -> Never:
            raise TypeError(f"topics are not assigned: store.create_topic({name!r}, partitions=4)")

        def __delitem__(self, name: object) -> Never:
            raise TypeError(f"use store.delete_topic({name!r})")


answer_names(GuessedNamesOfStores, OF_STORES)
answer_names(TopicNames, OF_TOPIC_NAMES)
