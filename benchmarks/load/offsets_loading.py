"""How fast a broker loads ``__consumer_offsets``.

    PYTHONPATH=benchmarks:src python -m load.offsets_loading [RECORDS]

Two directories hold the commits of 1,000 groups in 50 partitions, ten commits a batch: one where
each of 10,000 keys was committed many times, as between two compactions, and one where no key
repeats, as after a compaction. Each is loaded in this process, every partition by the call that a
broker's disk worker makes, and then by a started ``kstore serve``, until it answers OffsetFetch
for a group of each partition. Both must have the last commit of every key.
"""

import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peers.kafka  # finds tests/interop

# isort: split

import kstore
from kstore.coordinator.group.offset_records import (
    OffsetCommit,
    OffsetKey,
    encode_offset_key,
    encode_offset_value,
)
from kstore.coordinator.group.offsets_store import OffsetsStore
from kstore.coordinator.group.offsets_table import (
    OFFSETS_PARTITIONS,
    OFFSETS_PROPERTIES,
    OFFSETS_TOPIC,
)
from kstore.protocol.fields import partition_for_name
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from kstore.record.builder import BatchBuilder
from load.brokers import PATIENCE, ProcessBroker, cpu_seconds, kstore_broker
from load.frame_connections import FrameConnections

assert peers.kafka.VERSION
RECORDS = 3_000_000
GROUPS, EACH = 1000, 10  # EACH: commits of one request, and so of a batch
WANTED = 1_000_000  # records a second
TOPIC = "committed"
_LOADING = (14, 15, 16)  # errors of a coordinator that does not serve the group yet
_FETCH = 5  # version of OffsetFetch
_TIME = time.time_ns() // 1_000_000


def _value(offset: int) -> bytes:
    return struct.pack(">hqihq", 3, offset, -1, 0, _TIME)


def _groups() -> list[str]:
    return [f"group-{number:06}" for number in range(GROUPS)]


def _fill(directory: Path, records: int, repeats: int) -> int:
    """Commit ``repeats`` times for every key; return the number of keys of a group.

    A group's commits have the offsets 1 to ``repeats``, plus the partition that they are for.
    """
    assert _value(5) == encode_offset_value(OffsetCommit(5, _TIME))
    partitions = max(EACH, records // GROUPS // repeats // EACH * EACH)
    builder = BatchBuilder()
    config = {**OFFSETS_PROPERTIES}
    with kstore.open(directory, config=kstore.StoreConfig(background=False)) as store:
        store.create_topic(TOPIC, partitions=1)
        topic = store.create_topic(OFFSETS_TOPIC, partitions=OFFSETS_PARTITIONS, config=config)
        for group in _groups():
            log = topic[partition_for_name(group, OFFSETS_PARTITIONS)]
            keys = [encode_offset_key(OffsetKey(group, TOPIC, each)) for each in range(partitions)]
            batches: list[bytes] = []
            for number in range(repeats):
                for at in range(0, partitions, EACH):
                    for each in range(at, at + EACH):
                        value = _value(number + 1 + each)
                        assert builder.append(value, key=keys[each], timestamp=_TIME)
                    batches.append(builder.build(log.end_offset + len(batches) * EACH, 0))
            log.append_as_follower(b"".join(batches))
    return partitions


def _loaded(directory: Path, partitions: int, repeats: int) -> tuple[int, float, float]:
    """Load every partition; return the records, the seconds and the processor time."""
    with kstore.open(directory, config=kstore.StoreConfig(background=False)) as store:
        offsets = OffsetsStore(store)
        numbers = offsets.filled()
        started, used = time.perf_counter(), time.process_time()
        loaded = {number: offsets.load(number) for number in numbers}
        used, elapsed = time.process_time() - used, time.perf_counter() - started
        records = sum(store[OFFSETS_TOPIC][number].end_offset for number in numbers)
        assert sum(len(each.names) for each in loaded.values()) == GROUPS
        for group in _groups():
            found, _ = offsets.fetch(partition_for_name(group, OFFSETS_PARTITIONS), group)
            assert len(found) == partitions, f"{group}: {len(found)} of {partitions} commits"
            for (_, partition), commit in found.items():
                assert commit.offset == repeats + partition, (group, partition, commit)
    return records, elapsed, used


def _first_of_each_partition() -> list[str]:
    """A group in each partition of ``__consumer_offsets`` that has one."""
    found: dict[int, str] = {}
    for group in _groups():
        found.setdefault(partition_for_name(group, OFFSETS_PARTITIONS), group)
    return list(found.values())


def _started(broker: ProcessBroker, partitions: int, repeats: int) -> tuple[float, float]:
    """Start a broker; return the seconds, and its processor time, until it has loaded all."""
    started = time.perf_counter()
    broker.start()
    try:
        requested = [OffsetFetchRequest.Topics(TOPIC, list(range(partitions)))]
        with FrameConnections(broker.port, 1) as connection:
            for group in _first_of_each_partition():
                request = OffsetFetchRequest(group, requested)
                for answer in _answers(connection, request):
                    if answer.error_code == 0:
                        break
                    assert answer.error_code in _LOADING, answer
                rows = answer.topics[0].partitions
                assert [each.committed_offset for each in rows] == [
                    repeats + partition for partition in range(partitions)
                ], group
        return time.perf_counter() - started, cpu_seconds(broker.pid)
    finally:
        broker.stop()


def _answers(connection: FrameConnections, request: OffsetFetchRequest) -> Iterator[Any]:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        yield connection.ask([request], _FETCH)[0]
        time.sleep(0.005)
    raise AssertionError(f"{request.group_id} is not loaded after {PATIENCE:.0f} s")


def main() -> int:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    for repeats in (max(1, total // (GROUPS * EACH)), 1):
        with tempfile.TemporaryDirectory(prefix="kstore-offsets-") as name:
            broker = kstore_broker(Path(name))
            directory = Path(name) / "kstore"
            partitions = _fill(directory, total, repeats)
            records, elapsed, used = _loaded(directory, partitions, repeats)
            until_all, broker_used = _started(broker, partitions, repeats)
        print(
            f"{records:,} commits of {GROUPS * partitions:,} keys: loaded in {elapsed:.2f} s, "
            f"{records / elapsed:,.0f} records/s ({records / used:,.0f} a second of processor "
            f"time; wanted: {WANTED:,}); a broker has loaded them {until_all:.2f} s after its "
            f"start, with {broker_used:.2f} s of processor time",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
