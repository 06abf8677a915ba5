"""What Kafka says of a partition, and whether kstore says the same of the directory."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kstore
from kafka_files.data_sets import ExpectedPartition, ExpectedRecord, expected_partition
from kafka_files.offsets_for_times import BELOW_START, EMPTIED, check_times
from kstore import Log
from oracle.plain import PlainBatch
from oracle.reader import read_log

# Topics of which Kafka may answer otherwise than a scan of the records would, and why.
DIFFERENT_TIMES: dict[str, str] = {
    "compacted": EMPTIED,
    "trimmed": BELOW_START,
}


@dataclass(frozen=True)
class Producer:
    """What DescribeProducers answers about a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    timestamp: int
    coordinator_epoch: int
    current_transaction_first_offset: int  # -1: none is open


@dataclass(frozen=True)
class Judged:
    """One partition as Kafka's own clients describe it."""

    plain: ExpectedPartition
    last_stable_offset: int | None
    committed: tuple[int, ...] | None  # the offsets that a read_committed consumer gets
    producers: tuple[Producer, ...] | None  # by their ids; None: the broker is too old to say

    @property
    def records(self) -> tuple[ExpectedRecord, ...]:
        return self.plain.records

    @property
    def end_offset(self) -> int:
        return self.plain.end_offset


def partition_of(name: str, stored: dict[str, Any]) -> Judged:
    """From the shape of an expectations.json, which java/Clients.java writes too."""
    stored_producers = stored.get("producers")
    committed = stored.get("read_committed_offsets")
    producers = [
        Producer(
            producer_id=each["producer_id"],
            producer_epoch=each["epoch"],
            last_sequence=each["last_sequence"],
            timestamp=each["last_timestamp"],
            coordinator_epoch=each["coordinator_epoch"],
            current_transaction_first_offset=_none_as_minus_one(each["current_txn_start_offset"]),
        )
        for each in stored_producers or ()
    ]
    return Judged(
        plain=expected_partition(name, stored),
        last_stable_offset=stored.get("last_stable_offset"),
        committed=None if committed is None else tuple(committed),
        producers=None if stored_producers is None else tuple(sorted(producers, key=_id)),
    )


def _id(producer: Producer) -> int:
    return producer.producer_id


def _none_as_minus_one(offset: int | None) -> int:
    return -1 if offset is None else offset


def as_expected(record: kstore.Record) -> ExpectedRecord:
    return ExpectedRecord(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.leader_epoch if record.leader_epoch >= 0 else None,
        record.key,
        record.value,
        record.headers,
    )


def assert_same_records(log: Log, consumed: Judged) -> None:
    """Where the log begins and ends, each record with all its fields, offsets by time.

    A time leads to what a scan of the records finds. Kafka says the same, but of the partitions
    in DIFFERENT_TIMES.
    """
    name, plain = consumed.plain.name, consumed.plain
    assert (log.start_offset, log.end_offset) == (plain.beginning_offset, plain.end_offset), name
    assert tuple(as_expected(record) for record in log) == plain.records, name
    different = check_times(log, Path(log.path), plain.offsets_for_times)
    assert not different or log.topic in DIFFERENT_TIMES, (
        f"{name}: (time, Kafka's answer, a scan's) {different}"
    )


def assert_same_transactions(log: Log, consumed: Judged) -> None:
    """The last stable offset, and what a read_committed reader is given."""
    if consumed.committed is None:
        return  # a broker from before transactions
    name = consumed.plain.name
    assert log.last_stable_offset == consumed.last_stable_offset, name
    found = tuple(record.offset for record in log.view(isolation="read_committed"))
    assert found == consumed.committed, name


def assert_same_producers(log: Log, consumed: Judged, *, written: bool = False) -> None:
    """Every producer that DescribeProducers lists, with its epochs, sequence and transaction.

    A writer that loads a snapshot forgets those that have been idle for a day, as a broker does
    that starts: where one had the directory (``written``) they may be missing, and others not.
    """
    if consumed.producers is None:
        return  # a broker that cannot say
    found = [
        Producer(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            timestamp=entry.timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_transaction_first_offset=entry.current_transaction_first_offset,
        )
        for entry in log.producers()
    ]
    known = {producer.producer_id for producer in found}
    day_ago = time.time_ns() // 1_000_000 - 86_400_000 if written else -1
    expected = [
        producer
        for producer in consumed.producers
        if producer.producer_id in known
        or producer.timestamp > day_ago
        or producer.current_transaction_first_offset >= 0
    ]
    assert (consumed.plain.name, sorted(found, key=_id)) == (consumed.plain.name, expected)


def batches_of(folder: Path, start: int = 0) -> list[tuple[PlainBatch, bytes]]:
    """The batches of a partition folder that begin at or after start, with their bytes."""
    found = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for batch in read_log(data, decode=False).batches:
            if batch.base_offset >= start:
                found.append((batch, data[batch.position : batch.position + batch.size]))
    return found


def take_over_markers(log: Log, folder: Path, consumed: Judged) -> int:
    """Append what a restarted coordinator wrote behind kstore's end: markers, nothing else.

    Folder is the partition as the broker left it after its own recovery. In the coordinator's
    own log these are records, of what became of the transactions. Returns how many.
    """
    added = [
        (batch, data)
        for batch, data in batches_of(folder, log.end_offset)
        if batch.base_offset < consumed.end_offset  # else it came after the broker had spoken
    ]
    if log.topic != "__transaction_state":
        assert all(batch.control for batch, _ in added), f"{folder}: records beyond kstore's end"
    for _, data in added:
        log.append_as_follower(data)
    return len(added)
