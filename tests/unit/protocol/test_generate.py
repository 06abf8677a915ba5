"""The generated modules are what the table says; a line that is no message is refused."""

import ast
from pathlib import Path

import pytest

from kstore.protocol.schema import table
from tidy.protocol_messages import MODULES


@pytest.mark.parametrize("folder", MODULES, ids=lambda path: path.name)
def test_the_committed_modules_are_the_generated_ones(folder: Path) -> None:
    texts = MODULES[folder]
    committed = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    assert sorted(committed) == sorted(texts)
    assert [
        name for name, text in texts.items() if dump(text) != dump(committed[name].read_text())
    ] == []


def dump(text: str) -> str:
    return ast.dump(ast.parse(text))


def test_versions_of_a_field_are_those_of_the_struct_around_it() -> None:
    line = "1 Fetch REQ v0-9 flex 5+: topics:[name:str?4+ id:i32@2-7]@3+"
    message = table.parse_line(line)
    topics = message.fields[0]
    name, number = topics.fields
    assert topics.versions == table.Versions(3, 9)
    assert name.versions == table.Versions(3, 9)
    assert name.nullable == table.Versions(4, 9)
    assert number.versions == table.Versions(3, 7)


@pytest.mark.parametrize(
    "line",
    [
        "Fetch REQ v0 flex never: a:i32",
        "1 Fetch REQ v0 flex never: a:i31",
        "1 Fetch REQ v0 flex never: a:[i32",
        "1 Fetch REQ v0 flex never: a:[b:i32",
        "1 Fetch REQ v0 flex never: i32",
        "1 Fetch REQ v0 flex never: a:i32 )",
    ],
)
def test_a_line_that_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(table.SchemaError):
        table.parse_line(line)


def test_one_line_a_message_in_the_order_of_keys() -> None:
    messages = table.load()
    keys = [(each.api_key, not each.is_request) for each in messages]
    assert keys == sorted(keys)
    assert len(keys) == len(set(keys))
    path = Path(table.__file__).with_name("messages.txt")
    assert path.read_text() == path.read_text().rstrip() + "\n"
