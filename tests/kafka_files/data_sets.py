"""The data sets of tests/data: unpacking them, and what must be found in them.

A `BrokerSet` is a complete log.dir of a real broker with what Kafka's own consumer read from it.
`Fixture` is one file of public origin with what independent readers found in it.
"""

import base64
import hashlib
import json
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from oracle.plain import PlainRecord

DATA = Path(__file__).resolve().parent.parent / "data"
RECOVERED_SETS = tuple(sorted(p.name[10:-7] for p in DATA.glob("recovered-*.tar.xz")))
BROKER_SETS = tuple(sorted(p.name[5:-7] for p in DATA.glob("made-*.tar.xz")))


def unpack(name: str, target: Path) -> Path:
    """Unpack tests/data/NAME.tar.xz into the target directory and return that."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        # As extractall(filter="data"), which Pythons before 3.11.4 do not know.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target)
    return target


@dataclass(frozen=True)
class ExpectedRecord:
    """One record as Kafka's consumer gave it."""

    offset: int
    timestamp: int
    timestamp_type: str
    leader_epoch: int | None
    key: object
    value: object
    headers: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Long:
    """A field too long to be listed: equal to any bytes of its length and hash."""

    length: int
    sha256: str

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes):
            digest = hashlib.sha256(other).hexdigest()
            return (len(other), digest) == (self.length, self.sha256)
        if isinstance(other, Long):
            return (other.length, other.sha256) == (self.length, self.sha256)
        return NotImplemented


def _field(stored: object) -> object:
    if stored is None:
        return None
    if isinstance(stored, str):
        return base64.b64decode(stored, validate=True)
    return Long(stored["length"], stored["sha256"])


@dataclass(frozen=True)
class ExpectedPartition:
    """What Kafka's consumer said of one partition, just before the broker's last clean stop."""

    name: str  # topic-partition, as the folder
    beginning_offset: int
    end_offset: int
    offsets_for_times: tuple[tuple[int, int | None, int | None], ...]
    max_timestamp: tuple[int, int] | None  # (offset, timestamp)
    records: tuple[ExpectedRecord, ...]  # read_uncommitted: control records are not given out
    last_stable_offset: int
    committed_offsets: tuple[int, ...]  # of the records that read_committed gives out

    @property
    def topic(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def partition(self) -> int:
        return int(self.name.rpartition("-")[2])


def expected_partition(name: str, stored: dict) -> ExpectedPartition:
    """From the shape of an expectations.json."""
    highest = stored.get("max_timestamp")
    committed = stored.get("read_committed_offsets", "all")  # none: before transactions
    if committed == "all":
        committed = [record["offset"] for record in stored["read_uncommitted"]]
    return ExpectedPartition(
        name=name,
        beginning_offset=stored["beginning_offset"],
        end_offset=stored["end_offset"],
        offsets_for_times=tuple(tuple(row) for row in stored.get("offsets_for_times", ())),
        max_timestamp=(highest["offset"], highest["timestamp"]) if highest else None,
        records=tuple(
            ExpectedRecord(
                offset=record["offset"],
                timestamp=record["timestamp"],
                timestamp_type=record["timestampType"],
                leader_epoch=record.get("leaderEpoch"),
                key=_field(record["key"]),
                value=_field(record["value"]),
                headers=tuple(
                    (base64.b64decode(name).decode(), _field(value))
                    for name, value in record["headers"]
                ),
            )
            for record in stored["read_uncommitted"]
        ),
        last_stable_offset=stored.get("last_stable_offset", stored["end_offset"]),
        committed_offsets=tuple(committed),
    )


@dataclass(frozen=True)
class BrokerSet:
    name: str
    root: Path

    @property
    def log_dir(self) -> Path:
        return self.root / "log-dir"

    @property
    def dump(self) -> str:
        """What that version's DumpLogSegments prints over every file."""
        return (self.root / "dump.txt").read_text(errors="replace")

    @cached_property
    def partitions(self) -> tuple[ExpectedPartition, ...]:
        stored = json.loads((self.root / "expectations.json").read_text())["partitions"]
        return tuple(expected_partition(name, stored[name]) for name in sorted(stored))


@dataclass(frozen=True)
class Fixture:
    name: str
    path: Path
    expected: dict

    @property
    def kind(self) -> str:
        return self.expected["kind"]

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def base_offset(self) -> int:
        """Of the segment the file belongs to, from its name."""
        return int(self.path.name.partition(".")[0])


@dataclass(frozen=True)
class Fixtures:
    root: Path

    @cached_property
    def expected(self) -> dict[str, dict]:
        """What is said of each file, by its path; also of files that were not kept."""
        return json.loads((self.root / "expectations.json").read_text())["files"]

    @cached_property
    def all(self) -> tuple[Fixture, ...]:
        return tuple(
            Fixture(name, self.root / name, expected)
            for name, expected in sorted(self.expected.items())
            if expected["kind"] != "not-kept"
        )

    def of_kind(self, *kinds: str) -> tuple[Fixture, ...]:
        return tuple(fixture for fixture in self.all if fixture.kind in kinds)

    @property
    def logs(self) -> tuple[Fixture, ...]:
        return self.of_kind("log", "record-set", "raft-snapshot")


@dataclass(frozen=True)
class RecoveredPartition:
    """What Kafka's consumer said of a partition after the broker's own recovery.

    ``records`` are (offset, digest of everything the consumer gave): see `digest`.
    """

    name: str
    beginning_offset: int
    end_offset: int
    last_stable_offset: int
    offsets_for_times: tuple[tuple[int, int | None, int | None], ...]
    max_timestamp: tuple[int, int]  # (offset, timestamp)
    producers: tuple[dict, ...]
    records: tuple[tuple[int, str], ...]
    committed: tuple[int, ...]  # offsets that a read_committed consumer gets

    @property
    def topic_partition(self) -> tuple[str, int]:
        topic, _, number = self.name.rpartition("-")
        return topic, int(number)


@dataclass(frozen=True)
class RecoveredSet:
    """Directories as a broker left them unclean, and with the state after its recovery."""

    name: str
    root: Path

    def before(self, case: str) -> Path:
        return self.root / case / "before"

    def after(self, case: str) -> Path:
        return self.root / case / "after"

    @cached_property
    def damage(self) -> dict:
        """What was done to the directories before the broker got them back."""
        return json.loads((self.root / "damage.json").read_text())

    @cached_property
    def expected(self) -> dict[str, dict[str, RecoveredPartition]]:
        """By case and partition."""
        stored = json.loads((self.root / "expectations.json").read_text())
        return {
            case: {name: _recovered(name, about) for name, about in partitions.items()}
            for case, partitions in stored.items()
        }


def _recovered(name: str, stored: dict) -> RecoveredPartition:
    records = tuple((offset, digest) for offset, digest in stored["read_uncommitted"])
    committed = stored["read_committed_offsets"]
    highest = stored["max_timestamp"]
    return RecoveredPartition(
        name=name,
        beginning_offset=stored["beginning_offset"],
        end_offset=stored["end_offset"],
        last_stable_offset=stored["last_stable_offset"],
        offsets_for_times=tuple(tuple(row) for row in stored["offsets_for_times"]),
        max_timestamp=(highest["offset"], highest["timestamp"]),
        producers=tuple(stored["producers"]),
        records=records,
        committed=tuple(offset for offset, _ in records) if committed == "all" else committed,
    )


def digest(record: ExpectedRecord) -> str:
    """The start of a SHA-256 over every field of a record, as ``expectations.json`` has it."""
    parts = [
        b"%d" % record.offset,
        b"%d" % record.timestamp,
        record.timestamp_type.encode(),
        str(record.leader_epoch).encode(),
        _summary(record.key),
        _summary(record.value),
    ]
    for name, value in record.headers:
        parts += [name.encode(), _summary(value)]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]


def _summary(field: object) -> bytes:
    if field is None:
        return b"-"
    assert isinstance(field, bytes)
    return b"%d:%s" % (len(field), hashlib.sha256(field).hexdigest().encode())


def as_expected(record: PlainRecord, leader_epoch: int | None) -> ExpectedRecord:
    return ExpectedRecord(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        leader_epoch,
        record.key,
        record.value,
        record.headers,
    )
