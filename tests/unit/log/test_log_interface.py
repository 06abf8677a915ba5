"""``Log`` is an interface: a writer's log and a reader's log are two classes that fill it in."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstore import Log
from kstore.config import LogConfig
from kstore.errors import ReadOnlyError
from kstore.log.read_only_log import ReadOnlyLog
from kstore.log.writable_log import WritableLog
from kstore.log.writer import LogWriter
from support.logs import open_log, read_log

IMPLEMENTATIONS = (WritableLog, ReadOnlyLog)
CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda log: log.append(b"value"),
    "extend": lambda log: log.extend([b"value"]),
    "append_as_leader": lambda log: log.append_as_leader(b""),
    "append_as_coordinator": lambda log: log.append_as_coordinator(b""),
    "append_as_follower": lambda log: log.append_as_follower(b""),
    "append_end_marker": lambda log: log.append_end_marker(1, 0, commit=True),
    "flush": lambda log: log.flush(),
    "roll": lambda log: log.roll(),
    "truncate_to": lambda log: log.truncate_to(0),
    "truncate_to_epoch": lambda log: log.truncate_to_epoch(0),
    "begin_epoch": lambda log: log.begin_epoch(1),
    "set_high_watermark": lambda log: log.set_high_watermark(0),
    "watch": lambda log: log.watch(lambda log, events: None),
    "delete_records": lambda log: log.delete_records(0),
    "apply_retention": lambda log: log.apply_retention(),
    "compact": lambda log: log.compact(),
    "recompress": lambda log: log.recompress("zstd"),
    "convert": lambda log: log.convert(),
    "reindex": lambda log: log.reindex(),
    "seal": lambda log: log.seal(),
    "configure": lambda log: log.configure(LogConfig()),
    "remove_retired": lambda log: log.remove_retired(),
    "expire_producers": lambda log: log.expire_producers(),
    "_extend": lambda log: log._extend([b"value"], None, None),
}


@pytest.mark.parametrize("kind", IMPLEMENTATIONS)
def test_every_method_is_found_on_the_class(kind: type[Log]) -> None:
    assert not inspect.isabstract(kind)
    missing = {name for name in Log.__abstractmethods__ if name not in vars(kind)}
    assert missing == set()


@pytest.mark.parametrize("kind", IMPLEMENTATIONS)
def test_parameters_are_those_of_the_interface(kind: type[Log]) -> None:
    for name in Log.__abstractmethods__ - {"_source"}:
        promised, found = getattr(Log, name), getattr(kind, name)
        if callable(promised):
            assert_accepts(parameters_of(found), parameters_of(promised), name)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a method, without ``self``."""
    return list(inspect.signature(function).parameters.values())[1:]


def assert_accepts(
    found: list[inspect.Parameter], promised: list[inspect.Parameter], name: str
) -> None:
    """The same names and defaults; what is promised by name may be taken by position, too."""
    for ours, theirs in zip(found, promised, strict=True):
        assert (ours.name, ours.default) == (theirs.name, theirs.default), name
        by_name_only = theirs.kind is inspect.Parameter.KEYWORD_ONLY
        both = inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert ours.kind is theirs.kind or (by_name_only and ours.kind is both), name


def test_no_instance_replaces_a_method_of_its_class(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    writer.append(b"value")
    reader = read_log(tmp_path)
    for log in (writer, reader):
        assert isinstance(log, Log)
        assert [name for name in vars(log) if hasattr(type(log), name)] == []
        assert log[0].value == b"value"
        log.close()


def test_a_log_for_reading_refuses_every_change(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    reader = read_log(tmp_path)
    for change in CHANGES.values():
        with pytest.raises(ReadOnlyError):
            change(reader)
    reader.close()


def test_the_changes_are_those_that_a_log_for_reading_lacks() -> None:
    refused = {
        name
        for name, member in vars(ReadOnlyLog).items()
        if inspect.isfunction(member) and member.__code__.co_name == "refuse"
    }
    assert refused - {"_require_writer"} == CHANGES.keys()


def test_a_writer_has_components_and_no_base_classes() -> None:
    assert LogWriter.__mro__ == (LogWriter, object)


def test_an_append_method_refuses_an_object_that_is_not_a_log() -> None:
    class Impostor:
        _appender = None

    for name in ("append", "append_as_leader", "append_as_coordinator", "append_as_follower"):
        with pytest.raises(TypeError):
            getattr(WritableLog, name)(Impostor(), b"")
