"""Classes of messages: dataclasses whose methods are made at the first use."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import ClassVar

import pytest

from kstore.protocol.message_class import message_class


def new_class():
    @message_class
    class Example:
        """An example."""

        KIND: ClassVar[int] = 7

        number: int = 3
        names: list[str] = field(default_factory=list)

        def count(self) -> int:
            return len(self.names)

    return Example


def test_a_message_is_a_dataclass_with_slots():
    kind = new_class()
    message = kind(number=5)
    assert (message.number, message.names, message.count(), kind.KIND) == (5, [], 0, 7)
    assert repr(message) == f"{kind.__qualname__}(number=5, names=[])"
    assert message == kind(5, []) == replace(message) == copy.deepcopy(message)
    assert message != kind() != 3
    assert kind(1).names is not kind(1).names
    with pytest.raises(AttributeError):
        message.other = 1
    with pytest.raises(TypeError):
        kind(other=1)
    with pytest.raises(TypeError):
        hash(message)


def test_the_fields_of_a_class_are_known_before_its_first_instance():
    kind = new_class()
    assert is_dataclass(kind)
    assert [each.name for each in fields(kind)] == ["number", "names"]
    assert kind().names == []


def test_a_subclass_may_be_used_first():
    class Plain(new_class()):
        __slots__ = ()

    class Own(new_class()):
        __slots__ = ("more",)

        def __init__(self):
            super().__init__(number=1)
            self.more = 2

    assert repr(Plain(5)).endswith("Plain(number=5, names=[])")
    assert (Own().number, Own().more) == (1, 2)
    assert Own() == Own()


def test_the_methods_of_a_class_are_generated_once_at_its_first_use(monkeypatch):
    made = []
    monkeypatch.setattr(
        "kstore.lazy_dataclass.dataclass",
        lambda **options: lambda plain: made.append(plain) or dataclass(**options)(plain),
    )
    kind = new_class()
    assert made == []
    together = threading.Barrier(8)
    found = []

    def use():
        together.wait()
        found.append(kind())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
    assert found == [kind()] * 8
