"""The names of a store's topics, as a list."""

from collections.abc import Iterable
from typing import Any, Never

from kstore.kafka_names import OF_TOPIC_NAMES, answer_names


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


answer_names(TopicNames, OF_TOPIC_NAMES)
