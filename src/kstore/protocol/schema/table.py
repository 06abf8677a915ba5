"""Parses the tables ``messages.txt`` and ``records.txt`` to messages, fields and versions."""

import pkgutil
import re
from dataclasses import dataclass, replace

EVERY_VERSION = 1 << 15
NEVER = 32767

_HEAD = re.compile(
    r"(?P<key>\d+|-) (?P<name>\w+) (?P<kind>REQ|RES|KEY|VALUE|METADATA|REMOTE|DATA)"
    r" v(?P<low>\d+)(?:-(?P<high>\d+))?"
    r" flex (?P<flexible>\d+\+|never):(?: (?P<fields>.+))?"
)
_NAME = re.compile(r"([a-z]\w*):")
_TYPE = re.compile(r"bool|i8|i16|u16|i32|i64|f64|uuid|str|bytes|records")
_SPAN = r"\d+(?:\+|-\d+)?"
_NULLABLE = re.compile(rf"\?({_SPAN})?")
_VERSIONS = re.compile(rf"@({_SPAN})")
_TAG = re.compile(r"\{tag(\d+)\}")
_DEFAULT = re.compile(r"=([^\s\])]+)")


class SchemaError(ValueError):
    """A line of the table is invalid."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def cut(self, other: "Versions") -> "Versions":
        return Versions(max(self.low, other.low), min(self.high, other.high))


@dataclass(frozen=True)
class Field:
    """A field of a struct; ``kind`` is a type in the table, or ``struct``."""

    name: str
    kind: str
    is_array: bool
    fields: "tuple[Field, ...]"
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: str | None


@dataclass(frozen=True)
class Message:
    """A request, a response, or a key or value of a record.

    ``kind`` is REQ, RES, KEY, VALUE, METADATA, REMOTE or DATA; ``api`` is the name in the table.
    ``api_key`` is -1 if the line has no number.
    """

    api_key: int
    api: str
    kind: str
    versions: Versions
    flexible_from: int
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Kafka's name."""
        return self.api + {"REQ": "Request", "RES": "Response"}.get(self.kind, "")

    @property
    def is_request(self) -> bool:
        return self.kind == "REQ"


def parse_versions(text: str) -> Versions:
    low, _, high = text.rstrip("+").partition("-")
    if text.endswith("+"):
        return Versions(int(low), EVERY_VERSION)
    return Versions(int(low), int(high or low))


class _Cursor:
    """Reads the fields of one line sequentially."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def take_text(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def error(self) -> SchemaError:
        return SchemaError(f"cannot read {self.text[self.position : self.position + 40]!r}")

    def fields(self, end: str) -> tuple[Field, ...]:
        """Read fields up to and including the closing character, with their stated versions."""
        found = []
        while not self.take_text(end):
            found.append(self.field())
            self.take_text(" ")
        return tuple(found)

    def field(self) -> Field:
        name = self.take(_NAME)
        if name is None:
            raise self.error()
        kind, is_array, fields = self.kind()
        nullable = self.take(_NULLABLE)
        versions = self.take(_VERSIONS)
        tag = self.take(_TAG)
        default = self.take(_DEFAULT)
        return Field(
            name=name[1],
            kind=kind,
            is_array=is_array,
            fields=fields,
            versions=parse_versions(versions[1] if versions else "0+"),
            nullable=parse_versions(nullable[1] or "0+") if nullable else None,
            tag=int(tag[1]) if tag else None,
            default=default[1] if default else None,
        )

    def kind(self) -> tuple[str, bool, tuple[Field, ...]]:
        """Read a type: its name, whether it is an array, and the fields of its struct."""
        if self.take_text("("):
            return "struct", False, self.fields(")")
        is_array = self.take_text("[")
        single = self.take(_TYPE)
        if single is None:
            if not is_array:
                raise self.error()
            return "struct", True, self.fields("]")
        if is_array and not self.take_text("]"):
            raise self.error()
        return single[0], is_array, ()


def _narrow(fields: tuple[Field, ...], outer: Versions) -> tuple[Field, ...]:
    """The same fields, with their versions limited to those of the enclosing struct."""
    return tuple(
        replace(
            each,
            versions=(versions := each.versions.cut(outer)),
            nullable=each.nullable and each.nullable.cut(versions),
            fields=_narrow(each.fields, versions),
        )
        for each in fields
    )


def parse_line(line: str) -> Message:
    """Parse a line of the table. Raises SchemaError."""
    head = _HEAD.fullmatch(line)
    if head is None:
        raise SchemaError(f"not a message: {line[:60]!r}")
    versions = Versions(int(head["low"]), int(head["high"] or head["low"]))
    flexible = head["flexible"]
    return Message(
        api_key=-1 if head["key"] == "-" else int(head["key"]),
        api=head["name"],
        kind=head["kind"],
        versions=versions,
        flexible_from=NEVER if flexible == "never" else int(flexible[:-1]),
        fields=_narrow(_Cursor((head["fields"] or "") + "\n").fields("\n"), versions),
    )


def parse(text: str) -> list[Message]:
    """Parse all messages of a table. Raises SchemaError."""
    lines = (line.strip() for line in text.splitlines())
    return [parse_line(line) for line in lines if line and not line.startswith("#")]


def load(name: str = "messages.txt") -> list[Message]:
    """Load all messages of a table: ``messages.txt`` or ``records.txt``."""
    text = pkgutil.get_data(__package__, name)
    assert text is not None
    return parse(text.decode())
