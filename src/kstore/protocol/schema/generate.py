"""Generates the modules in ``protocol/messages``, one for each API.

``python tests/tidy/protocol_messages.py`` writes them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from kstore.protocol.schema.table import NEVER, Field, Message, Versions

_CODES = {"bool": "?", "i8": "b", "i16": "h", "u16": "H", "i32": "i", "i64": "q", "f64": "d"}
_FIXED = {**_CODES, "uuid": "16s"}
_METHODS = {
    "bool": "boolean",
    "i8": "int8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "i64": "int64",
    "f64": "float64",
    "uuid": "uuid",
    "str": "string",
    "bytes": "bytes_",
}
_RECORD = {"KEY": "", "VALUE": "", "DATA": ""}
# Records of the coordinators and the consumer protocol that kstore reads and writes.
RECORDS = ("OffsetCommit", "GroupMetadata", "TransactionLog", "ConsumerGroup", "ConsumerProtocol")
_PYTHON = {"bool": "bool", "f64": "float", "uuid": "bytes", "str": "str", "bytes": "bytes"}
_PYTHON["records"] = "Records"
_EMPTY = {"bool": "False", "f64": "0.0", "uuid": "ZERO_UUID", "str": '""', "bytes": 'b""'}


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def modules(messages: Iterable[Message]) -> dict[str, str]:
    """The source of each module by name; request and response of an API share a module."""
    ordered = sorted(messages, key=lambda each: (each.api_key, not each.is_request))
    return {
        snake_case(api): module_text(list(pair))
        for api, pair in groupby(ordered, key=lambda each: each.api)
    }


def record_name(message: Message) -> str:
    """The common name of a key and its value."""
    return re.sub("(Key|Value)$", "", message.name)


def record_modules(messages: Iterable[Message]) -> dict[str, str]:
    """The source of the modules in ``protocol/records``; a key and its value share a module."""
    chosen = [each for each in messages if each.name.startswith(RECORDS) and each.kind in _RECORD]
    pairs: dict[str, list[Message]] = {}
    for message in sorted(chosen, key=lambda each: each.name):
        pairs.setdefault(record_name(message), []).append(message)
    return {snake_case(name): module_text(pair) for name, pair in pairs.items()}


def module_text(messages: list[Message]) -> str:
    first = messages[0]
    layouts: dict[str, str] = {}
    bodies = [_Struct(message, layouts).lines() for message in messages]
    body = "\n\n\n".join("\n".join(lines) for lines in bodies)
    constants = "".join(f'{name} = Struct(">{code}")\n' for name, code in sorted(layouts.items()))
    names = ("ZERO_UUID", "Reader", "Records", "Writer")
    wire = [name for name in names if re.search(rf"[ (]{name}\b", body)]
    imports = [
        "from __future__ import annotations",
        "",
        *(["from dataclasses import field"] if "field(" in body else []),
        *(["from struct import Struct"] if layouts else []),
        "from typing import ClassVar, Self",
        "",
        "from kstore.protocol.message_class import message_class",
        f"from kstore.protocol.wire import {', '.join(wire)}",
    ]
    about = f"{first.api}, API key {first.api_key}. Generated from the table of messages."
    if first.kind in _RECORD:
        about = f"{record_name(first)} records. Generated from the table of records."
    return (
        f'"""{about}"""\n\n'
        + "\n".join(imports)
        + "\n\n"
        + (constants + "\n" if constants else "")
        + f"\n{body}\n"
    )


def class_name(field: Field) -> str:
    return "".join(word.capitalize() for word in field.name.split("_"))


def is_plain_run(field: Field) -> bool:
    """Whether a field has a fixed size, so that it can share a layout with its neighbours."""
    return field.kind in _FIXED and not field.is_array and field.tag is None


def python_type(field: Field) -> str:
    inner = class_name(field) if field.kind == "struct" else _PYTHON.get(field.kind, "int")
    listed = f"list[{inner}]" if field.is_array else inner
    return f"{listed} | None" if may_be_none(field) else listed


def may_be_none(field: Field) -> bool:
    is_tagged_struct = field.tag is not None and field.kind == "struct" and not field.is_array
    return field.nullable is not None or is_tagged_struct


def default(field: Field) -> str:
    """The Python expression of a field's default."""
    is_struct = field.kind == "struct" and not field.is_array
    if field.default == "null" or field.kind == "records" or (is_struct and may_be_none(field)):
        return "None"
    if field.is_array:
        return "field(default_factory=list)"
    if is_struct:
        return f"field(default_factory=lambda: {{}}{class_name(field)}())"
    given = field.default
    if given is None:
        return _EMPTY.get(field.kind, "0")
    if field.kind == "str":
        return f'"{given}"'
    return str(int(given, 0)) if field.kind in _CODES and field.kind != "bool" else given.title()


class _Struct:
    """The class of a message, or of a struct in it."""

    def __init__(
        self,
        message: Message,
        layouts: dict[str, str],
        field: Field | None = None,
        path: str = "",
    ) -> None:
        self.message = message
        self.layouts = layouts
        self.field = field
        self.name = message.name if field is None else class_name(field)
        self.path = f"{path}.{self.name}" if path else self.name
        self.fields = message.fields if field is None else field.fields
        self.versions = message.versions if field is None else field.versions
        first = message.flexible_from
        self.never_flexible = first > self.versions.high
        self.always_flexible = first <= self.versions.low
        self.compact = (
            "False" if self.never_flexible else "True" if self.always_flexible else "flexible"
        )

    def lines(self) -> Iterator[str]:
        yield "@message_class"
        yield f"class {self.name}:"
        if self.field is None:
            yield from _indent(self._header())
        for each in self.fields:
            if each.kind == "struct":
                nested = _Struct(self.message, self.layouts, each, self.path)
                yield from _indent(nested.lines())
                yield ""
        for each in self.fields:
            value = default(each).format(f"{self.path}.")
            yield f"    {each.name}: {python_type(each)} = {value}"
        yield ""
        yield from _indent(self._decode())
        yield ""
        yield from _indent(self._encode())

    def _header(self) -> Iterator[str]:
        message = self.message
        low, high = message.versions.low, message.versions.high
        kind = "request" if message.is_request else "response"
        span = f"version {low}" if low == high else f"versions {low} to {high}"
        if message.kind in _RECORD:
            kind = _RECORD[message.kind]
        yield f'"""{message.api} {kind}, {span}."""'.replace(" ,", ",")
        yield ""
        if message.kind not in _RECORD:
            yield f"API_KEY: ClassVar[int] = {message.api_key}"
        elif message.kind == "KEY":
            yield f"RECORD_TYPE: ClassVar[int] = {message.api_key}"
        yield f"MIN_VERSION: ClassVar[int] = {low}"
        yield f"MAX_VERSION: ClassVar[int] = {high}"
        yield f"FLEXIBLE_FROM: ClassVar[int] = {min(message.flexible_from, NEVER)}"
        yield ""

    def _decode(self) -> Iterator[str]:
        body = [*self._steps(self._decode_run), *self._decode_tags()]
        yield "@classmethod"
        yield "def decode(cls, reader: Reader, version: int) -> Self:"
        yield from _indent(self._flexible(body))
        yield "    message = cls()"
        yield from _indent(body)
        yield "    return message"

    def _encode(self) -> Iterator[str]:
        body = [*self._steps(self._encode_run), *self._encode_tags()]
        yield "def encode(self, writer: Writer, version: int) -> None:"
        yield from _indent(self._flexible(body))
        yield from _indent(body or ["pass"])

    def _flexible(self, body: list[str]) -> Iterator[str]:
        if any(re.search(r"\bflexible\b", line) for line in body):
            yield f"flexible = version >= {self.message.flexible_from}"

    def _steps(self, lines_of: Callable[[list[Field]], Iterator[str]]) -> Iterator[str]:
        """Lines for the fields in order, with one condition for neighbours of equal versions."""
        plain = [each for each in self.fields if each.tag is None]
        for versions, group in groupby(plain, key=lambda each: each.versions):
            condition = self._condition(versions)
            lines = [line for run in _runs(list(group)) for line in lines_of(run)]
            if condition is None:
                yield from lines
            else:
                yield f"if {condition}:"
                yield from _indent(lines)

    def _condition(self, versions: Versions, outer: Versions | None = None) -> str | None:
        around = outer or self.versions
        low, high = versions.low > around.low, versions.high < around.high
        if high and versions.low == versions.high:
            return f"version == {versions.low}"
        if low and high:
            return f"{versions.low} <= version <= {versions.high}"
        if low:
            return f"version >= {versions.low}"
        return f"version <= {versions.high}" if high else None

    def _decode_run(self, run: list[Field]) -> Iterator[str]:
        if len(run) > 1:
            names = [f"message.{each.name}" for each in run]
            yield f"{', '.join(names)} = reader.fixed({self._layout(run)})"
            return
        each = run[0]
        yield f"message.{each.name} = {self._read(each)}"

    def _read(self, field: Field) -> str:
        plain = self._read_as(field, nullable=False)
        if field.nullable is None or field.kind == "records":
            return plain
        nullable = self._read_as(field, nullable=True)
        condition = self._condition(field.nullable, field.versions)
        return nullable if condition is None else f"{nullable} if {condition} else {plain}"

    def _read_as(self, field: Field, *, nullable: bool) -> str:
        prefix = "nullable_" if nullable else ""
        decode = f"cls.{class_name(field)}.decode"
        if field.is_array:
            if field.kind == "struct":
                return f"reader.{prefix}structs({decode}, version, {self.compact})"
            if field.kind == "str":
                return f"reader.{prefix}strings({self.compact})"
            return f'reader.{prefix}integers("{_CODES[field.kind]}", {self.compact})'
        if field.kind == "struct":
            if nullable:
                kind = "nullable" if field.tag is None else "tagged"
                return f"reader.{kind}_struct({decode}, version)"
            return f"{decode}(reader, version)"
        if field.kind == "records":
            return f"reader.records({self.compact})"
        method = _METHODS[field.kind]
        if field.kind in _FIXED:
            return f"reader.{method}()"
        return f"reader.{prefix}{method.rstrip('_') if nullable else method}({self.compact})"

    def _encode_run(self, run: list[Field]) -> Iterator[str]:
        if len(run) > 1:
            names = [f"self.{each.name}" for each in run]
            yield f"writer.fixed({self._layout(run)}, {', '.join(names)})"
            return
        each = run[0]
        condition = None if each.nullable is None else self._condition(each.nullable, each.versions)
        if condition is None:
            yield self._write(each, nullable=each.nullable is not None)
            return
        yield f"if {condition}:"
        yield f"    {self._write(each, nullable=True)}"
        yield "else:"
        yield f"    {self._write(each, nullable=False)}"

    def _write(self, field: Field, *, nullable: bool, writer: str = "writer") -> str:
        prefix = "nullable_" if nullable else ""
        value = f"self.{field.name}"
        if field.is_array:
            if field.kind == "struct":
                return f"{writer}.{prefix}structs({value}, version, {self.compact})"
            if field.kind == "str":
                return f"{writer}.{prefix}strings({value}, {self.compact})"
            return f'{writer}.{prefix}integers("{_CODES[field.kind]}", {value}, {self.compact})'
        if field.kind == "struct":
            if nullable:
                return f"{writer}.nullable_struct({value}, version)"
            return f"{value}.encode({writer}, version)"
        if field.kind == "records":
            return f"{writer}.records({value}, {self.compact})"
        method = _METHODS[field.kind]
        if field.kind in _FIXED:
            return f"{writer}.{method}({value})"
        method = method.rstrip("_") if nullable else method
        return f"{writer}.{prefix}{method}({value}, {self.compact})"

    def _layout(self, run: list[Field]) -> str:
        name = "_" + "_".join(each.kind.upper() for each in run)
        self.layouts[name] = "".join(_FIXED[each.kind] for each in run)
        return name

    def _tagged(self) -> list[Field]:
        tagged = [each for each in self.fields if each.tag is not None]
        return sorted(tagged, key=lambda each: each.tag or 0)

    def _decode_tags(self) -> Iterator[str]:
        if self.never_flexible:
            return
        tagged = self._tagged()
        indent = "" if self.always_flexible else "    "
        if indent:
            yield "if flexible:"
        if not tagged:
            yield f"{indent}reader.skip_tags()"
            return
        yield f"{indent}for tag in reader.tags():"
        for number, each in enumerate(tagged):
            condition = self._tag_condition(each)
            extra = f" and {condition}" if condition else ""
            yield f"{indent}    {'elif' if number else 'if'} tag == {each.tag}{extra}:"
            yield f"{indent}        message.{each.name} = {self._read(each)}"

    def _tag_condition(self, field: Field) -> str | None:
        low = max(self.message.flexible_from, self.versions.low)
        return self._condition(field.versions, Versions(low, self.versions.high))

    def _encode_tags(self) -> Iterator[str]:
        if self.never_flexible:
            return
        indent = "" if self.always_flexible else "    "
        if indent:
            yield "if flexible:"
        tagged = self._tagged()
        if not tagged:
            yield f"{indent}writer.no_tags()"
            return
        yield f"{indent}tags: list[tuple[int, Writer]] = []"
        for each in tagged:
            condition = self._tag_condition(each)
            extra = f"{condition} and " if condition else ""
            yield f"{indent}if {extra}{self._differs(each)}:"
            yield f"{indent}    tag = Writer()"
            nullable = each.nullable is not None
            yield f"{indent}    {self._write(each, nullable=nullable, writer='tag')}"
            yield f"{indent}    tags.append(({each.tag}, tag))"
        yield f"{indent}writer.tags(tags)"

    def _differs(self, field: Field) -> str:
        """The condition for writing a tagged field: its value differs from the default."""
        value = f"self.{field.name}"
        if field.is_array and field.default != "null":
            return value if field.nullable is None else f"{value} != []"
        if field.kind == "struct" and not field.is_array and field.nullable is None:
            return f"{value} is not None and {value} != self.{class_name(field)}()"
        standard = default(field)
        if standard == "None":
            return f"{value} is not None"
        is_falsy = field.nullable is None and standard in ("False", '""', 'b""', "0")
        return value if is_falsy else f"{value} != {standard}"


def _runs(fields: list[Field]) -> Iterator[list[Field]]:
    """Group consecutive fields of fixed size; any other field is a group of its own."""
    for is_run, group in groupby(fields, key=is_plain_run):
        if is_run:
            yield list(group)
        else:
            yield from ([each] for each in group)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" if line else line for line in lines)
