"""Kafka's own cleaner and ours, each on a copy of the same directory: the same has to be left."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from interop.kafka_jars import ToolError, compiled, java_command
from kstore.files.files import DISK
from kstore.segment import transaction_index
from oracle import cleaner as rules
from support.compaction import (
    NOW,
    RETENTION,
    Shape,
    batches_of,
    live_segments,
    random_segments,
    write_logs,
)
from support.disks import HastyDisk
from support.logs import open_log

SHAPES = {
    "transactions": Shape(),
    "plain": Shape(transactions=False, null_keys=True),
    "many": Shape(batches=200, segments=9, keys=40),
    "v1": Shape(magics=(1,), transactions=False),
    "mixed": Shape(magics=(0, 1, 2)),
}
ROUNDS = 3  # the horizon of the first is over in the second
# Grouped by their sizes, and two compressors differ by bytes: all alone, or all in one.
SEGMENT_BYTES = (62, 10_000_000)


class Kafka:
    """One JVM that recovers and cleans directories, as long as a test needs it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._process = subprocess.Popen(
            java_command(version, "Clean", classes=compiled(version, "Clean")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer.lstrip("-").isdigit():
            raise ToolError(f"{words}: {answer}")
        return int(answer)

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def cleaner(kafka):
    made = Kafka(kafka)
    yield made
    made.close()


def kafka_settings(segment_bytes):
    names = "segment.bytes" if segment_bytes >= 1 << 20 else "internal.segment.bytes"
    return f"{names}={segment_bytes};delete.retention.ms={RETENTION};index.interval.bytes=256"


def settings_for(version, segment_bytes):
    # 4.x knows sizes below 1 MiB under an internal name only; 3.9 does not know that name.
    if version.startswith("3"):
        return f"segment.bytes={segment_bytes};delete.retention.ms={RETENTION}"
    return kafka_settings(segment_bytes)


def clean_ours(directory, now, segment_bytes, files=DISK):
    log = open_log(
        directory,
        files=files,
        clock=lambda: now,
        cleanup_policy="compact",
        delete_retention_ms=RETENTION,
        segment_bytes=segment_bytes,
        file_delete_delay_ms=0,
        producer_id_expiration_ms=2_000_000_000,  # as the Java programs have it
    )
    try:
        return log.compact(rounds=1)  # as the threads of the cleaner, which leave what expired
    finally:
        log.close()


def contents(directory, *, by_record):
    """What is in a directory: batches as they are, or (4.x turns v0 and v1 into v2) records."""
    batches = batches_of(live_segments(directory))
    assert all(batch.crc_ok for batch in batches)
    if not by_record:
        return [rules.same(batch) for batch in batches]
    return [
        (record.offset, record.key, record.value, record.headers, record.timestamp)
        for batch in batches
        for record in batch.records
    ]


def aborted(directory):
    return {
        path.name: transaction_index.parse(path.read_bytes())
        for path in sorted(directory.glob("*.txnindex"))
        if path.stat().st_size
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_is_left(cleaner, tmp_path, shape, seed):
    rng = random.Random(f"{shape}-{seed}")
    segments = random_segments(rng, SHAPES[shape])
    segment_bytes = SEGMENT_BYTES[seed % 2]
    settings = settings_for(cleaner.version, segment_bytes)
    # The checkpoint of ours lies beside the partition, so each has a directory of its own.
    theirs, ours = tmp_path / "kafka" / "t-0", tmp_path / "kstore" / "t-0"
    write_logs(theirs, segments)
    cleaner.ask("recover", theirs, NOW, settings)
    shutil.copytree(theirs, ours)
    by_record = any(magic < 2 for magic in SHAPES[shape].magics)
    first_dirty, kept = min(segments), []
    before = len(contents(ours, by_record=True))
    # 4.x turns messages v0 and v1 into batches v2, whose tombstones have a horizon from then on.
    rounds = 1 if by_record and cleaner.version.startswith("4") else ROUNDS
    for number in range(rounds):
        now = NOW + number * 2 * RETENTION
        report = clean_ours(ours, now, segment_bytes)
        dirty = cleaner.ask("clean", theirs, now, settings, first_dirty)
        if report.passes:
            assert report.end_offset == dirty
            first_dirty = dirty
        else:  # nothing is dirty, which Kafka's manager would have seen before it asks
            shutil.rmtree(theirs)
            shutil.copytree(ours, theirs)
        assert contents(ours, by_record=by_record) == contents(theirs, by_record=by_record)
        assert sorted(live_segments(ours)) == sorted(live_segments(theirs))
        assert aborted(ours) == aborted(theirs)
        kept.append(len(contents(ours, by_record=True)))
        add_a_segment(ours, theirs, rng, now)
    assert kept[0] < before


def add_a_segment(ours, theirs, rng, now):
    """The active segment is sealed, and one more with the same keys follows."""
    end = batches_of(live_segments(ours))[-1].last_offset + 1
    more = random_segments(rng, Shape(batches=6, segments=1, transactions=False))
    batches = b"".join(more.values())
    shift = end - min(more)
    moved = bytearray(batches)
    position = 0
    while position < len(moved):
        size = int.from_bytes(moved[position + 8 : position + 12], "big") + 12
        offset = int.from_bytes(moved[position : position + 8], "big") + shift
        moved[position : position + 8] = offset.to_bytes(8, "big")
        # Sequences would run backwards: these batches have no producer.
        position += size
    for directory in (ours, theirs):
        (directory / f"{end:020}.log").write_bytes(moved)


class Witness(HastyDisk):
    """Copies a partition before each of its renames: what a kill there leaves."""

    def __init__(self, partition, copies):
        self.partition = partition
        self.copies = copies
        self.count = 0

    def rename(self, old, new):
        if Path(old).parent == self.partition:
            self.copy()
        super().rename(old, new)

    def copy(self):
        shutil.copytree(self.partition, self.copies / f"{self.count:02}" / "t-0")
        self.count += 1


@pytest.mark.parametrize("shape", ["transactions", "plain"])
def test_a_swap_killed_at_each_rename(cleaner, tmp_path, shape):
    """Kafka's loader and ours make the same of it: the log before the compaction or after it."""
    segments = random_segments(random.Random(f"killed-{shape}"), SHAPES[shape])
    settings = settings_for(cleaner.version, SEGMENT_BYTES[1])
    partition = tmp_path / "complete" / "t-0"
    write_logs(partition, segments)
    cleaner.ask("recover", partition, NOW, settings)
    before = contents(partition, by_record=False)
    witness = Witness(partition, tmp_path / "killed")
    clean_ours(partition, NOW, SEGMENT_BYTES[1], files=witness)
    witness.copy()
    after = contents(partition, by_record=False)
    assert before != after
    assert witness.count > 3 * len(segments)
    seen = []
    for killed in sorted(witness.copies.iterdir()):
        theirs, ours = killed / "t-0", tmp_path / "ours" / killed.name / "t-0"
        shutil.copytree(theirs, ours)
        # While one file still has the first ending none of them counts.
        endings = {path.suffix for path in theirs.iterdir()}
        counts = ".swap" in endings and ".cleaned" not in endings
        end = cleaner.ask("recover", theirs, NOW, settings)
        log = open_log(ours, clean=False, clock=lambda: NOW, file_delete_delay_ms=0)
        assert log.end_offset == end, killed.name
        log.close()
        left = contents(ours, by_record=False)
        assert left == contents(theirs, by_record=False), killed.name
        assert left in (before, after), killed.name
        assert left == after or not counts, killed.name
        assert left == before or ".cleaned" not in endings, killed.name
        assert sorted(live_segments(ours)) == sorted(live_segments(theirs)), killed.name
        assert harming(ours) == harming(theirs), killed.name
        assert not [path for path in ours.iterdir() if path.suffix in (".swap", ".cleaned")]
        seen.append(left == after)
    assert seen == sorted(seen)
    assert {False, True} == set(seen)


def harming(directory):
    """Entries of aborted transactions of which records are left: of others none need be known.

    Kafka's loader rebuilds the index of a swapped segment from its batches; ours keeps it.
    """
    batches = [b for b in batches_of(live_segments(directory)) if b.transactional and not b.control]
    return {
        (name, entry)
        for name, entries in aborted(directory).items()
        for entry in entries
        for batch in batches
        if batch.producer_id == entry.producer_id
        and entry.first_offset <= batch.base_offset <= entry.last_offset
    }
