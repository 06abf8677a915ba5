"""Copying a topic batch by batch: what to ask for, what to append, what to refuse.

The copy follows a follower's rules (Kafka's ReplicaFetcherThread): complete batches as the leader
has them on disk, offsets and leader epochs kept; producer state, transaction indexes and offset
indexes are rebuilt locally from the batches. The local log start follows the leader's. Unlike a
follower it never truncates its log: a source that no longer matches the local copy is refused.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from kstore.config import LogConfig
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    SourceChangedError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import check_seconds, count_of
from kstore.mirror.source_types import (
    EARLIEST,
    LATEST,
    OFFSET_OUT_OF_RANGE,
    PASSING,
    Fetched,
    Position,
    TopicDescription,
)
from kstore.mirror.transaction_ends import End, Endings, Undecided
from kstore.partition_files import batch_scan

if TYPE_CHECKING:
    from kstore.integers import Seconds
    from kstore.log.log import Log
    from kstore.store.store import Store
    from kstore.store.topic import Topic

Progress = Callable[[int, int, str], None]

_WAIT_MS = 500  # how long a leader may wait for new records
_FETCH_BYTES = 32 << 20
_PARTITION_BYTES = 4 << 20
_LARGEST_FETCH = 1 << 30
_PATIENCE = 30.0  # seconds without a successful fetch
_PAUSE = 0.2
_STEP = 0.2  # seconds of sleep at a time
_METADATA_AGE = 30.0  # seconds until a follower asks how many partitions there are
_QUIET = 2  # empty answers after which a leader has nothing up to its end


class Source(Protocol):
    """A cluster, as far as the copy needs it: :class:`kstore.mirror.source.KafkaSource`."""

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
    """The result for one partition; offsets as they are in the local log now."""

    partition: int
    start_offset: int = 0
    end_offset: int = 0
    first_offset: int = 0
    """Where this run continued."""
    bytes: int = 0
    """Of the batches that this run appended."""
    notes: list[str] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    """Transactions whose outcome the source's cleaner removed; they count as aborted here."""


@dataclass(slots=True)
class MirrorReport:
    """The result of a run. ``created``: the topic did not exist locally before."""

    topic: str
    topic_id: str | None
    created: bool
    partitions: list[PartitionReport]
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.partitions)

    @property
    def ok(self) -> bool:
        """Whether the outcome of every transaction is known."""
        return not any(each.undecided for each in self.partitions)


@dataclass(slots=True)
class _Copy:
    """The state of a partition during a run."""

    log: "Log"
    report: PartitionReport
    endings: Endings
    target: int = 0  # the source's end, as it was asked last
    source_start: int = 0
    epoch: int = -1  # leader epoch of the last batch
    room: int = field(
        default_factory=lambda: _PARTITION_BYTES
    )  # bytes to request; more if a batch is larger
    epochs_fit: bool = True  # whether the leader's epochs reach back as far as the local ones
    empty_answers: int = 0  # answers in a row without a byte
    last_answer: float = 0.0  # when the partition last had a useful answer
    committed: bool = True  # whether to ask for what is stable, with the aborted transactions


class Mirror:
    """A local copy of a topic, in a store that is open for writing. Used by one thread.

    Parameters
    ----------
    partitions
        Which to copy; all by default. The others stay unchanged, or empty.
    keep_deleted
        Keep the records that the source deletes after they were copied. By default the local
        log begins where the source's does, as a follower's.
    max_bytes_per_second
        How fast to copy; None: as fast as it goes.
    metadata_max_age
        Time until :meth:`run` with ``follow`` asks again how many partitions there are: seconds,
        or a ``timedelta``; None: it does not ask again.
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
        metadata_max_age: "Seconds" = _METADATA_AGE,
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
        self._begun = 0  # offsets that the copy had before
        age = check_seconds("metadata_max_age", metadata_max_age)
        self._metadata_age = inf if age is None else age
        self._described = self._started  # when the cluster was last asked for the topic

    # --- the plan -------------------------------------------------------------------------

    def run(
        self, *, follow: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> MirrorReport:
        """Copy up to the present end of the source, or continuously until ``stop()``.

        Copied batches stay, whatever happens; the next run continues after them.

        Raises
        ------
        SourceChangedError
            The source was truncated or created again, or other records were appended here.
        UnknownTopicOrPartitionError
            No such topic or partition in the cluster.
        SourceError
            The cluster does not answer.
        CorruptRecordError
            The source sent an invalid batch; the batches before it were copied.
        """
        self._started = time.monotonic()
        about = self._source.describe()
        self._created = about.name not in self._store
        topic = self._local_topic(about)
        self._topic_id = topic.topic_id
        self._copies, self._begun = {}, 0
        self._described = self._started
        self._add(topic, self._numbers(about))
        while not stop():
            if follow and time.monotonic() - self._described >= self._metadata_age:
                self._describe_again()
            due = [n for n, c in self._copies.items() if follow or c.log.end_offset < c.target]
            if not due:
                break
            self._round(due)
        return self.report()

    def _add(self, topic: "Topic", numbers: Sequence[int]) -> None:
        """Begin to copy partitions."""
        for number in numbers:
            log = topic[number]
            endings = Endings(log, partial(self._ask_one, number))
            report = PartitionReport(number, first_offset=log.end_offset)
            self._copies[number] = _Copy(log, report, endings, last_answer=self._started)
        self._fetch_bounds(numbers)
        self._begun += sum(_done(self._copies[number]) for number in numbers)

    def _describe_again(self) -> None:
        """Ask who leads, and whether there are more partitions; new ones are copied, too."""
        try:
            about = self._source.describe()
        except UnknownTopicOrPartitionError as error:
            raise SourceChangedError(
                f"topic {self._source.topic!r} was deleted in the cluster; what was copied stays"
            ) from error
        topic = self._local_topic(about)
        self._described = time.monotonic()
        if self._wanted is None:
            self._add(topic, [n for n in range(about.partition_count) if n not in self._copies])

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
            # Only the source's log start deletes records of a mirror.
            config = LogConfig(retention_ms=-1, retention_bytes=-1, cleanup_policy="delete")
            return self._store.create_topic(
                about.name, about.partition_count, config=config, topic_id=about.topic_id
            )
        topic = self._store[about.name]
        if about.topic_id is not None and topic.topic_id != about.topic_id:
            raise SourceChangedError(
                f"topic {about.name!r} of the cluster has the id {about.topic_id}, the one here "
                f"{topic.topic_id}: the source was deleted and created again, or this is no copy "
                "of it. Mirror into another directory, or delete the topic here first",
                path=self._store.paths[0],
            )
        if len(topic) != about.partition_count:
            if len(topic) < about.partition_count:
                return self._store.add_partitions(about.name, about.partition_count)
            raise SourceChangedError(
                f"topic {about.name!r} has {count_of(about.partition_count, 'partition')} in "
                "the cluster and "
                f"{len(topic)} here: it is another topic. Mirror into another directory",
                path=self._store.paths[0],
            )
        return topic

    def _numbers(self, about: TopicDescription) -> list[int]:
        there = range(about.partition_count)
        for number in self._wanted or ():
            if number not in there:
                raise UnknownTopicOrPartitionError(
                    f"topic {about.name!r} has {count_of(about.partition_count, 'partition')}, "
                    f"0 to {about.partition_count - 1}; there is no partition {number}"
                )
        return list(there) if self._wanted is None else self._wanted

    def _fetch_bounds(self, numbers: Sequence[int]) -> None:
        """Ask where the source begins and ends, and prepare the local logs to continue."""
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
        """Refuse a log that begins after its end; its beginning decides which records to delete."""
        if not 0 <= start <= end:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: the cluster reports the log start "
                f"{start} and the log end {end}, which contradict "
                "each other. Nothing was changed here",
                path=copy.log.path,
            )

    def _check_end(self, number: int, copy: _Copy) -> None:
        end = copy.log.end_offset
        if end > copy.target:
            raise SourceChangedError(
                f"partition {number} of {self._source.topic!r} ends at {copy.target} in the "
                f"cluster and at {end} here: the source was truncated or created again, or "
                f"other records were appended here. {_WAYS_OUT}",
                path=copy.log.path,
                offset=copy.target,
            )

    def _tail(self, log: "Log") -> tuple[int, ...] | None:
        """What identifies the local log's last batch: offsets, epoch, producer, count, checksum."""
        if log.end_offset == log.start_offset:
            return None
        found = log.read(log.end_offset - 1)
        return None if found is None else _last_batch(found)

    def _check_tail(self, number: int, copy: _Copy, tail: tuple[int, ...]) -> None:
        """Compare the last local batch with the source's, whose records may be compacted away."""
        answers = self._ask({number: Position(tail[0])}, max_wait_ms=0, room=1)
        theirs = _first_batch(answers[number].records) if number in answers else None
        if theirs is None or theirs[0] > tail[0]:
            return  # compacted away, or no answer: the epochs decide
        same = theirs[:-2] == tail[:-2]
        if not same or (theirs[-2] == tail[-2] and theirs[-1] != tail[-1]):
            raise SourceChangedError(
                f"the last batch of partition {number} of {self._source.topic!r} is not the one "
                f"that the source has at its offset: other records were appended here, or the "
                f"source was created again. {_WAYS_OUT}",
                path=copy.log.path,
                offset=tail[0],
            )

    def _follow_start(self, copy: _Copy) -> None:
        """Let the local log begin where the source's does; report a gap that this leaves."""
        log, start = copy.log, copy.source_start
        end = log.end_offset
        if start > end > log.start_offset:
            copy.report.notes.append(
                f"the source deleted offsets {end} to {start - 1} before they were copied"
            )
        if start > end and start < copy.target:
            return  # the first batch determines where the log continues
        if start > end:
            log._require_writer().truncator.skip_to(start)
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

    def _ask_one(self, number: int, at: Position, room: int) -> Fetched | None:
        return self._ask({number: at}, max_wait_ms=0, room=room).get(number)

    def _round(self, due: list[int]) -> None:
        """One fetch from every leader, and what to do with the answers."""
        positions = {}
        for number in due:
            copy = self._copies[number]
            begins = max(copy.log.end_offset, copy.source_start)
            known = copy.epochs_fit and begins == copy.log.end_offset
            epoch = copy.epoch if known else -1
            positions[number] = Position(begins, epoch, copy.committed)
        room = max(self._copies[number].room for number in due)
        answers = self._ask(positions, max_wait_ms=_WAIT_MS, room=room)
        silent = not any(answer.records or answer.error for answer in answers.values())
        troubled = [number for number in due if not self._take(number, answers.get(number), silent)]
        self._report_progress(due[0])
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
                f"partition {number} of {self._source.topic!r} diverges from the copy here at "
                f"offset {answer.diverged}: the source was truncated (an unclean leader election, "
                f"say). {_WAYS_OUT}",
                path=copy.log.path,
                offset=answer.diverged,
            )
        if answer.error == OFFSET_OUT_OF_RANGE:
            self._fetch_bounds([number])
            if copy.source_start <= copy.log.end_offset <= copy.target:
                copy.epochs_fit = False  # it is the epoch that the leader does not know
            return False
        if answer.error:
            return self._check_error(number, answer.error)
        if answer.log_start_offset >= 0 and answer.high_watermark >= 0:
            self._check_bounds(number, copy, answer.log_start_offset, answer.high_watermark)
        copy.last_answer = time.monotonic()
        copy.target = max(copy.target, answer.high_watermark)
        end = copy.log.end_offset
        if answer.records:
            if not self._append(number, copy, answer.records):
                return False
            copy.endings.learn(answer, committed=copy.committed)
            copy.empty_answers = 0
        elif silent and not copy.committed and end < answer.high_watermark:
            copy.empty_answers += 1
            if copy.empty_answers >= _QUIET:  # compaction left nothing up to the source's end
                copy.log._require_writer().truncator.skip_to(answer.high_watermark)
        copy.committed = end < copy.log.end_offset < answer.last_stable_offset
        if answer.log_start_offset > copy.source_start:
            copy.source_start = answer.log_start_offset
            self._follow_start(copy)
        return True

    def _append(self, number: int, copy: _Copy, records: bytes) -> bool:
        """Append batches, and the ends of transactions that the source no longer has.

        False if the source has to be asked for them first, and does not answer.
        """
        ends = copy.endings.missing(records)
        if ends is None:
            return False
        at = size = 0
        for end in ends:
            if end.position > at:
                size += self._store_batches(number, copy, records[at : end.position])
            self._write_end(copy, end)
            at = end.position + end.replaced
        size += self._store_batches(number, copy, records[at:])
        if size == 0 and not ends:  # a batch larger than what was asked for
            if copy.room >= _LARGEST_FETCH:
                raise CorruptRecordError(
                    f"partition {number} of {self._source.topic!r}: no complete batch in a fetch "
                    f"of {copy.room} bytes",
                    path=copy.log.path,
                    offset=copy.log.end_offset,
                )
            copy.room *= 2
            return True
        last = _last_batch(records)
        copy.epoch = copy.epoch if last is None else last[2]
        self._raise_start(copy)
        return True

    def _store_batches(self, number: int, copy: _Copy, records: bytes) -> int:
        """Append batches unchanged; returns their bytes, without a cut one."""
        log = copy.log
        first = _first_batch(records)
        if first is not None and log.end_offset < copy.source_start:
            # The batch that holds the source's start may begin before it; wrapped messages v0 and
            # v1 name only their last offset.
            log._require_writer().truncator.skip_to(
                max(log.end_offset, min(first[0], copy.source_start))
            )
        try:
            size = log.append_as_follower(records).size
        except CorruptRecordError as error:
            good = error.position or 0
            if good > 0:
                info = log.append_as_follower(records[:good])
                copy.report.bytes += info.size
            raise CorruptRecordError(
                f"partition {number} of {self._source.topic!r}: invalid batch from the source "
                f"({error.reason}); the batches before it were copied",
                path=log.path,
                offset=error.offset,
            ) from error
        copy.report.bytes += size
        return size

    def _write_end(self, copy: _Copy, end: End) -> None:
        """Write the end of a transaction whose marker the source's cleaner removed."""
        undecided = copy.endings.write(end)
        if undecided is None:
            return
        if undecided.first_offset < copy.source_start and not self._keep:
            return  # its records go with those that the source deleted
        copy.report.undecided.append(undecided)
        copy.report.notes.append(
            f"the transaction of producer {undecided.producer_id} from offset "
            f"{undecided.first_offset} on ended in the source, whose cleaner removed it with its "
            "marker: its outcome is unknown. It counts as aborted here, so read_committed "
            f"does not show its records; the marker at offset {undecided.end_offset} was written "
            "here. Mirror into another directory for what the source has now"
        )

    def _check_error(self, number: int, code: int) -> bool:
        if code not in PASSING:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: the cluster refuses: "
                f"{self._source.sentence(code)}"
            )
        return False

    def _wait_for(self, troubled: list[int]) -> None:
        """Ask who leads; give up on a partition whose leader has not answered for _PATIENCE."""
        for number in troubled:
            if time.monotonic() - self._copies[number].last_answer > _PATIENCE:
                raise SourceError(
                    f"partition {number} of {self._source.topic!r}: no leader has answered for "
                    f"{_PATIENCE:.0f} seconds; copied batches stay; run the mirror again"
                )
        time.sleep(_PAUSE)
        self._describe_again()

    def _slow_down(self) -> None:
        copied = sum(each.report.bytes for each in self._copies.values())
        while self._pace is not None:
            ahead = copied / self._pace - (time.monotonic() - self._started)
            if ahead <= 0:
                return
            time.sleep(min(ahead, _STEP))

    def _report_progress(self, number: int) -> None:
        if self._progress is None:
            return
        done = sum(map(_done, self._copies.values())) - self._begun
        total = sum(each.target for each in self._copies.values()) - self._begun
        self._progress(done, max(done, total), f"{self._source.topic}-{number}")


_WAYS_OUT = (
    "Nothing was changed here. Mirror into another directory, or delete the topic here first"
)


def _done(copy: _Copy) -> int:
    """The offset up to which nothing is to be copied any more."""
    return max(copy.log.end_offset, copy.source_start)


def _row(data: object, *, last: bool) -> tuple[int, ...] | None:
    """(first, last offset, leader epoch, producer, its epoch, sequence, records, checksum)."""
    table = batch_scan.scan(data, check_crc=False)  # type: ignore[arg-type]
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
