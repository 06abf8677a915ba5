"""The driver's side of a restore: runs the tasks, then sends, appends or publishes in order."""

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstore.errors import InvalidConfigError
from kstore.partition_files import Files, TopicIdentities
from kstore.spark.exclusive_lock import open_alone
from kstore.spark.jobs.restore_plan import (
    Plan,
    chunks_from,
    fingerprint_ranges,
)
from kstore.spark.jobs.restore_settings import create_topics
from kstore.spark.jobs.restore_target import append_staged, encoding_for, remove_staged_of
from kstore.spark.jobs.restore_types import Chunk, Encoding, RestoredPartition, Written
from kstore.spark.jobs.resume_file import ResumeFile
from kstore.spark.jobs.store_changes import LOCK_REASON
from kstore.spark.jobs.task_runner import Progress, run_tasks
from kstore.spark.sink.commit import publish
from kstore.spark.sink.options import Staged, StagedPartition, parse_sink
from kstore.spark.sink.write_identity import Identity
from kstore.spark.source.offsets_json import TopicPartition
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger("kstore")


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.encode(task)


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.send(task)


class RestoreDriver:
    """One restore: ``send`` into a cluster, ``append`` or ``publish`` into a directory.

    For one thread.
    """

    def __init__(
        self,
        spark: "SparkSession",
        plan: Plan,
        known: ResumeFile[RestoredPartition],
        progress: Progress,
        config: Mapping[str, str],
        files: Files,
    ) -> None:
        self._files = files
        self._config = config
        self._spark = spark
        self._plan = plan
        self._known = known
        self._progress = progress
        self._done = 0
        self._total = sum(chunk.size for chunks in plan.chunks.values() for chunk in chunks)

    def _save_progress(self, chunk: Chunk, count: int, *, final: bool) -> None:
        """Add the result of a chunk to its partition's entry in the resume file."""
        key = f"{chunk.topic}-{chunk.partition}"
        before = self._known.get(key)
        self._known.add(
            key,
            RestoredPartition(
                chunk.topic,
                chunk.partition,
                chunk.target,
                count + (0 if before is None else before.records),
                chunk.stop,
                final,
            ),
        )
        self._done += chunk.size
        self._progress(self._done, self._total, key)

    def _reports(self) -> list[RestoredPartition]:
        reports = []
        for (topic, partition), chunks in sorted(self._plan.chunks.items()):
            known = self._known.get(f"{topic}-{partition}")
            target = chunks[0].target if chunks else self._plan.source.target(topic)
            reports.append(known or RestoredPartition(topic, partition, target, 0, 0))
        return reports

    # --- into a cluster -------------------------------------------------------------------

    def send(
        self, servers: str, settings: tuple[tuple[str, Any], ...], compression: str
    ) -> list[RestoredPartition]:
        """Send the chunks of each partition one after the other, the partitions in parallel."""
        remaining = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            known = self._known.get(f"{topic}-{partition}")
            next_offset = -1 if known is None else known.next_offset
            remaining[topic, partition] = chunks_from(chunks, next_offset)
        while any(remaining.values()):
            wave = [chunks.pop(0) for chunks in remaining.values() if chunks]
            tasks = [(chunk, servers, settings, compression) for chunk in wave]
            with closing(run_tasks(self._spark, tasks, send, "kstore restore")) as results:
                for number, written in results:
                    chunk = wave[number]
                    final = not remaining[chunk.topic, chunk.partition]
                    self._save_progress(chunk, written.count, final=final)
        return self._reports()

    # --- into a directory, with the source's offsets --------------------------------------

    def append(self, encoding: Encoding, lock_timeout_ms: int) -> list[RestoredPartition]:
        """Append staged chunks while tasks run, in each partition in the order of offsets."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            directory = encoding.log_dirs[0]
            remove_staged_of(self._files, directory, encoding.job)  # left by an interrupted run
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            tasks = []
            for chunk in self._claim_partitions(store):
                log = store[chunk.target][chunk.partition]
                tasks.append((chunk, encoding_for(log, encoding)))
            tasks.sort(key=lambda task: task[0].number)
            try:
                self._append_in_order(store, encoding, tasks)
            except Exception:
                remove_staged_of(self._files, directory, encoding.job)
                raise
            remove_staged_of(self._files, directory, encoding.job)  # left by failed attempts
        return self._reports()

    def _append_in_order(
        self, store: Store, encoding: Encoding, tasks: Sequence[tuple[Chunk, Encoding]]
    ) -> None:
        staged: dict[TopicPartition, dict[int, Written]] = {}  # by the number of the chunk
        next_number = {(c.topic, c.partition): c.number for c, _ in reversed(tasks)}
        last_number = {(c.topic, c.partition): c.number for c, _ in tasks}
        chunks = {(c.topic, c.partition, c.number): c for c, _ in tasks}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results:
            for task_number, written in results:
                chunk = tasks[task_number][0]
                tp = (chunk.topic, chunk.partition)
                by_number = staged.setdefault(tp, {})
                by_number[chunk.number] = written
                while (ready := by_number.pop(next_number[tp], None)) is not None:
                    chunk = chunks[(*tp, next_number[tp])]
                    log = store[chunk.target][chunk.partition]
                    append_staged(self._files, log, encoding, ready)
                    final = chunk.number == last_number[tp]
                    self._save_progress(chunk, ready.count, final=final)
                    next_number[tp] += 1

    def _claim_partitions(self, store: Store) -> list[Chunk]:
        """Save in the resume file which partitions this job fills, and return the chunks to do.

        A later run appends to a partition that is not empty only if the resume file has it. So
        the entries are written before the first append.
        """
        claimed: dict[str, RestoredPartition] = {}
        remaining: list[Chunk] = []
        sources: dict[TopicPartition, str] = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            if not chunks:
                continue
            key, target = f"{topic}-{partition}", chunks[0].target
            other = sources.setdefault((target, partition), topic)
            if other != topic:
                raise InvalidConfigError(
                    f"{other} and {topic} would both become {target}: offsets of two topics cannot "
                    "be kept in one"
                )
            log = store[target][partition]
            empty = log.end_offset == log.start_offset == 0
            if not empty and key not in self._known:
                raise InvalidConfigError(
                    f"{log.topic}-{log.partition} has records up to offset {log.end_offset}: to "
                    "keep offsets it must be empty, or use --resume with the file of the run that "
                    "wrote these records"
                )
            first = RestoredPartition(topic, partition, target, 0, chunks[0].start, False)
            of_partition = chunks_from(chunks, -1 if empty else log.end_offset)
            claimed[key] = self._known.get(key) or first
            if not of_partition:
                claimed[key] = replace(claimed[key], next_offset=chunks[-1].stop, done=True)
            remaining += of_partition
        self._known.add_all(claimed)
        return remaining

    # --- into a directory, with new offsets -----------------------------------------------

    def publish(
        self, encoding: Encoding, lock_timeout_ms: int, name: str | None
    ) -> list[RestoredPartition]:
        """Stage all chunks, then publish them in one step, as Spark's sink does.

        A run that resumes publishes what the interrupted run had planned, then what is new.
        """
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)  # of an earlier run
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            encodings = {
                tp: encoding_for(store[chunks[0].target][tp[1]], encoding, exact=False)
                for tp, chunks in self._plan.chunks.items()
                if chunks
            }
            identities = store._manager.identities
            ids = {name: identities.identity_of(name) for name in self._plan.counts}
            self._forget_deleted(identities)
        options = parse_sink({"paths": json.dumps(list(encoding.log_dirs)), "topic": "-"})
        options = replace(options, lock_timeout_ms=lock_timeout_ms)
        while ranges := self._plan_publication():
            tasks = []
            for tp, chunks in self._plan.chunks.items():
                start, stop = ranges.get(f"{tp[0]}-{tp[1]}", (0, 0))
                for chunk in chunks_from(chunks, start):
                    if chunk.start < stop:
                        limited = replace(chunk, stop=min(chunk.stop, stop))
                        tasks.append((limited, encodings[tp]))
            # The identity contains the ranges: an earlier resume file of this path had others.
            identity = None
            if name is not None:
                planned = self._known[next(iter(ranges))].publication
                identity = Identity(f"{name} {fingerprint_ranges(ranges)}", None, 0, planned, True)
            try:
                staged = self._stage(tasks, ids)
                publish(
                    options, encoding.job, staged, identity, keep_timestamps=True, files=self._files
                )
            finally:
                remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)
            counts = dict.fromkeys(ranges, 0)
            for (chunk, _), file in zip(tasks, staged, strict=True):
                counts[f"{chunk.topic}-{chunk.partition}"] += sum(p.count for p in file.partitions)
            self._known.add_all({key: self._published(key, counts[key], ids) for key in ranges})
        return self._reports()

    def _forget_deleted(self, identities: TopicIdentities) -> None:
        """Drop the entries of topics that were deleted since: they are restored again."""
        for key, report in self._known.items():
            target, topic_id = report.target, report.topic_id
            is_target = target in self._plan.counts
            if is_target and topic_id and not identities.is_same(target, topic_id):
                _LOGGER.warning(
                    "%s was deleted since it was restored: restoring it again from %s", target, key
                )
                self._known.forget(key)

    def _plan_publication(self) -> dict[str, tuple[int, int]]:
        """The offsets of each partition to publish next; empty if all are published.

        They are saved in the resume file first. A run that resumes publishes the same offsets as
        the interrupted run, even if the source has grown, and recognizes a publication that has
        finished, even if the source has lost records since. New records follow in the next one.
        """
        if not any(each.planned for _, each in self._known.items()):
            new, publication = {}, uuid.uuid4().hex
            for (topic, partition), chunks in self._plan.chunks.items():
                key = f"{topic}-{partition}"
                if chunks:
                    first = RestoredPartition(
                        topic, partition, chunks[0].target, 0, chunks[0].start, False
                    )
                    known = self._known.get(key) or first
                    if known.next_offset < chunks[-1].stop:
                        stop = chunks[-1].stop
                        new[key] = replace(known, done=False, planned=stop, publication=publication)
            self._known.add_all(new)
        return {
            key: (each.next_offset, each.planned)
            for key, each in self._known.items()
            if each.planned
        }

    def _published(self, key: str, count: int, ids: Mapping[str, str | None]) -> RestoredPartition:
        known = self._known[key]
        return replace(
            known,
            records=known.records + count,
            next_offset=known.planned or known.next_offset,
            done=True,
            planned=0,
            topic_id=ids[known.target],
            publication=None,
        )

    def _stage(
        self, tasks: Sequence[tuple[Chunk, Encoding]], ids: Mapping[str, str | None]
    ) -> list[Staged]:
        staged: dict[int, Staged] = {}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results:
            for number, written in results:
                chunk = tasks[number][0]
                partition = StagedPartition(
                    chunk.target, chunk.partition, written.ranges, written.count, ids[chunk.target]
                )
                partitions = (partition,) if written.ranges else ()
                staged[number] = Staged(
                    number, 0, None, written.file, written.host, partitions,
                    checksum=written.checksum,
                )  # fmt: skip
                self._done += chunk.size
                self._progress(self._done, self._total, f"{chunk.topic}-{chunk.partition}")
        return [staged[number] for number in sorted(staged)]
