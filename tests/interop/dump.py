"""Kafka's DumpLogSegments, run and taken apart."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interop.kafka_jars import ToolError, run

_MAIN = {"3": "kafka.tools.DumpLogSegments", "4": "org.apache.kafka.tools.DumpLogSegments"}
_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) "
    r"count: (?P<count>\d+) .*partitionLeaderEpoch: (?P<epoch>-?\d+) .*"
    r"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) "
    r"crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>-?\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>[^\]]*)\]"
    # v2; a message of v0 or v1, after which the tool of 3.9 has a brace
    r"| isValid: true crc: \d+\}?)(?P<rest>.*)",
    re.DOTALL,
)


@dataclass
class DumpedBatch:
    base_offset: int
    last_offset: int
    count: int
    epoch: int
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    codec: str
    valid: bool


@dataclass
class DumpedRecord:
    """What the tool shows of a record: of headers the names alone."""

    offset: int
    timestamp: int
    key_size: int
    value_size: int
    headers: tuple[str, ...]
    key: str | None
    value: str | None
    rest: str = field(default="", compare=False)  # key and value as the tool decoded them


@dataclass
class DumpedFile:
    name: str
    lines: list[str] = field(default_factory=list)
    batches: list[DumpedBatch] = field(default_factory=list)
    records: list[DumpedRecord] = field(default_factory=list)

    @property
    def entries(self) -> list[tuple[int, ...]]:
        """Of an index: (offset, position) or (timestamp, offset)."""
        found = []
        for line in self.lines:
            numbers = re.fullmatch(
                r"(?:offset|timestamp): (-?\d+) (?:position|offset): (\d+)", line
            )
            if numbers:
                found.append(tuple(map(int, numbers.groups())))
        return found


@dataclass
class Dump:
    files: dict[str, DumpedFile]
    complaints: str  # what the tool said on stderr and after the last file


def dump_log(version: str, paths: Iterable[Path], *flags: str) -> Dump:
    """Dump files (logs, indexes, snapshots in any mix); keyed by the path as text.

    Records are distinguished by line, so a test that prints them uses text of one line.
    """
    names = [str(path) for path in paths]
    done = run(version, _MAIN[version[0]], *flags, "--files", ",".join(names), check=False)
    output, complaints = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise ToolError(f"DumpLogSegments of {version}: {output[-1000:]} {complaints[-2000:]}")
    files: dict[str, DumpedFile] = {}
    current = DumpedFile("")
    for line in output.splitlines():
        if line.startswith("Dumping "):
            current = files.setdefault(line[8:], DumpedFile(line[8:]))
        elif line.startswith("baseOffset: "):
            current.batches.append(_batch(line))
        elif line.startswith("| offset: "):
            current.records.append(_record(line))
        else:
            current.lines.append(line)
    return Dump(files, complaints)


def usual_complaints(version: str, logs: Iterable[Path]) -> list[str]:
    """What the tool of 4.x says of every segment that does not begin at 0, of any writer."""
    lines = []
    for path in logs if version >= "4" else ():
        if int(path.stem) > 0 and path.stat().st_size > 0:
            lines += [f"Non-consecutive offsets in {path}", f"  -1 is followed by {int(path.stem)}"]
    return lines


def _batch(line: str) -> DumpedBatch:
    found = _BATCH.match(line)
    if found is None:
        raise ToolError(f"a batch line of unknown shape: {line}")
    return DumpedBatch(
        base_offset=int(found["base_offset"]),
        last_offset=int(found["last_offset"]),
        count=int(found["count"]),
        epoch=int(found["epoch"]),
        position=int(found["position"]),
        timestamp_type=found["timestamp_type"],
        max_timestamp=int(found["max_timestamp"]),
        size=int(found["size"]),
        magic=int(found["magic"]),
        codec=found["codec"],
        valid=found["valid"] == "true",
    )


def _record(line: str) -> DumpedRecord:
    found = _RECORD.match(line)
    if found is None:
        raise ToolError(f"a record line of unknown shape: {line}")
    key_size, value_size, rest = int(found["key_size"]), int(found["value_size"]), found["rest"]
    key = value = None
    if key_size >= 0 and rest.startswith(" key: "):
        key, rest = rest[6 : 6 + key_size], rest[6 + key_size :]
    if value_size >= 0 and rest.startswith(" payload: "):
        value = rest[10:]
    names = found["headers"]
    all_text = found["rest"]
    return DumpedRecord(
        rest=all_text,
        offset=int(found["offset"]),
        timestamp=int(found["timestamp"]),
        key_size=key_size,
        value_size=value_size,
        headers=tuple(names.split(",")) if names else (),
        key=key,
        value=value,
    )


def assert_sane_indexes(version: str, indexes: Sequence[Path]) -> None:
    """Kafka's two checks find nothing wrong in offset and time indexes."""
    sane = dump_log(version, indexes, "--index-sanity-check")
    assert sane.complaints == ""
    for path in indexes:
        empty = path.suffix == ".index" and path.stat().st_size == 0  # of the other it says nothing
        verdict = "is empty" if empty else "passed sanity check"
        assert sane.files[str(path)].lines == [f"{path} {verdict}."]
    assert dump_log(version, indexes, "--verify-index-only").complaints == ""
