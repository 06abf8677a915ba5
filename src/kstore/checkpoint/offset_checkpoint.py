"""The format of Kafka's offset checkpoints; :mod:`kstore.checkpoint.log_dir` writes them.

An offset checkpoint is a version line ``0``, a line with the number of entries, then one line
``topic partition offset`` each (Kafka's OffsetCheckpointFile and CheckpointFile). A missing file,
a file of no bytes and one with only the version line mean "no entries". Everything else that is
not exactly a checkpoint raises CorruptFileError with the path and the line: a log must not be
truncated or recovered by a guess.
"""

import re
from collections.abc import Iterable, Mapping
from os import PathLike, fspath

from kstore.errors import CorruptFileError
from kstore.files.files import Files

VERSION = 0
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_LINE_END = re.compile(r"\r\n|\r|\n")  # as Java's readLine
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_SPACE = re.compile(r"\s+", re.ASCII)
# A checkpoint as Kafka and kstore write it; what differs is parsed line by line.
_WRITTEN = re.compile(r"0\n[0-9]{1,9}\n(?:[^\s\x1c-\x1f]+ [0-9]{1,10} [0-9]{1,18}\n)*", re.ASCII)

Partition = tuple[str, int]  # topic, number


def read_offsets(files: Files, path: str | PathLike[str]) -> dict[Partition, int]:
    """Read one of the four offset checkpoints: (topic, partition) to offset.

    Raises CorruptFileError (path and line) for anything that is not a checkpoint of version 0.
    """
    if not files.exists(path):
        return {}
    return parse_offsets(files.read(path), path)


def parse_offsets(data: bytes, path: str | PathLike[str]) -> dict[Partition, int]:
    """The entries in the bytes of a checkpoint; path is only for the error."""
    found = _parse_as_written(data)
    if found is not None:
        return found
    offsets: dict[Partition, int] = {}
    for line, fields in parse_frame(data, path, columns=3):
        partition = parse_number(fields[1], INT32_MAX, line, path)
        entry = (fields[0], partition)
        if entry in offsets:
            raise corrupt(f"partition {fields[0]}-{partition} appears twice", line, path)
        offsets[entry] = parse_number(fields[2], INT64_MAX, line, path)
    return offsets


def _parse_as_written(data: bytes) -> dict[Partition, int] | None:
    """The entries of a checkpoint that looks as a writer leaves it; None for any other.

    All of it in a few calls: line by line, 10,000 entries take three times as long, and every start
    parses two checkpoints of all partitions.
    """
    text = data.decode() if data.isascii() else ""
    if _WRITTEN.fullmatch(text) is None:
        return None
    _, count, *fields = text.split()
    numbers = list(map(int, fields[1::3]))
    entries = zip(fields[0::3], numbers, strict=True)
    offsets = dict(zip(entries, map(int, fields[2::3]), strict=True))
    is_valid = len(offsets) == len(numbers) == int(count) and max(numbers, default=0) <= INT32_MAX
    return offsets if is_valid else None


def write_offsets(
    files: Files, path: str | PathLike[str], offsets: Mapping[Partition, int]
) -> None:
    """Replace a checkpoint atomically by the mapping, sorted."""
    files.write_atomically(path, format_offsets(offsets))


def format_offsets(offsets: Mapping[Partition, int]) -> bytes:
    for (topic, partition), offset in offsets.items():
        if not topic or _SPACE.search(topic) is not None:
            raise ValueError(f"{topic!r} is not the name of a topic")
        if not 0 <= partition <= INT32_MAX or not 0 <= offset <= INT64_MAX:
            raise ValueError(f"partition {partition} or offset {offset} is out of range")
    return format_frame(
        f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
    )


# --- the frame, shared with leader-epoch-checkpoint ---------------------------------------------


def parse_frame(
    data: bytes, path: str | PathLike[str], *, columns: int
) -> list[tuple[int, list[str]]]:
    """Check version and count; return (line number, fields) of every entry."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise corrupt("not UTF-8 text", line, path) from None
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    version = parse_number(lines[0], INT32_MAX, 1, path)
    if version != VERSION:
        raise corrupt(f"unknown version {version}, only {VERSION} is known", 1, path)
    if len(lines) == 1:
        return []
    count = parse_number(lines[1], INT32_MAX, 2, path)
    if count != len(lines) - 2:
        raise corrupt(f"{count} entries announced, {len(lines) - 2} found", 2, path)
    entries: list[tuple[int, list[str]]] = []
    for number, text_line in enumerate(lines[2:], start=3):
        fields = _SPACE.split(text_line.rstrip(" \t\v\f"))
        if len(fields) != columns or not fields[0]:
            raise corrupt(f"{columns} fields expected, found {text_line[:80]!r}", number, path)
        entries.append((number, fields))
    return entries


def format_frame(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (str(VERSION), str(len(lines)), *lines)).encode()


def parse_number(text: str, maximum: int, line: int, path: str | PathLike[str]) -> int:
    """A decimal from 0 to maximum, as text of a checkpoint."""
    if _NUMBER.fullmatch(text) is None:
        raise corrupt(f"a number expected, found {text[:40]!r}", line, path)
    value = int(text)
    if not 0 <= value <= maximum:
        raise corrupt(f"a number from 0 to {maximum} expected, found {value}", line, path)
    return value


def corrupt(what: str, line: int, path: str | PathLike[str]) -> CorruptFileError:
    return CorruptFileError(f"line {line}: {what}", path=fspath(path))
