"""A writer that appends, rolls, truncates, retains and reopens, and four readers beside it.

The readers are processes of their own that never stop looking. No crash, no wrong record, and
nothing that is merely not there yet is called damage.
"""

import os
import random
import time
from pathlib import Path

from kstore.log.log import Log
from stress.stress_reader import value_at, watch
from support.disks import HastyDisk
from support.logs import open_log
from support.system import processes

SECONDS = float(os.environ.get("KSTORE_STRESS_SECONDS", "4"))
SEED = int(os.environ.get("SEED", "1"))
READERS = 4
SETTINGS = {
    "segment_bytes": 60_000,
    "index_interval_bytes": 500,
    "segment_index_bytes": 10_000,
    "file_delete_delay_ms": 500,
    "batch_size": 4000,
    "retention_bytes": 600_000,
}


class Writer:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.epoch = 0
        self.pick = random.Random(SEED)
        self.log: Log = self.open(clean=True)
        self.done = dict.fromkeys(
            ("append", "extend", "roll", "cut", "retain", "reopen", "kill"), 0
        )

    def open(self, *, clean: bool, recovery_point: int = 0, start: int = 0) -> Log:
        return open_log(
            self.directory,
            files=HastyDisk(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=start,
            **SETTINGS,
        )

    def step(self) -> None:
        log, pick = self.log, self.pick
        operation = pick.choices(tuple(self.done), (40, 40, 3, 2, 2, 1, 1))[0]
        self.done[operation] += 1
        end = log.end_offset
        if operation == "append":
            assert log.append(value_at(end, self.epoch)) == end
        elif operation == "extend":
            count = pick.randrange(1, 200)
            log.extend([value_at(end + n, self.epoch) for n in range(count)])
        elif operation == "roll":
            log.roll()
        elif operation == "cut":
            self.epoch += 1
            log.truncate_to(max(log.start_offset, end - pick.randrange(1, 500)))
        elif operation == "retain":
            log.apply_retention()
        else:
            start, point = log.start_offset, log.recovery_point
            clean = log.close() if operation == "reopen" else False
            self.log = self.open(clean=clean, recovery_point=point, start=start)

    def check(self) -> int:
        found = [(r.offset, r.value) for r in self.log]
        for offset, value in found:
            assert value is not None
            assert value == value_at(offset, int(value.split(b":")[1]))
        return len(found)


def test_a_writer_and_four_readers(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    writer = Writer(directory)
    writer.log.append(value_at(0, 0))
    context = processes("spawn")
    results, stop = context.Queue(), context.Event()
    readers = [
        context.Process(target=watch, args=(directory, True, SECONDS, SEED + n, results, stop))
        for n in range(READERS)
    ]
    for reader in readers:
        reader.start()
    until = time.monotonic() + SECONDS + 1
    while time.monotonic() < until:
        writer.step()
        time.sleep(0.0005)
    reports = [results.get(timeout=60) for _ in readers]
    for reader in readers:
        reader.join(60)
    failures = [failure for *_, failure in reports if failure]
    assert not failures, failures[0]
    assert all(reader.exitcode == 0 for reader in readers)
    assert all(passes > 1 for passes, *_ in reports)
    assert min(writer.done.values()) > 0 or SECONDS < 4, writer.done
    left = writer.check()
    assert writer.log.close()
    records = sum(records for _, records, *_ in reports)
    print(f"stress: seed={SEED} writer {writer.done}, {left} records left; readers: {records} read")
