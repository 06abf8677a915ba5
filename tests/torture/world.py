"""A store that is worked with, on any disk.

A scenario works through a :class:`World`, which informs its witness (:mod:`torture.witness`)
before and after each operation. One table serves every part: crash states from a recorded trace,
real kills, and failing calls.

Each value says which offset it was appended at, its serial number, and the serial of the value
before it in the log: a hole, a wrong order and a stale record show by themselves.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from kstore import Log, LogConfig, Store, StoreConfig
from kstore._native.append.encode import BatchBuffer
from kstore._native.format.crc import crc32
from kstore.errors import KStoreError
from kstore.files.files import DISK, Files
from kstore.store.atomic_publish import PartitionPublication, Publication, StagedRange
from torture.witness import Event, TopicPartition, Witness

QUIET = StoreConfig(background=False, num_recovery_threads_per_data_dir=1)
GROUP = "copier"  # whose offsets transactions commit
START_OF_TIME = 1_700_000_000_000
SETTINGS: dict[str, Any] = {
    "segment_bytes": 1500,
    "index_interval_bytes": 200,
    "segment_index_bytes": 240,
    "file_delete_delay_ms": 0,
    "batch_size": 400,
}
VARIED: dict[str, tuple[Any, ...]] = {
    "segment_bytes": (1000, 1500, 1500, 2500),
    "index_interval_bytes": (0, 100, 200, 400),
    "batch_size": (200, 400, 700),
    "batch_compression": ("none", "none", "gzip", "lz4", "zstd"),
}


def paths_of(root: str, dirs: int) -> list[str]:
    """The log directories under a root."""
    return [f"{root}/d{number}" for number in range(dirs)] or [root]


class World:
    """A store that is worked with, on any disk.

    ``tolerant``: errors of kstore are what is being tried; the work continues behind them.
    ``vary``: does the same with more records, of other sizes, with other settings, with syncs,
    checkpoints and rolls in between.
    """

    def __init__(
        self,
        path: str,
        files: Files = DISK,
        say: Callable[[Event], None] = lambda event: None,
        *,
        tolerant: bool = False,
        vary: Random | None = None,
    ) -> None:
        self.path = path
        self.files = files
        self.witness = Witness()
        self.errors: list[KStoreError] = []
        self._say_on = say
        self._tolerant = tolerant
        self._vary = vary
        self._serial = 0
        self._tails: dict[TopicPartition, int] = {}  # serial of the last value
        self._keys: dict[TopicPartition, dict[int, bytes]] = {}  # of the records that have one
        # Values from the witness's end on, where a truncation failed: they may be in the log.
        self._half_cut: dict[TopicPartition, list[bytes]] = {}
        self.store: Store | None = None

    def say(self, *event: Any) -> None:
        self.witness.hear(event)
        self._say_on(event)

    def _try(self, operation: Callable[[], Any]) -> tuple[bool, Any]:
        try:
            return True, operation()
        except KStoreError as error:
            self.errors.append(error)
            if not self._tolerant:
                raise
            return False, None

    def open(self, **settings: Any) -> None:
        config = StoreConfig(background=False, log=LogConfig(**SETTINGS), **settings)
        paths = paths_of(self.path, self.witness.dirs)
        _, self.store = self._try(lambda: Store(paths, config=config, files=self.files))
        for tp, values in list(self._half_cut.items()):
            log = self.log(tp)
            if log is not None:
                del self._half_cut[tp]
                back = values[: max(0, log.end_offset - self.witness.log(tp).end)]
                if back:
                    self._in(tp, back)

    def spread(self, dirs: int) -> None:
        """Over several log directories, from the next opening on."""
        os.makedirs(self.path, exist_ok=True)
        self.say("dirs", dirs)

    def close(self) -> bool:
        store, self.store = self.store, None
        if store is None:
            return False
        done, _ = self._try(store.close)
        # One of several directories may have failed: the marker says that this one is complete.
        paths = paths_of(self.path, self.witness.dirs)
        if done and all(os.path.exists(f"{path}/.kafka_cleanshutdown") for path in paths):
            for tp, history in self.witness.logs.items():
                if self.witness.topics.get(tp[0], ("", None, 0))[0] == "live":
                    self.say("flushed", tp, history.end)
            for group, (low, high, _) in list(self.witness.committed.items()):
                self.say("commit", group, low, high, low)
        return done

    def log(self, tp: TopicPartition = ("t", 0)) -> Log | None:
        if self.store is None:
            return None
        store = self.store
        return self._try(lambda: store[tp[0]][tp[1]])[1]

    # --- topics -------------------------------------------------------------------------------

    def create(self, name: str = "t", partitions: int = 1, **settings: Any) -> None:
        if self.store is None:
            return
        varied = {}
        if self._vary is not None and not name.startswith("__"):
            varied = {key: self._vary.choice(values) for key, values in VARIED.items()}
        store, config = self.store, LogConfig(**{**SETTINGS, **varied, **settings})
        self.say("topic", name, "creating", None, partitions)
        topic_id = f"{name:A<21}A"  # all is the same in every run, but for what uuid4 gives

        def make() -> str | None:
            made = store.create_topic(name, partitions, config=config, topic_id=topic_id)
            return made.topic_id

        done, found = self._try(make)
        if done:
            self.say("topic", name, "live", found, partitions)

    def delete(self, name: str = "t") -> None:
        if self.store is None:
            return
        store = self.store
        _, topic_id, partitions = self.witness.topics.get(name, ("", None, 1))
        self.say("topic", name, "deleting", topic_id, partitions)
        if self._try(lambda: store.delete_topic(name))[0]:
            self.say("topic", name, "gone", topic_id, partitions)

    # --- records ------------------------------------------------------------------------------

    def _values(self, tp: TopicPartition, first: int, count: int, size: int) -> list[bytes]:
        if self.witness.transactions and first > self.witness.log(tp).end:
            self.say("markers", tp, first)  # of what failed half way
        values = []
        tail = self._tails.get(tp, 0)
        for offset in range(first, first + count):
            self._serial += 1
            more = 0 if self._vary is None else self._vary.randrange(-20, 60)
            value = b"%d:%d:%d:" % (offset, self._serial, tail)
            values.append(value + b"v" * max(0, size + more))
            tail = self._serial
        self.say("trying", tp, values)
        return values

    def _now(self) -> int:
        return START_OF_TIME + self._serial

    def _in(self, tp: TopicPartition, values: list[bytes]) -> None:
        self.say("in", tp, values)
        self._tails[tp] = int(values[-1].split(b":")[1])

    def append(
        self, count: int = 1, size: int = 40, tp: TopicPartition = ("t", 0), keys: int = 0
    ) -> None:
        """Records one by one; with so many different keys, one after another."""
        if self._vary is not None:
            count += self._vary.choice((0, 0, 1, 2))
        for _ in range(count):
            log = self.log(tp)
            if log is None:
                return
            offset = log.end_offset
            key = b"%d" % (offset % keys) if keys else None
            values = self._values(tp, offset, 1, size)
            done, _ = self._try(
                lambda log=log, key=key, values=values: log.append(
                    values[0], key=key, timestamp=self._now()
                )
            )
            if done or log.end_offset > offset:  # the flush behind the append failed
                self._in(tp, values)
                if key is not None:
                    self._keys.setdefault(tp, {})[offset] = key
        self._twist(tp)

    def _twist(self, tp: TopicPartition) -> None:
        """Now and then something that the scenario does not ask for."""
        chance = 1.0 if self._vary is None else self._vary.random()
        if chance < 0.08:
            self.flush(tp)
        elif chance < 0.14:
            self.checkpoint()
        elif chance < 0.18:
            self.roll(tp)

    def extend(self, count: int, size: int = 30, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is None:
            return
        first = log.end_offset
        values = self._values(tp, first, count, size)
        self._try(lambda: log.extend(values, timestamp=self._now()))
        got = log.end_offset - first  # an error leaves the batches before it in the log
        if got:
            self._in(tp, values[:got])

    def flush(self, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is None:
            return
        end = log.end_offset
        if self._try(log.flush)[0]:
            self.say("flushed", tp, end)

    def flush_rolled(self, tp: TopicPartition = ("t", 0)) -> None:
        """Sync rolled segments, as a store does in the background after each roll."""
        log = self.log(tp)
        if log is None:
            return
        end = log.segments.views[-1].base_offset
        if self._try(lambda: log._require_writer().flusher.flush_rolled())[0]:
            self.say("flushed", tp, end)

    def commit_in_group(
        self, threads: int = 1, count: int = 4, tp: TopicPartition = ("t", 0)
    ) -> None:
        """Appends that wait for a committer's shared sync."""
        log = self.log(tp)
        if log is None:
            return
        from kstore.log.group_commit import Committer

        committer = Committer(log)
        try:
            for _ in range(count):
                self.append(2, 30, tp)
                end = log.end_offset
                if self._try(lambda end=end: committer.wait(end))[0]:
                    self.say("flushed", tp, end)
        finally:
            self._try(committer.close)

    def roll(self, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is not None:
            self._try(log.roll)

    def checkpoint(self) -> None:
        if self.store is not None:
            self._try(self.store.checkpoint)

    # --- rewriting ----------------------------------------------------------------------------

    def compact(self, tp: TopicPartition = ("t", 0)) -> None:
        """No key may lose its latest value; when it is done, only those are left."""
        log = self.log(tp)
        if log is None:
            return
        limit = log.segments.views[-1].base_offset
        keys = {at: key for at, key in self._keys.get(tp, {}).items() if at < limit}
        latest = {key: at for at, key in sorted(keys.items())}
        superseded = frozenset(at for at, key in keys.items() if latest[key] != at)
        self.say("compacting", tp, superseded)
        if self._try(log.compact)[0]:
            self.say("compacted", tp, superseded)

    def recompress(self, codec: str, tp: TopicPartition = ("t", 0), *, roll: bool = False) -> None:
        """Every record stays."""
        log = self.log(tp)
        if log is not None:
            self._try(lambda: log.recompress(codec, force=True, roll=roll))

    def reindex(self, interval: int, tp: TopicPartition = ("t", 0)) -> None:
        """With another ``index.interval.bytes``, so that every index becomes another one."""
        log = self.log(tp)
        if log is not None:
            changed = replace(log.config, index_interval_bytes=interval)
            if self._try(lambda: log.configure(changed))[0]:
                self._try(log.reindex)

    def seal(self, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is not None:
            self._try(log.seal)

    def move(self, number: int, tp: TopicPartition = ("t", 0)) -> None:
        """Into another log directory; then all of it is on disk."""
        if self.store is None or self.log(tp) is None:
            return
        store, end = self.store, self.witness.log(tp).end
        path = paths_of(self.path, self.witness.dirs)[number]
        is_there = os.path.isdir(f"{path}/{tp[0]}-{tp[1]}")  # then nothing is copied
        if self._try(lambda: store.move(*tp, path))[0] and not is_there:
            self.say("flushed", tp, end)

    def transact(
        self,
        topic_partitions: list[TopicPartition],
        *,
        commit: bool,
        roll: bool = False,
        offsets: bool = False,
    ) -> None:
        """A transaction over partitions, its records in two batches each.

        ``offsets``: it commits an offset of a group too, the next for each transaction.
        """
        if self.store is None:
            return
        store, number = self.store, len(self.witness.transactions)
        logs = {tp: self.log(tp) for tp in topic_partitions}
        done, producer = self._try(lambda: store.transactional_producer("id"))
        if not done or None in logs.values() or not self._try(producer.begin_transaction)[0]:
            return
        parts: dict[TopicPartition, list[bytes]] = {tp: [] for tp in topic_partitions}
        offset = number + 1 if offsets else None

        def note(state: str) -> None:
            self.say("transaction", number, state, parts, offset)

        def commit_offset(offset: int) -> None:
            producer.send_offsets_to_transaction({("t", 0): offset}, GROUP)
            producer.flush()  # into the log, where an abort must hide it

        def fail() -> None:
            note("aborting")
            self._try(producer.abort_transaction)

        for turn in range(2):
            for tp, log in logs.items():
                assert log is not None
                values = self._values(tp, log.end_offset, 2, 30)
                parts[tp] += values
                note("open")

                def work(tp: TopicPartition = tp, values: list[bytes] = values) -> None:
                    for value in values:
                        producer.send(tp[0], value, partition=tp[1], timestamp=self._now())
                    producer.flush()

                if not self._try(work)[0]:
                    fail()
                    return
                self._in(tp, values)
            if roll and turn == 0:
                self.roll(topic_partitions[0])
        if offset is not None and not self._try(lambda: commit_offset(offset))[0]:
            fail()
            return
        note("committing" if commit else "aborting")
        end = producer.commit_transaction if commit else producer.abort_transaction
        if self._try(end)[0]:
            note("committed" if commit else "aborted")
            for tp, log in logs.items():
                assert log is not None
                if commit:
                    self.say("flushed", tp, self.witness.log(tp).end)
                self.say("markers", tp, log.end_offset)

    def publish(
        self, topic_partitions: list[TopicPartition], token: str, counts: tuple[int, ...]
    ) -> None:
        """Batches of two records each, staged and published: so many in the file that all
        partitions share, so many in each partition's own, which may become a segment, and so on.
        """
        if self.store is None:
            return
        store = self.store
        parts: dict[TopicPartition, list[bytes]] = {}
        for tp in topic_partitions:
            log = self.log(tp)
            if log is None:
                return
            parts[tp] = self._values(tp, log.end_offset, 2 * sum(counts), 40)
        self.say("publication", parts)
        names = [f"kstore.staged.{token}"]
        if self._try(lambda: self._publish(store, token, parts, counts, names))[0]:
            for tp, values in parts.items():
                self._in(tp, values)
                self.say("flushed", tp, self.witness.log(tp).end)
        else:  # as the sink does: what could not be undone is for the next writer
            self.close()
            self.open()
            self._look_for(parts)

    def _look_for(self, parts: dict[TopicPartition, list[bytes]]) -> None:
        """A caller that got an error does not know: the switch may have come. All, or nothing."""
        ends = {tp: log.end_offset for tp in parts if (log := self.log(tp)) is not None}
        shown = {tp: end - self.witness.log(tp).end == len(parts[tp]) for tp, end in ends.items()}
        assert len(set(shown.values())) <= 1, shown
        for tp in [tp for tp in shown if shown[tp]]:
            self._in(tp, parts[tp])

    def _publish(
        self,
        store: Store,
        token: str,
        parts: dict[TopicPartition, list[bytes]],
        counts: tuple[int, ...],
        names: list[str],
    ) -> None:
        staged = [self._stage(tp, values, counts, names) for tp, values in parts.items()]
        root = paths_of(self.path, self.witness.dirs)[0]
        publication = Publication(self.files, root, token, None, 0, self._now(), staged)
        find = lambda topic, partition: store[topic][partition]  # noqa: E731
        try:
            publication.begin(find)
            publication.append(find)
            publication.show(None)
        except BaseException:
            publication.undo(find, store.paths)
            raise
        publication.clear(find)

    def _stage(
        self, tp: TopicPartition, values: list[bytes], counts: tuple[int, ...], names: list[str]
    ) -> PartitionPublication:
        root, ranges, first = paths_of(self.path, self.witness.dirs)[0], [], 0
        for turn, count in enumerate(counts):
            own = turn % 2 == 1
            if own:
                names.append(f"{names[0]}.{len(names)}")
            data = b"".join(
                self._batch(values[at : at + 2]) for at in range(first, first + 2 * count, 2)
            )
            first += 2 * count
            name = names[-1] if own else names[0]
            path = f"{root}/{name}"
            position = 0 if self.files.kind(path) is None else self.files.size_of(path)
            fd = self.files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                self.files.write(fd, data)
                if own:
                    self.files.fdatasync(fd)
            finally:
                self.files.close(fd)
            ranges.append(StagedRange(name, position, len(data), crc32(data), own))
        return PartitionPublication(*tp, ranges, len(values))

    def _batch(self, values: list[bytes]) -> bytes:
        buffer = BatchBuffer()
        for value in values:
            buffer.put(value, None, None, self._now())
        return buffer.to_bytes()

    # --- shortening ---------------------------------------------------------------------------

    def truncate(self, offset: int, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is None:
            return
        self.say("cutting", tp, offset)
        before = list(self.witness.log(tp).acked)
        done, _ = self._try(lambda: log.truncate_to(offset))
        end = min(log.end_offset, self.witness.log(tp).end)
        self.say("cut", tp, end)
        if not done:
            self._half_cut[tp] = before[len(self.witness.log(tp).acked) :]
        acked = [value for value in self.witness.log(tp).acked if value]  # b"": a marker
        self._tails[tp] = int(acked[-1].split(b":")[1]) if acked else 0

    def delete_records(self, offset: int, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is None:
            return
        self.say("deleting", tp, log.end_offset if offset == -1 else offset)
        self._try(lambda: log.delete_records(offset))

    def retain(self, tp: TopicPartition = ("t", 0)) -> None:
        log = self.log(tp)
        if log is None:
            return
        start = self.witness.log(tp).start
        self.say("deleting", tp, log.segments.views[-1].base_offset)
        self._try(log.apply_retention)
        self.say("deleted", tp, max(start, log.start_offset))

    # --- groups -------------------------------------------------------------------------------

    def commit(self, offset: int, group: str = "g", tp: TopicPartition = ("t", 0)) -> None:
        if self.store is None:
            return
        store = self.store
        low, _, synced = self.witness.committed.get(group, (0, 0, 0))
        self.say("commit", group, low, offset, synced)

        def work() -> None:
            with store.consumer(tp[0], group=group) as consumer:
                consumer.commit({tp: offset})

        if self._try(work)[0]:
            self.say("commit", group, offset, offset, synced)
