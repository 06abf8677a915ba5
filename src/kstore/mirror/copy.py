"""Copying a topic batch by batch: what to ask for, what to append, what to refuse.

The copy follows a follower's rules (Kafka's ReplicaFetcherThread): complete batches as the leader
has them on disk, offsets and leader epochs kept; producer state, transaction indexes and offset
indexes are rebuilt locally from the batches. The local log start follows the leader's. Unlike a
follower it never truncates its log: a source that no longer matches the local copy is refused.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from kstore.config import LogConfig
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    SourceChangedError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import check_seconds, count_of
from kstore.mirror.batch_row import first_batch, last_batch, last_batch_of
from kstore.mirror.pace import Pace
from kstore.mirror.partition_copy import PartitionCopy
from kstore.mirror.report import MirrorReport, PartitionReport
from kstore.mirror.source_types import (
    EARLIEST,
    LATEST,
    OFFSET_OUT_OF_RANGE,
    PASSING,
    Fetched,
    Position,
    Source,
    TopicDescription,
)
from kstore.mirror.transaction_ends import End, Endings

if TYPE_CHECKING:
    from kstore.integers import Seconds
    from kstore.store.store import Store
    from kstore.store.topic import Topic

_LOGGER = logging.getLogger("kstore")
Progress = Callable[[int, int, str], None]

_WAIT_MS = 500  # how long a leader may wait for new records
_FETCH_BYTES = 32 << 20
_PARTITION_BYTES = 4 << 20
_LARGEST_FETCH = 1 << 30
_PATIENCE = 30.0  # seconds without a successful fetch
_PAUSE = 0.2
_METADATA_AGE = 30.0  # seconds until a follower asks how many partitions there are
# Empty answers after which a leader has nothing up to its end. A broker with a remote tier also
# answers without records, and without an error, while it is slow to read them.
_QUIET = 10


class _StoppedError(Exception):
    """The run is to end before the copy was compared with its source."""


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
        self._rate = max_bytes_per_second
        self._pace = Pace(max_bytes_per_second)
        self._stop: Callable[[], bool] = lambda: False
        self._progress = progress
        self._copies: dict[int, PartitionCopy] = {}
        self._started = time.monotonic()
        self._topic_id: str | None = None
        self._created = False
        self._begun = 0  # offsets that the copy had before
        age = check_seconds("metadata_max_age", metadata_max_age)
        self._metadata_age = inf if age is None else age
        self._described = self._started  # when the cluster was last asked for the topic
        self._is_listed = True  # whether its answer had the topic

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
        self._started, self._stop = time.monotonic(), stop
        self._pace = Pace(self._rate)
        about = self._source.describe()
        self._created = about.name not in self._store
        topic = self._local_topic(about)
        self._topic_id = topic.topic_id
        self._copies, self._begun = {}, 0
        self._described, self._is_listed = self._started, True
        with suppress(_StoppedError):
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
            end = log.end_offset
            report = PartitionReport(number, first_offset=end)
            self._copies[number] = PartitionCopy(
                log, report, endings, room=_PARTITION_BYTES, is_begun=end > 0
            )
        self._fetch_bounds(numbers)
        self._begun += sum(_done(self._copies[number]) for number in numbers)

    def _describe_again(self) -> None:
        """Ask who leads, and whether there are more partitions; new ones are copied, too.

        A broker that does not list the topic may have just started: whether the topic was deleted
        is known once its leaders do not answer for it either.
        """
        try:
            about = self._source.describe()
        except UnknownTopicOrPartitionError as error:
            if self._is_listed:
                _LOGGER.warning("%s; the mirror continues with the leaders it knows", error)
            self._described, self._is_listed = time.monotonic(), False
            return
        topic = self._local_topic(about)
        self._described, self._is_listed = time.monotonic(), True
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
            tail = last_batch_of(copy.log)
            copy.epoch = -1 if tail is None else tail[2]
            if tail is not None and tail[0] >= copy.source_start:
                self._check_tail(number, copy, tail)
            self._follow_start(copy)
            copy.is_begun = True

    def _check_bounds(self, number: int, copy: PartitionCopy, start: int, end: int) -> None:
        """Refuse a log that begins after its end; its beginning decides which records to delete."""
        if not 0 <= start <= end:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: the cluster reports the log start "
                f"{start} and the log end {end}, which contradict "
                "each other. Nothing was changed here",
                path=copy.log.path,
            )

    def _check_end(self, number: int, copy: PartitionCopy) -> None:
        end = copy.log.end_offset
        if end > copy.target:
            raise SourceChangedError(
                f"partition {number} of {self._source.topic!r} ends at {copy.target} in the "
                f"cluster and at {end} here: the source was truncated or created again, or "
                f"other records were appended here. {_WAYS_OUT}",
                path=copy.log.path,
                offset=copy.target,
            )

    def _check_tail(self, number: int, copy: PartitionCopy, tail: tuple[int, ...]) -> None:
        """Compare the last local batch with the source's, whose records may be compacted away."""
        theirs = self._first_batch_at(number, copy, tail[0])
        if theirs is None:
            note = (
                f"the leader sends nothing from offset {tail[0]} on: the last batch of the copy "
                "was not compared with the source's"
            )
            if note not in copy.report.notes:
                copy.report.notes.append(note)
            return
        if theirs[0] > tail[0]:
            return  # compacted away: the epochs decide
        same = theirs[:-2] == tail[:-2]
        if not same or (theirs[-2] == tail[-2] and theirs[-1] != tail[-1]):
            raise SourceChangedError(
                f"the last batch of partition {number} of {self._source.topic!r} is not the one "
                f"that the source has at its offset: other records were appended here, or the "
                f"source was created again. {_WAYS_OUT}",
                path=copy.log.path,
                offset=tail[0],
            )

    def _first_batch_at(
        self, number: int, copy: PartitionCopy, offset: int
    ) -> tuple[int, ...] | None:
        """The source's first batch from an offset on; None: it has none there any more."""
        # An answer to this ends no other trouble: a leader may refuse the copy's own position.
        troubled, copy.troubled_since = copy.troubled_since, None
        room, wait_ms, empty = 1, 0, 0
        while True:
            answer = self._ask_one(number, Position(offset), room, wait_ms)
            if answer is None or answer.error not in (0, OFFSET_OUT_OF_RANGE):
                self._is_refused(number, copy, answer)
                self._wait_for([number])
            else:
                found = first_batch(answer.records)
                empty += not answer.records
                is_last = answer.error or empty >= _QUIET or room >= _LARGEST_FETCH
                copy.troubled_since = None
                if found is not None or is_last:
                    copy.troubled_since = troubled
                    return found
                if answer.records:
                    room = max(2 * room, _PARTITION_BYTES)  # a broker before 0.10.1 cut it
                wait_ms = _WAIT_MS
            if self._stop():
                raise _StoppedError

    def _follow_start(self, copy: PartitionCopy) -> None:
        """Let the local log begin where the source's does; report a gap that this leaves."""
        log, start = copy.log, copy.source_start
        end = log.end_offset
        missing = max(end, copy.told_until)
        if start > missing and copy.is_begun:
            copy.report.notes.append(
                f"the source deleted offsets {missing} to {start - 1} before they were copied"
            )
        copy.told_until = max(copy.told_until, start)
        if start > end and start < copy.target:
            return  # the first batch determines where the log continues
        if start > end:
            log._require_writer().truncator.skip_to(start)
        self._raise_start(copy)

    def _raise_start(self, copy: PartitionCopy) -> None:
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
        if self._rate is not None and room <= _PARTITION_BYTES:  # more for a large batch
            total = room = max(min(room, self._rate), 1)
        return self._source.fetch(
            positions, max_wait_ms=max_wait_ms, max_bytes=total, partition_max_bytes=room
        )

    def _ask_one(self, number: int, at: Position, room: int, wait_ms: int = 0) -> Fetched | None:
        return self._ask({number: at}, max_wait_ms=wait_ms, room=room).get(number)

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
        before = self._copied()
        answers = self._ask(positions, max_wait_ms=_WAIT_MS, room=room)
        silent = not any(answer.records or answer.error for answer in answers.values())
        troubled = [number for number in due if not self._take(number, answers.get(number), silent)]
        self._report_progress(due[0])
        if troubled:
            self._wait_for(troubled)
        self._pace.keep(self._copied() - before, self._stop)
        # Leaders fill an answer in the order of the request: let the others come first next time.
        for number in due:
            if answers.get(number) is not None and answers[number].records:
                self._copies[number] = self._copies.pop(number)

    def _take(self, number: int, answer: Fetched | None, silent: bool) -> bool:
        """Append what came for a partition; False where it has to be asked for again."""
        copy = self._copies[number]
        if answer is None or answer.error not in (0, OFFSET_OUT_OF_RANGE):
            return self._is_refused(number, copy, answer)
        if answer.diverged is not None:
            raise SourceChangedError(
                f"partition {number} of {self._source.topic!r} diverges from the copy here at "
                f"offset {answer.diverged}: the source was truncated (an unclean leader election, "
                f"say). {_WAYS_OUT}",
                path=copy.log.path,
                offset=answer.diverged,
            )
        if answer.error == OFFSET_OUT_OF_RANGE:
            copy.problem = self._error(number, answer.error)
            self._fetch_bounds([number])
            if copy.source_start <= copy.log.end_offset <= copy.target:
                copy.epochs_fit = False  # it is the epoch that the leader does not know
            return False
        if answer.log_start_offset >= 0 and answer.high_watermark >= 0:
            self._check_bounds(number, copy, answer.log_start_offset, answer.high_watermark)
        copy.target = max(copy.target, answer.high_watermark)
        end = copy.log.end_offset
        if answer.records:
            if not self._append(number, copy, answer.records):
                copy.problem = self._source.problem(number)
                return False
            copy.endings.learn(answer, committed=copy.committed)
            copy.empty_answers = 0
        elif silent and not copy.committed and end < copy.target:
            self._take_nothing(number, copy, answer.high_watermark)
        if answer.records or not silent or end >= copy.target:  # else something is to come
            copy.troubled_since = None
        if end >= copy.target:
            copy.empty_answers = 0
        copy.committed = end < copy.log.end_offset < answer.last_stable_offset
        if answer.log_start_offset > copy.source_start:
            copy.source_start = answer.log_start_offset
            self._follow_start(copy)
        return True

    def _take_nothing(self, number: int, copy: PartitionCopy, high_watermark: int) -> None:
        """An answer without a record below the end that the source has reported."""
        end = copy.log.end_offset
        copy.empty_answers += end < high_watermark
        if end < high_watermark and copy.empty_answers >= _QUIET:
            copy.report.notes.append(
                f"the leader has no records at offsets {end} to {high_watermark - 1}, as after a "
                "compaction: the copy continues behind them"
            )
            copy.log._require_writer().truncator.skip_to(high_watermark)
            copy.troubled_since, copy.empty_answers = None, 0
            return
        if not self._is_given_up(copy):
            return
        reported = copy.target
        self._fetch_bounds([number])  # raises if the source ends before the copy now
        if copy.target > end:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: {self._source.leader_of(number)} "
                f"says that it ends at {copy.target}, but sends nothing beyond {end}",
                path=copy.log.path,
                offset=end,
            )
        copy.report.notes.append(
            f"the source ended at {reported}, and ends at {copy.target} now: it was truncated "
            "before the records in between were copied"
        )

    def _append(self, number: int, copy: PartitionCopy, records: bytes | memoryview) -> bool:
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
        last = last_batch(records)
        copy.epoch = copy.epoch if last is None else last[2]
        self._raise_start(copy)
        return True

    def _store_batches(self, number: int, copy: PartitionCopy, records: bytes | memoryview) -> int:
        """Append batches unchanged; returns their bytes, without a cut one."""
        log = copy.log
        first = first_batch(records)
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

    def _write_end(self, copy: PartitionCopy, end: End) -> None:
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

    def _error(self, number: int, code: int) -> str:
        return f"{self._source.leader_of(number)} answers {self._source.sentence(code)}"

    def _is_refused(self, number: int, copy: PartitionCopy, answer: Fetched | None) -> bool:
        """Note why there was no answer, or an error that may pass; raise another. False."""
        if answer is None:
            copy.problem = self._source.problem(number)
        elif answer.error in PASSING:
            copy.problem = self._error(number, answer.error)
        else:
            raise SourceError(
                f"partition {number} of {self._source.topic!r}: {self._source.leader_of(number)} "
                f"refuses: {self._source.sentence(answer.error)}",
                path=copy.log.path,
                offset=copy.log.end_offset,
            )
        return False

    def _wait_for(self, troubled: list[int]) -> None:
        """Ask who leads; give up on a partition whose leader has not answered for _PATIENCE."""
        for number in troubled:
            copy = self._copies[number]
            if self._is_given_up(copy):
                if not self._is_listed:
                    raise SourceChangedError(
                        f"topic {self._source.topic!r} was deleted in the cluster; what was copied "
                        "stays"
                    )
                raise SourceError(
                    f"partition {number} of {self._source.topic!r}: no leader has answered for "
                    f"{_PATIENCE:.0f} seconds; the last problem: {copy.problem or 'unknown'}; "
                    "copied batches stay; run the mirror again",
                    path=copy.log.path,
                    offset=copy.log.end_offset,
                )
        time.sleep(_PAUSE)
        self._describe_again()

    def _is_given_up(self, copy: PartitionCopy) -> bool:
        """Whether the trouble lasts; it begins now where there was none. A leader that is gone may
        take as long to be noticed as a trouble may last."""
        now = time.monotonic()
        if copy.troubled_since is None:
            copy.troubled_since = now
        return now - copy.troubled_since > _PATIENCE

    def _copied(self) -> int:
        return sum(each.report.bytes for each in self._copies.values())

    def _report_progress(self, number: int) -> None:
        if self._progress is None:
            return
        done = sum(map(_done, self._copies.values())) - self._begun
        total = sum(each.target for each in self._copies.values()) - self._begun
        self._progress(done, max(done, total), f"{self._source.topic}-{number}")


_WAYS_OUT = (
    "Nothing was changed here. Mirror into another directory, or delete the topic here first"
)


def _done(copy: PartitionCopy) -> int:
    """The offset up to which nothing is to be copied any more."""
    return max(copy.log.end_offset, copy.source_start)
