"""Kafka's own cleaner and ours, each on a copy of the same directory: the same has to be left."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from interop.kafka_jars import ToolError, java_command, unavailable
from kstore.log import transaction_index
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
from support.logs import open_log

JAVA = Path(__file__).parent / "java"
PROGRAMS = {"3.9.2": "Clean39.java", "4.3.0": "Clean43.java"}
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
        if shutil.which("javac") is None:
            unavailable("the Java compiler is missing: install openjdk-17-jdk-headless")
        self._process = subprocess.Popen(
            java_command(version, str(JAVA / PROGRAMS[version])),
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


@pytest.fixture(scope="module", params=PROGRAMS)
def cleaner(request):
    made = Kafka(request.param)
    made.version = request.param
    yield made
    made.close()


def kafka_settings(segment_bytes):
    names = "segment.bytes" if segment_bytes >= 1 << 20 else "internal.segment.bytes"
    return f"{names}={segment_bytes},delete.retention.ms={RETENTION},index.interval.bytes=256"


def settings_for(version, segment_bytes):
    # 4.x knows sizes below 1 MiB under an internal name only; 3.9 does not know that name.
    if version.startswith("3"):
        return f"segment.bytes={segment_bytes},delete.retention.ms={RETENTION}"
    return kafka_settings(segment_bytes)


def clean_ours(directory, now, segment_bytes):
    log = open_log(
        directory,
        clock=lambda: now,
        cleanup_policy="compact",
        delete_retention_ms=RETENTION,
        segment_bytes=segment_bytes,
        file_delete_delay_ms=0,
        producer_id_expiration_ms=2_000_000_000,  # as the Java programs have it
    )
    try:
        return log.compact()
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
        # Sequences would run backwards: these batches are of nobody.
        position += size
    for directory in (ours, theirs):
        (directory / f"{end:020}.log").write_bytes(moved)
