"""A real log beside a trivial one in memory: whatever is done to both, they agree.

Any order of appends in all their forms, rolls, reads, scans, truncations, deletions, retention,
flushes, parking, clean reopening and kills. A reader in another process's stead watches, and at
the end the plain oracle reads the directory.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kstore.errors import CorruptRecordError, OffsetOutOfRangeError, RecordListTooLargeError
from kstore.log.log import Log
from kstore.record import Record
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import read_log as oracle_read
from support.disks import HastyDisk
from support.logs import log_bytes, open_log, read_log

TORTURE = bool(os.environ.get("KSTORE_TORTURE"))
EXAMPLES, STEPS = (1000, 60) if TORTURE else (100, 40)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
START_OF_TIME = 1_700_000_000_000

values = st.one_of(st.none(), st.binary(max_size=120), st.just(b"x" * 700))
keys = st.one_of(st.none(), st.binary(max_size=8))
headers = st.lists(st.tuples(st.text(max_size=4), st.one_of(st.none(), st.binary(max_size=4))))
Row = tuple[int, bytes | None, bytes | None, int]  # timestamp, key, value, leader epoch


def shown(record: Record) -> Row:
    return record.timestamp, record.key, record.value, record.leader_epoch


class LogMachine(RuleBasedStateMachine):
    """The model: offset to row, in batches that live and die as one; start, end, recovery point."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="kstore-machine-"))
        self.directory = self.root / "t-0"
        self.now = START_OF_TIME
        self.rows: dict[int, Row] = {}
        self.batch_of: dict[int, range] = {}
        self.start = self.end = 0
        self.epoch = 0
        self.settings: dict[str, object] = {}

    @initialize(
        segment=st.sampled_from([1500, 4000, 100_000]),
        interval=st.sampled_from([0, 300, 4096]),
        index=st.sampled_from([60, 10_000]),
        codec=st.sampled_from(list(CODECS)),
        retention=st.sampled_from([{}, {"retention_ms": 5000}, {"retention_bytes": 3000}]),
        flush=st.sampled_from([{}, {"flush_messages": 7}]),
    )
    def begin(
        self,
        segment: int,
        interval: int,
        index: int,
        codec: str,
        retention: dict[str, object],
        flush: dict[str, object],
    ) -> None:
        self.settings = {
            "segment_bytes": segment,
            "index_interval_bytes": interval,
            "segment_index_bytes": index,
            "batch_compression": codec,
            "batch_size": 600,
            "file_delete_delay_ms": 1000,
            "segment_ms": 60_000,
            **retention,
            **flush,
        }
        self.open(clean=True, recovery_point=0)
        self.reader = read_log(self.directory)

    def open(self, *, clean: bool, recovery_point: int) -> None:
        self.log: Log = open_log(
            self.directory,
            files=HastyDisk(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
            clock=lambda: self.now,
            **self.settings,
        )

    # --- what the model does ---------------------------------------------------------------

    def take(self, rows: list[Row], first: int | None = None) -> None:
        """Rows come into the model; the file shows which of them share a batch."""
        first = self.end if first is None else first
        self.rows.update(zip(range(first, first + len(rows)), rows, strict=True))
        for offset in range(first, first + len(rows)):
            self.batch_of[offset] = range(offset, offset + 1)
        self.end = first + len(rows)

    def one_batch(self, first: int, last: int) -> None:
        for offset in range(first, last + 1):
            self.batch_of[offset] = range(first, last + 1)

    def learn_batches(self, first: int) -> None:
        """The log alone decides where an extend's batches end: taken from the file, checked."""
        for batch in oracle_read(log_bytes(self.directory), decode=False).batches:
            if batch.base_offset >= first:
                assert batch.size <= 700 + 61 + 100
                self.one_batch(batch.base_offset, batch.last_offset)

    def forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self.rows[offset], self.batch_of[offset]

    # --- appending -------------------------------------------------------------------------

    @rule(value=values, key=keys, headers=headers, late=st.integers(0, 3000))
    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes | None]],
        late: int,
    ) -> None:
        when = self.now - late
        assert self.log.append(value, key=key, headers=headers, timestamp=when) == self.end
        self.take([(when, key, value, self.epoch)])

    @rule(several=st.lists(values, max_size=20))
    def extend(self, several: list[bytes | None]) -> None:
        first = self.end
        assert self.log.extend(several) == range(first, first + len(several))
        self.take([(self.now, None, value, self.epoch) for value in several])
        self.learn_batches(first)

    @rule(several=st.lists(st.tuples(keys, values), min_size=1, max_size=8))
    def extend_records(self, several: list[tuple[bytes | None, bytes | None]]) -> None:
        first = self.end
        records = [Record(n, self.now - n, k, v) for n, (k, v) in enumerate(several)]
        self.log.extend(records)
        self.take([(self.now - n, k, v, self.epoch) for n, (k, v) in enumerate(several)])
        self.learn_batches(first)

    @rule(
        several=st.lists(st.tuples(keys, values), min_size=1, max_size=6),
        codec=st.sampled_from(list(CODECS.values())),
    )
    def lead(self, several: list[tuple[bytes | None, bytes | None]], codec: int) -> None:
        plain = [PlainRecord(n, self.now + n, k, v) for n, (k, v) in enumerate(several)]
        batch = oracle.batch(plain, codec=codec)
        if len(batch) > self.log.config.segment_bytes:
            with pytest.raises(RecordListTooLargeError):
                self.log.append_as_leader(batch)
            return
        info = self.log.append_as_leader(batch)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(plain) - 1)
        first = self.end
        self.take([(r.timestamp, r.key, r.value, self.epoch) for r in plain])
        self.one_batch(first, self.end - 1)

    @rule(
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        gap=st.sampled_from([0, 0, 3]),
        raised=st.sampled_from([0, 0, 1]),
        codec=st.sampled_from([0, 0, 4]),
        cut=st.booleans(),
    )
    def follow(self, sizes: list[int], gap: int, raised: int, codec: int, cut: bool) -> None:
        first = self.end + gap
        self.epoch += raised
        data = b""
        offset = first
        for size in sizes:
            rows = [PlainRecord(offset + n, self.now, b"k", b"f%d" % n) for n in range(size)]
            data += oracle.batch(rows, leader_epoch=self.epoch, codec=codec)
            offset += size
        complete = data
        if cut:  # the end of a fetch: not there yet
            data += oracle.batch([PlainRecord(offset, 1, None, b"cut")])[:-3]
        info = self.log.append_as_follower(data)
        assert info == (first, offset - 1, self.now, len(complete))
        self.take(
            [(self.now, b"k", b"f%d" % n, self.epoch) for s in sizes for n in range(s)], first
        )
        at = first
        for size in sizes:
            self.one_batch(at, at + size - 1)
            at += size

    @precondition(lambda self: self.end > 0)
    @rule()
    def follow_backwards(self) -> None:
        old = oracle.batch([PlainRecord(self.end - 1, 1, None, b"again")])
        with pytest.raises(CorruptRecordError):
            self.log.append_as_follower(old)

    # --- everything else that changes --------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(share=st.floats(0, 1.1))
    def truncate(self, share: float) -> None:
        offset = int(self.end * share)
        if offset >= self.end:
            self.log.truncate_to(offset)
            return
        self.log.truncate_to(offset)
        gone = [o for o in self.rows if self.batch_of[o][-1] >= offset]
        self.forget(gone)
        self.end = offset
        self.start = min(self.start, offset)
        if self.log.size == 0:  # inside the first batch: the log begins at offset
            self.start = offset
        assert self.log.recovery_point <= offset
        self.reread_epoch()

    def reread_epoch(self) -> None:
        """A cut may take epochs back, never below that of a record that is still there."""
        latest = self.log._writer.state.epochs.latest
        epoch = 0 if latest is None else latest.epoch
        assert max((row[3] for row in self.rows.values()), default=0) <= epoch <= self.epoch
        self.epoch = epoch

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = int(self.end * share)
        assert self.log.delete_records(offset) == max(offset, self.start)
        self.start = max(self.start, offset)
        self.forget([o for o in self.rows if o < self.start])

    @rule()
    def retain(self) -> None:
        before = self.log.segments.views
        count = self.log.apply_retention()
        if "retention_ms" not in self.settings and "retention_bytes" not in self.settings:
            # Only segments that the log start had left behind.
            assert all(view.next_offset <= self.start for view in before[:count])
        for view in before[:count]:
            mine = [r for o, r in self.rows.items() if view.base_offset <= o < view.next_offset]
            if "retention_ms" in self.settings and mine:
                assert max(row[0] for row in mine) < self.now - 5000
        self.start = max(self.start, self.log.start_offset)
        self.forget([o for o in self.rows if o < self.start])

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed()

    def flushed(self) -> None:
        """The recovery point is the end, or the end of data where only a gap lies between."""
        point = self.log.recovery_point
        assert max(self.rows, default=-1) < point <= self.end or point < self.start

    @rule()
    def park(self) -> None:
        self.log.park()

    @rule()
    def reopen(self) -> None:
        assert self.log.close()
        self.open(clean=True, recovery_point=0)
        self.learn_end()
        self.flushed()

    @rule(torn=st.sampled_from([0, 0, 1, 17, 60, 61]))
    def kill(self, torn: int) -> None:
        """The process dies: nothing is closed; perhaps in the middle of an append."""
        point = self.log.recovery_point
        active = self.directory / f"{self.log.segments.views[-1].base_offset:020d}.log"
        del self.log
        if torn:
            lost = oracle.batch([PlainRecord(self.end, 1, None, b"never acknowledged")])
            with active.open("ab") as file:
                file.write(lost[:torn])
        self.open(clean=False, recovery_point=point)
        assert self.log.recovery is not None
        assert self.log.recovery.cut_size == torn
        if torn and any(lost[:torn]):  # zeros are not kept
            assert self.log.recovery.kept_in is not None
            assert Path(self.log.recovery.kept_in).read_bytes() == lost[:torn]
        self.learn_end()

    def learn_end(self) -> None:
        """As in Kafka, an end that no batch stands behind (a gap after a cut) is not kept."""
        last = max(self.rows, default=self.start - 1)
        assert last + 1 <= self.log.end_offset <= self.end
        self.end = self.log.end_offset
        self.reread_epoch()

    # --- reading -----------------------------------------------------------------------------

    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end + 1))
        row = self.rows.get(offset)
        if row is None or offset < self.start:
            with pytest.raises(OffsetOutOfRangeError):
                self.log[offset]
        else:
            assert shown(self.log[offset]) == row

    @rule(low=st.floats(0, 1), high=st.floats(0, 1))
    def slice(self, low: float, high: float) -> None:
        start, stop = int(low * self.end), int(high * self.end)
        if start < min(self.start, stop):
            with pytest.raises(OffsetOutOfRangeError):
                self.log[start:stop]
            start = self.start
        found = {r.offset: shown(r) for r in self.log.view(start, stop)}
        assert found == {o: r for o, r in self.rows.items() if start <= o < stop}

    @rule(low=st.floats(0, 1), limit=st.sampled_from([0, 100, 1 << 20]))
    def slice_of_bytes(self, low: float, limit: int) -> None:
        offset = max(self.start, int(low * self.end))
        found = self.log.read(offset, limit)
        if found is None:
            assert not any(o >= offset for o in self.rows)
            return
        first = oracle_read(bytes(found)).batches[0]
        assert first.last_offset >= offset
        assert first.last_offset == self.batch_of[min(o for o in self.rows if o >= offset)][-1]
        assert found.size <= max(limit, first.size)

    @rule(threads=st.sampled_from([1, 2]))
    def scan(self, threads: int) -> None:
        found = {
            int(offset): (int(when), key, value)
            for part in self.log.view().scan(threads=threads)
            for offset, when, key, value in zip(
                part.offsets, part.timestamps, part.keys, part.values, strict=True
            )
        }
        assert found == {o: row[:3] for o, row in self.rows.items()}

    @rule(ago=st.integers(-2000, 70_000))
    def by_time(self, ago: int) -> None:
        when = self.now - ago
        expected = min((o for o, row in self.rows.items() if row[0] >= when), default=self.end)
        assert self.log.offset_at(when) == expected

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert {r.offset: shown(r) for r in self.log} == self.rows

    @precondition(lambda self: hasattr(self, "reader"))
    @rule()
    def reader_beside(self) -> None:
        seen = {r.offset: shown(r) for r in self.reader if r.offset >= self.start}
        assert seen == self.rows
        assert self.reader.end_offset <= self.end

    def teardown(self) -> None:
        try:
            if hasattr(self, "log"):
                assert self.log.close()
                assert self.log.verify().ok
                plain = oracle_read(log_bytes(self.directory))
                assert plain.tail_reason is None
                found = {
                    record.offset: (record.timestamp, record.key, record.value, batch.leader_epoch)
                    for batch in plain.batches
                    for record in batch.records
                }
                assert {o: r for o, r in found.items() if o >= self.start} == self.rows
        finally:
            shutil.rmtree(self.root, ignore_errors=True)


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=not TORTURE,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if TORTURE else [])],
)
