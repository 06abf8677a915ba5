"""Dataclasses whose methods are generated at the first use: as ``dataclass`` makes them."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from kstore.lazy_dataclass import lazy_dataclass


@lazy_dataclass(frozen=True)
class Lazy:
    """A frozen class with every kind of attribute."""

    KIND: ClassVar[int] = 7

    number: int
    names: tuple[str, ...] = ()
    secret: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(self.number)

    @property
    def doubled(self) -> int:
        return 2 * self.number


@dataclass(frozen=True, slots=True)
class Eager:
    """The same by ``dataclass``."""

    number: int
    names: tuple[str, ...] = ()
    secret: str = field(default="", repr=False, compare=False)


@lazy_dataclass(frozen=True, kw_only=True)
class ByKeyword:
    number: int = 1


@lazy_dataclass()
class Changing:
    number: int
    rest: list[int] = field(default_factory=list)


def test_it_is_the_dataclass_that_dataclass_makes() -> None:
    lazy, eager = Lazy(3, ("a",), secret="s"), Eager(3, ("a",), secret="s")
    assert repr(lazy) == repr(eager).replace("Eager", "Lazy")
    assert hash(lazy) == hash(eager)
    assert lazy == Lazy(3, ("a",)) != Lazy(4, ("a",))
    assert replace(lazy, number=4) == Lazy(4, ("a",))
    assert [each.name for each in fields(Lazy)] == [each.name for each in fields(Eager)]
    assert (Lazy.KIND, lazy.doubled, Lazy.__qualname__, Lazy.__module__) == (
        7, 6, "Lazy", __name__,
    )  # fmt: skip
    assert Lazy.__slots__ == Eager.__slots__
    with pytest.raises(ValueError):
        Lazy(-1)
    with pytest.raises(TypeError):
        ByKeyword(1)
    assert ByKeyword(number=2).number == 2


@pytest.mark.parametrize("name", ["number", "names", "other"])
def test_a_frozen_object_does_not_change(name: str) -> None:
    lazy: Any = Lazy(3)
    with pytest.raises(FrozenInstanceError):
        setattr(lazy, name, 4)
    with pytest.raises(FrozenInstanceError):
        delattr(lazy, name)
    assert lazy == Lazy(3)


@pytest.mark.parametrize("made", [Lazy(3, ("a",), "s"), Changing(3, [1]), ByKeyword()])
def test_objects_are_copied_and_pickled(made: object) -> None:
    assert copy.copy(made) == copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    made = Changing(1)
    made.number = 2
    assert made == Changing(2)
    assert Changing(1).rest is not Changing(1).rest
    with pytest.raises(TypeError):
        hash(made)
    with pytest.raises(AttributeError):
        made.other = 1


def test_a_class_with_bases_is_refused() -> None:
    with pytest.raises(AssertionError):

        @lazy_dataclass()
        class More(Changing):
            more: int = 0


def test_an_interrupted_first_use_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    @lazy_dataclass(frozen=True)
    class Interrupted:
        number: int
        rest: tuple[int, ...] = field(default_factory=tuple)

    def interrupt(plain: type) -> type:
        dataclass(frozen=True)(plain)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("kstore.lazy_dataclass.dataclass", lambda **_: interrupt)
        with pytest.raises(KeyboardInterrupt):
            Interrupted(1)
    assert Interrupted(1) == Interrupted(number=1, rest=())


def test_a_first_use_within_another_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a finalizer, or of a signal handler."""

    @lazy_dataclass()
    class Outer:
        number: int

    @lazy_dataclass()
    class Inner:
        number: int

    def nested(**options: Any) -> Any:
        monkeypatch.undo()
        assert Inner(2).number == 2
        return dataclass(**options)

    monkeypatch.setattr("kstore.lazy_dataclass.dataclass", nested)
    assert Outer(1).number == 1
