"""Copying a topic batch by batch: what to ask for, what to append, what to refuse.

The copy goes by a follower's rules (Kafka's ReplicaFetcherThread): whole batches as the leader
has them on disk, offsets and leader epochs kept; producer states, transaction indexes and offset
indexes are made here from the batches. Where the local log begins follows the leader's. Unlike
a follower it never truncates what it has: a source that is not the local copy's any more is
refused.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kstore._native.frames import scan
from kstore.config import LogConfig
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    SourceChangedError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.mirror.answers import (
    EARLIEST,
    LATEST,
    OFFSET_OUT_OF_RANGE,
    PASSING,
    Fetched,
    Position,
    TopicDescription,
)

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store import Store
    from kstore.topic import Topic

Progress = Callable[[int, int, str], None]

_WAIT_MS = 500  # how long a leader may wait for new records
_FETCH_BYTES = 32 << 20
_PARTITION_BYTES = 4 << 20
_LARGEST_FETCH = 1 << 30
_PATIENCE = 30.0  # seconds without an answer that helps
_PAUSE = 0.2
_STEP = 0.2  # seconds of sleep at a time
_QUIET = 2  # answers without a byte that tell that a leader has nothing up to its end


class Source(Protocol):
    """What the copy needs of a cluster: :class:`kstore.mirror.source.KafkaSource`."""

    @property
    def topic(self) -> str: ...
    def describe(self) -> TopicDescription: ...
    def offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]: ...
    def fetch(
        self,
        positions: Mapping[int, Position],
        *,
        max_wait_ms: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> dict[int, Fetched]: ...
    def sentence(self, code: int) -> str: ...


@dataclass(slots=True)
class PartitionReport:
    """What became of one partition; offsets as they are in the local log now."""

    partition: int
    start_offset: int = 0
    end_offset: int = 0
    first_offset: int = 0
    """Where this run went on."""
    bytes: int = 0
    """Of the batches that this run appended."""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MirrorReport:
    """What a run did. ``created``: the topic was not here before."""

    topic: str
    topic_id: str | None
    created: bool
    partitions: list[PartitionReport]
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)


@dataclass(slots=True)
class _Copy:
    """A partition on its way."""

    log: "Log"
    report: PartitionReport
    target: int = 0  # the source's end, as it was asked last
    source_start: int = 0
    epoch: int = -1  # leader epoch of the last batch
    room: int = field(
        default_factory=lambda: _PARTITION_BYTES
    )  # bytes to ask for; more where a batch is larger
    epochs_fit: bool = True  # whether the leader knows its epochs as far back as ours go
    quiet: int = 0  # answers in a row without a byte
    heard: float = 0.0  # when the partition last had an answer that helped


class Mirror:
    """A local copy of a topic, in a store that is open for writing. Used by one thread.

    Parameters
    ----------
    partitions
        Which to copy; all by default. The others stay as they are, or empty.
    keep_deleted
        Keep the records that the source deletes after they were copied. By default the local
        log begins where the source's does, as a follower's.
    max_bytes_per_second
        How fast to copy; None: as fast as it goes.
    progress
        Called with (offsets copied, offsets to copy, what is being copied).
    """

    def __init__(
        self,
        store: "Store",
        source: Source,
        *,
        partitions: Iterable[int] | None = None,
        keep_deleted: bool = False,
        max_bytes_per_second: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if max_bytes_per_second is not None and max_bytes_per_second <= 0:
            raise InvalidConfigError(
                f"max_bytes_per_second must be above 0, not {max_bytes_per_second!r}"
            )
        self._store = store
        self._source = source
        self._wanted = None if partitions is None else sorted(set(partitions))
        self._keep = keep_deleted
        self._pace = max_bytes_per_second
        self._progress = progress
        self._copies: dict[int, _Copy] = {}
        self._started = time.monotonic()
        self._topic_id: str | None = None
        self._created = False
        self._begun = 0  # offsets that were here before

    # --- the plan -------------------------------------------------------------------------

    def run(
        self, *, follow: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> MirrorReport:
        """Copy up to where the source ends now, or on and on until ``stop()``.

        What was copied stays, whatever happens; the next run goes on behind it.

        Raises
        ------
        SourceChangedError
            The source was truncated or made anew, or something else was appended here.
        UnknownTopicOrPartitionError
            No such topic or partition in the cluster.
        SourceError
            The cluster cannot be asked.
        CorruptRecordError
            The source sent a batch whose bytes are wrong; what came before it was copied.
        """
        self._started = time.monotonic()
        about = self._source.describe()
        self._created = about.name not in self._store
        topic = self._local_topic(about)
        self._topic_id = topic.topic_id
        numbers = self._numbers(about)
        self._copies = {
            number: _Copy(topic[number], PartitionReport(number), heard=self._started)
            for number in numbers
        }
        for each in self._copies.values():
            each.report.first_offset = each.log.end_offset
        self._look_at(numbers)
        self._begun = self._done()
        while not stop():
            due = [n for n, c in self._copies.items() if follow or c.log.end_offset < c.target]
            if not due:
                break
            self._round(due)
        return self.report()

    def report(self) -> MirrorReport:
        """What was done so far; for after an interrupted :meth:`run`, too."""
        for each in self._copies.values():
            each.report.start_offset = each.log.start_offset
            each.report.end_offset = each.log.end_offset
        return MirrorReport(
            self._source.topic,
            self._topic_id,
            self._created,
            sorted((each.report for each in self._copies.values()), key=lambda r: r.partition),
            time.monotonic() - self._started,
        )

    def _local_topic(self, about: TopicDescription) -> "Topic":
        """The topic here: made with the source's id, or the one that an earlier run made."""
        if about.name not in self._store:
            # A mirror's log is shortened by its source alone.
            config = LogConfig(retention_ms=-1, retention_bytes=-1, cleanup_policy="delete")
            return self._store.create_topic(
                about.name, about.partition_count, config=config, topic_id=about.topic_id
            )
        topic = self._store[about.name]
        if about.topic_id is not None and topic.topic_id != about.topic_id:
            raise SourceChangedError(
                f"topic {about.name!r} of the cluster has the id {about.topic_id}, the one here "
                f"{topic.topic_id}: the source was deleted and made anew, or this is no copy of "
                "it. Mirror into another directory, or delete the topic here first",
                path=self._store.paths[0],
            )
        if len(topic) != about.partition_count:
            if len(topic) < about.partition_count:
                return self._store.add_partitions(about.name, about.partition_count)
            raise SourceChangedError(
                f"topic {about.name!r} has {about.partition_count} partitions in the cluster and "
                f"{len(topic)} here: it is another topic. Mirror into another directory",
                path=self._store.paths[0],
            )
        return topic

    def _numbers(self, about: TopicDescription) -> list[int]:
        there = range(about.partition_count)
        for number in self._wanted or ():
            if number not in there:
                raise UnknownTopicOrPartitionError(
                    f"topic {about.name!r} has {about.partition_count} partitions, 0 to "
                    f"{about.partition_count - 1}; there is no partition {number}"
                )
        return list(there) if self._wanted is None else self._wanted

    def _look_at(self, numbers: Sequence[int]) -> None:
        """Ask where the source begins and ends, and prepare the local logs for going on."""
        starts = self._source.offsets(numbers, EARLIEST)
        ends = self._source.offsets(numbers, LATEST)
        for number in numbers:
            copy = self._copies[number]
            self._check_bounds(number, copy, starts[number], ends[number])
            copy.source_start, copy.target = starts[number], ends[number]
            self._check_end(number, copy)
            tail = self._tail(copy.log)
            copy.epoch = -1 if tail is None else tail[2]
            if tail is not None and tail[0] >= copy.source_start:
                self._check_tail(number, copy, tail)
            self._follow_start(copy)

    def _check_bounds(self, number: int, copy: _Copy, start: int, end: int) -> None:
        """No log begins behind its end; and by its beginning records are deleted here."""
        if not 0 <= start <= end:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: the cluster says that it begins at "
                f"{start} and ends at {end}, which cannot be. Nothing was changed here",
                path=copy.log.path,
            )

    def _check_end(self, number: int, copy: _Copy) -> None:
        end = copy.log.end_offset
        if end > copy.target:
            raise SourceChangedError(
                f"partition {number} of {self._source.topic!r} ends at {copy.target} in the "
                f"cluster and at {end} here: the source was truncated or made anew, or something "
                f"else was appended here. {_WAYS_OUT}",
                path=copy.log.path,
                offset=copy.target,
            )

    def _tail(self, log: "Log") -> tuple[int, ...] | None:
        """What tells the local log's last batch: offsets, epoch, producer, count, checksum."""
        if log.end_offset == log.start_offset:
            return None
        found = log.read(log.end_offset - 1)
        return None if found is None else _last_batch(found)

    def _check_tail(self, number: int, copy: _Copy, tail: tuple[int, ...]) -> None:
        """Compare the last batch that is here with the source's; compaction may have thinned it."""
        answers = self._ask({number: Position(tail[0])}, max_wait_ms=0, room=1)
        theirs = _first_batch(answers[number].records) if number in answers else None
        if theirs is None or theirs[0] > tail[0]:
            return  # compacted away, or nothing was said: the epochs will tell
        same = theirs[:-2] == tail[:-2]
        if not same or (theirs[-2] == tail[-2] and theirs[-1] != tail[-1]):
            raise SourceChangedError(
                f"the last batch of partition {number} of {self._source.topic!r} is not the one "
                f"that the source has at its offset: something else was appended here, or the "
                f"source was made anew. {_WAYS_OUT}",
                path=copy.log.path,
                offset=tail[0],
            )

    def _follow_start(self, copy: _Copy) -> None:
        """Let the local log begin where the source's does; say so where that leaves a gap."""
        log, start = copy.log, copy.source_start
        end = log.end_offset
        if start > end > log.start_offset:
            copy.report.notes.append(
                f"the source deleted offsets {end} to {start - 1} before they were copied"
            )
        if start > end and start < copy.target:
            return  # the first batch will tell where the log goes on
        if start > end:
            log._writing().skip_to(start)
        self._raise_start(copy)

    def _raise_start(self, copy: _Copy) -> None:
        log, start = copy.log, copy.source_start
        if self._keep or start <= log.start_offset:
            return
        if log.start_offset < copy.report.first_offset:
            copy.report.notes.append(
                f"the log start moved from {log.start_offset} to {start}, as in the source"
            )
        log.delete_records(start)

    # --- copying --------------------------------------------------------------------------

    def _ask(
        self, positions: Mapping[int, Position], *, max_wait_ms: int, room: int
    ) -> dict[int, Fetched]:
        total = max(_FETCH_BYTES, room)
        if self._pace is not None:
            total = room = max(min(room, self._pace), 1)
        return self._source.fetch(
            positions, max_wait_ms=max_wait_ms, max_bytes=total, partition_max_bytes=room
        )

    def _round(self, due: list[int]) -> None:
        """One fetch from every leader, and what to do with the answers."""
        positions = {}
        for number in due:
            copy = self._copies[number]
            begins = max(copy.log.end_offset, copy.source_start)
            known = copy.epochs_fit and begins == copy.log.end_offset
            positions[number] = Position(begins, copy.epoch if known else -1)
        room = max(self._copies[number].room for number in due)
        answers = self._ask(positions, max_wait_ms=_WAIT_MS, room=room)
        silent = not any(answer.records or answer.error for answer in answers.values())
        troubled = [number for number in due if not self._take(number, answers.get(number), silent)]
        self._tell(due[0])
        if troubled:
            self._wait_for(troubled)
        else:
            self._slow_down()
        # Leaders fill an answer in the order of the request: let the others come first next time.
        for number in due:
            if answers.get(number) is not None and answers[number].records:
                self._copies[number] = self._copies.pop(number)

    def _take(self, number: int, answer: Fetched | None, silent: bool) -> bool:
        """Append what came for a partition; False where it has to be asked for again."""
        copy = self._copies[number]
        if answer is None:
            return False
        if answer.diverged is not None:
            raise SourceChangedError(
                f"partition {number} of {self._source.topic!r} parts from the copy here at offset "
                f"{answer.diverged}: the source was truncated (an unclean leader election, say). "
                f"{_WAYS_OUT}",
                path=copy.log.path,
                offset=answer.diverged,
            )
        if answer.error == OFFSET_OUT_OF_RANGE:
            self._look_at([number])
            if copy.source_start <= copy.log.end_offset <= copy.target:
                copy.epochs_fit = False  # it is the epoch that the leader does not know
            return False
        if answer.error:
            return self._refused(number, answer.error)
        if answer.log_start_offset >= 0 and answer.high_watermark >= 0:
            self._check_bounds(number, copy, answer.log_start_offset, answer.high_watermark)
        copy.heard = time.monotonic()
        copy.target = max(copy.target, answer.high_watermark)
        if answer.records:
            self._append(number, copy, answer.records)
            copy.quiet = 0
        elif silent and copy.log.end_offset < answer.high_watermark:
            copy.quiet += 1
            if copy.quiet >= _QUIET:  # compaction left nothing up to the source's end
                copy.log._writing().skip_to(answer.high_watermark)
        if answer.log_start_offset > copy.source_start:
            copy.source_start = answer.log_start_offset
            self._follow_start(copy)
        return True

    def _append(self, number: int, copy: _Copy, records: bytes) -> None:
        log = copy.log
        first = _first_batch(records)
        if first is not None and log.end_offset < copy.source_start:
            # The batch that holds the source's start may begin before it; of messages v0 and v1
            # only the last offset is told, if they are wrapped.
            log._writing().skip_to(max(log.end_offset, min(first[0], copy.source_start)))
        try:
            info = log.append_as_follower(records)
        except CorruptRecordError as error:
            good = error.position or 0
            if good > 0:
                info = log.append_as_follower(records[:good])
                copy.report.bytes += info.size
            raise CorruptRecordError(
                f"partition {number} of {self._source.topic!r}: the source sent a batch that is "
                f"wrong ({error.reason}); what came before it was copied",
                path=log.path,
                offset=error.offset,
            ) from error
        if info.size == 0:  # a batch larger than what was asked for
            if copy.room >= _LARGEST_FETCH:
                raise CorruptRecordError(
                    f"partition {number} of {self._source.topic!r}: the source sent no whole batch",
                    path=log.path,
                    offset=log.end_offset,
                )
            copy.room *= 2
            return
        copy.report.bytes += info.size
        last = _last_batch(records)
        copy.epoch = copy.epoch if last is None else last[2]
        self._raise_start(copy)

    def _refused(self, number: int, code: int) -> bool:
        if code not in PASSING:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: the cluster refuses: "
                f"{self._source.sentence(code)}"
            )
        return False

    def _wait_for(self, troubled: list[int]) -> None:
        """Ask again who leads; give up on a partition of which nothing was heard too long."""
        for number in troubled:
            if time.monotonic() - self._copies[number].heard > _PATIENCE:
                raise SourceError(
                    f"partition {number} of {self._source.topic!r} has had no leader that answers "
                    f"for {_PATIENCE:.0f} seconds; what was copied stays, run it again later"
                )
        time.sleep(_PAUSE)
        try:
            about = self._source.describe()
        except UnknownTopicOrPartitionError as error:
            raise SourceChangedError(
                f"topic {self._source.topic!r} was deleted in the cluster; what was copied stays"
            ) from error
        self._local_topic(about)

    def _slow_down(self) -> None:
        copied = sum(each.report.bytes for each in self._copies.values())
        while self._pace is not None:
            ahead = copied / self._pace - (time.monotonic() - self._started)
            if ahead <= 0:
                return
            time.sleep(min(ahead, _STEP))

    def _done(self) -> int:
        return sum(max(each.log.end_offset, each.source_start) for each in self._copies.values())

    def _tell(self, number: int) -> None:
        if self._progress is None:
            return
        done = self._done() - self._begun
        total = sum(each.target for each in self._copies.values()) - self._begun
        self._progress(done, max(done, total), f"{self._source.topic}-{number}")


_WAYS_OUT = (
    "Nothing was changed here. Mirror into another directory, or delete the topic here first"
)


def _row(data: object, *, last: bool) -> tuple[int, ...] | None:
    """(first, last offset, leader epoch, producer, its epoch, sequence, records, checksum)."""
    table = scan(data, check_crc=False)  # type: ignore[arg-type]
    if len(table) == 0:
        return None
    n = len(table) - 1 if last else 0
    return (
        table.base_offset[n],
        table.last_offset[n],
        table.leader_epoch[n],
        table.producer_id[n],
        table.producer_epoch[n],
        table.base_sequence[n],
        table.count[n],
        table.crc[n],
    )


def _first_batch(data: object) -> tuple[int, ...] | None:
    return _row(data, last=False)


def _last_batch(data: object) -> tuple[int, ...] | None:
    return _row(data, last=True)
