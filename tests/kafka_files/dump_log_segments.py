"""What Kafka's DumpLogSegments printed, taken apart, and the known differences as rules."""

import json
import lzma
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_files.data_sets import DATA

OLDER = tuple(sorted(path.name[11:-7] for path in DATA.glob("dump-4.3.0-*.txt.xz")))
_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@dataclass
class Run:
    """One run of the tool: its flags, the lines of stdout, those of stderr."""

    flags: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        return [line[8:] for line in self.lines if line.startswith("Dumping ")]


def runs(text: str, flags: tuple[str, ...] = ()) -> Iterator[Run]:
    """Runs in a file of dumps: ``$ DumpLogSegments FLAGS --files ...`` begins the next ones."""
    run = Run(flags)
    complaining = False
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("$ "):
            flags = tuple(line.split()[2:-2])
        if line.startswith("$ ") or (complaining and line.startswith("Dumping ")):
            if run.lines:
                yield run
            run, complaining = Run(flags), False
        if line == "stderr:":
            complaining = True
        elif not line.startswith("$ "):
            (run.complaints if complaining else run.lines).append(line)
    if run.lines:
        yield run


def by_own_version(name: str) -> Iterator[Run]:
    """Dumped by the Kafka that wrote the set."""
    with tarfile.open(DATA / f"made-{name}.tar.xz") as archive:
        text = archive.extractfile("dump.txt").read()
    return runs(text.decode(errors="replace"))


def by_newest(name: str) -> Iterator[Run]:
    """An older set as 4.3.0 dumps it."""
    text = lzma.decompress((DATA / f"dump-4.3.0-{name}.txt.xz").read_bytes())
    return runs(text.decode(), ("--deep-iteration",))


# --- complaints ---------------------------------------------------------------------------


def complaints(lines: list[str]) -> dict[str, list[str]]:
    """Title to its lines; Kafka orders both as its hash maps happen to.

    Kafka 4.3 takes a log's first record for a gap unless it is number 0 (``-1 is followed by``):
    that is its mistake, skipped here. 3.9 calls a not-found offset's log by no name.
    """
    found: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if line.startswith(("  ", "Indexed offset")):
            if not line.startswith("  -1 is followed by"):
                found.setdefault(title, []).append(line)
        elif line and " INFO " not in line:
            title = line
    return {name: sorted(found[name]) for name in found}


# --- what 3.9 printed otherwise ------------------------------------------------------------


def as_in_3_9(line: str) -> str:
    """A line of 4.3's shape, less what 3.9 does not show."""
    line = re.sub(r" LeaderChange: \{.*\}$", " controlType: LEADER_CHANGE(2)", line)
    if line.startswith("producerId: ") and " firstSequence: " not in line:
        return line + " "
    return line


def transaction_as_in_3_9(line: str) -> str:
    """3.9 shows records of ``__transaction_state`` as text, later ones show JSON."""
    found = re.fullmatch(r"(.* key: )(\{.*?\}\}) payload: (.*)", line)
    if found is None:
        return line
    name = json.loads(found[2])["data"]["transactionalId"]
    value = json.loads(found[3])["data"]
    partitions = ",".join(
        f"{entry['topic']}-{partition}"
        for entry in value["transactionPartitions"] or ()
        for partition in entry["partitionIds"]
    )
    return (
        f"{found[1]}transaction_metadata::transactionalId={name} payload: "
        f"producerId:{value['producerId']},producerEpoch:{value['producerEpoch']},"
        f"state={_STATES[value['transactionStatus']]},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={value['transactionTimeoutMs']}"
    )


def partitions_sorted(line: str) -> str:
    """3.9 names the partitions of a transaction in the order of a hash set."""
    return re.sub(
        r"partitions=\[(.*?)\]",
        lambda found: f"partitions=[{','.join(sorted(found[1].split(',')))}]",
        line,
    )
