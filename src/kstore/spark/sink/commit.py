"""Commits and aborts of a write, on the driver: a commit publishes the staged records once.

The file ``kstore.published.<id>`` of the log directory is the progress of an identity: its last
publication and its owner (:mod:`kstore.spark.sink.write_identity`). The rename that makes the
records visible also creates this file, so the two always agree: the rename is that of
:mod:`kstore.store.atomic_publish`. A repetition is not published.
"""

import logging
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

from kstore.clock import now_ms
from kstore.config import codec_of_batches
from kstore.errors import (
    InvalidConfigError,
    InvalidRecordError,
    KStoreError,
    MessageTooLargeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.log.log import Log
from kstore.partition_files import (
    DISK,
    Files,
    PartitionPublication,
    Publication,
    count_of,
    filenames,
    publish_barrier,
    sync_progress,
)
from kstore.record import codec
from kstore.spark.exclusive_lock import open_alone
from kstore.spark.sink.options import (
    ABSENT,
    PROGRESS_RETENTION_MS,
    STAGING_RETENTION_MS,
    SinkOptions,
    Staged,
)
from kstore.spark.sink.repetition import is_repetition
from kstore.spark.sink.write_identity import (
    Content,
    Identity,
    Progress,
    bind,
    binding,
    content_of,
    find_progress,
    note_run,
)
from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

_STAGED_WITH_RETENTION = re.compile(rf"{re.escape(filenames.STAGED_PREFIX)}[^.]*-(\d{{1,15}})ms\.")


def publish(
    options: SinkOptions,
    job: str,
    messages: Sequence[Staged | None],
    identity: Identity | None,
    *,
    keep_timestamps: bool = False,
    files: Files = DISK,
) -> bool:
    """Publish and sync the records that the tasks of a job staged: all of them, or none.

    Parameters
    ----------
    job
        The job's token, which the names of its staged files contain.
    identity
        The identity of the records: they are published only if they were not before. None:
        always publish them.
    keep_timestamps
        Keep the records' timestamps, also in topics with LogAppendTime.

    Returns whether the records were published now; False if they had been before. Raises
    StoreLockedError if another process writes the store for longer than ``lockTimeout``,
    InvalidConfigError for an incomplete job or an identity that is bound to other records, and the
    errors of opening and appending; then no record is visible. With UnsyncedError all records are
    visible, but a power cut may undo that.
    """
    complete = check_complete(messages)
    store = open_for_commit(options, files)
    try:
        is_published = _publish_once(
            store, options, job, complete, identity, keep_timestamps, files
        )
    finally:
        # An error of the close changes nothing: the publication has succeeded or raised.
        with _log_errors("the store was not closed cleanly, the next writer recovers it"):
            store.close()
    return is_published


def _publish_once(
    store: Store,
    options: SinkOptions,
    job: str,
    messages: Sequence[Staged],
    identity: Identity | None,
    keep_timestamps: bool,
    files: Files,
) -> bool:
    directory, last = options.paths[0], None
    if identity is not None:
        last = find_progress(files, store, identity)
        content = content_of(messages, store, last)
        if last is not None and is_repetition(last, identity, content):
            _skip_repetition(last, identity, content, files)
            with _log_errors("staged files stay until stagingRetention is over"):
                remove_staged(files, directory, staged_names(messages))
            return False
    _check_files_exist(files, directory, messages)
    _check_topics(store, options, messages)
    partitions = _merge_partitions(messages)
    _create_missing(store, options, partitions)
    publication = Publication(
        files,
        directory,
        job,
        None if identity is None else identity.name,
        0 if identity is None else identity.batch,
        now_ms(),
        partitions,
        None if identity is None else options.progress_retention_ms,
        {} if identity is None else binding(identity, content_of(messages, store), last),
        keep_timestamps,
    )
    _publish(publication, store, None if identity is None else identity.path_in(directory))
    with _log_errors("the next commit removes old files"):
        sweep(options, files)
    return True


def _skip_repetition(last: Progress, identity: Identity, content: Content, files: Files) -> None:
    """Log a repetition with its first publication, and sync that."""
    is_last_batch = last.batch == identity.batch
    difference = last.content.describe_difference(content) if is_last_batch else None
    unknown = (
        "; an older kstore did not save which query published it. If it was another one, these "
        "rows are missing: start this query with a new checkpoint and rebindWriteId, or with a "
        "new checkpoint and a new writeId"
        if last.has_unknown_owner(identity)
        else ""
    )
    _LOGGER.warning(
        "%s is a repetition, and its %d rows are skipped: %s%s%s%s",
        identity,
        content.rows,
        "it was " if is_last_batch else f"its batch {last.batch} was ",
        last,
        "" if difference is None else f"; {difference}",
        unknown,
    )
    if not last.is_bound:
        bind(files, last, identity, content)
    elif is_last_batch and identity.run and identity.run != last.run:
        note_run(files, last, identity)
    sync_progress(files, last.directory, identity.name)  # an earlier sync may have failed


@contextmanager
def _log_errors(consequence: str) -> Iterator[None]:
    """Log errors after the records are visible, because they must not fail the job."""
    try:
        yield
    except (KStoreError, OSError) as error:
        _LOGGER.warning("%s: %s", consequence, error)


def _publish(publication: Publication, store: Store, published: str | None) -> None:
    """Run all steps of a publication; undo it if a step fails before the records are visible."""

    def find(topic: str, partition: int) -> Log:
        return store[topic][partition]

    try:
        publication.begin(find)
        publication.append(find)
        publication.show(published)
    except BaseException:
        publication.undo(find, store._catalog.live_paths)
        raise
    with _log_errors("barriers and staged files of a finished publication stay"):
        publication.clear(find)


def check_complete(messages: Sequence[Staged | None]) -> list[Staged]:
    """The messages in the order of their tasks; InvalidConfigError if one is missing.

    Spark passes the message of one successful attempt for each task.
    """
    complete = sorted(
        (message for message in messages if message is not None), key=attrgetter("task")
    )
    tasks = [message.task for message in complete]
    if len(complete) != len(messages) or tasks != list(range(len(tasks))):
        raise InvalidConfigError(
            f"the job is incomplete: {count_of(len(messages), 'message')}, of tasks "
            f"{tasks[:20]}; nothing was published"
        )
    return complete


def _check_files_exist(files: Files, directory: str, messages: Sequence[Staged]) -> None:
    """Raise StorageError, before anything is appended, if a staged file is missing.

    An executor with a directory of its own under the path has staged into that one.
    """
    for message in messages:
        names = {staged.file for part in message.partitions for staged in part.ranges}
        paths = [os.path.join(directory, name) for name in sorted(names)]
        path = next((path for path in paths if files.kind(path) is None), None)
        if path is not None:
            raise StorageError(
                f"task {message.task} staged this file on host {message.host}, but the driver does "
                "not see it: that host has a directory of its own under the path instead of the "
                "shared one, or the file was older than stagingRetention; nothing was published",
                path=path,
            )


def staged_names(messages: Sequence[Staged]) -> set[str]:
    """The names of all staged files."""
    names = {message.file for message in messages}
    for message in messages:
        for partition in message.partitions:
            names.update(staged.file for staged in partition.ranges)
    return names


def _check_topics(store: Store, options: SinkOptions, messages: Sequence[Staged]) -> None:
    """Check the topics again, because they may have changed since the tasks checked them.

    Raises UnknownTopicOrPartitionError, InvalidRecordError, MessageTooLargeError.
    """
    for staged in (partition for message in messages for partition in message.partitions):
        topic, is_new = staged.topic, staged.topic_identity == ABSENT
        if topic not in store:
            if not is_new:
                raise _topic_changed(topic, "was deleted", options)
            continue
        found, config = store[topic], store[topic].config
        if not is_new and not store._manager.identities.is_same(topic, staged.topic_identity):
            raise _topic_changed(topic, "was recreated", options)
        if is_new and len(found) != options.num_partitions:
            raise _topic_changed(
                topic, f"was created with {count_of(len(found), 'partition')}", options
            )
        if staged.keyless and "compact" in config.cleanup_policy:
            raise InvalidRecordError(
                f"{topic} was made a compacted topic after the rows were staged, and some rows "
                "have no key: nothing was published"
            )
        codec_name = codec.NAMES[max(staged.codec, 0)]
        if staged.codec >= 0 and codec_of_batches(config, codec_name) != codec_name:
            raise InvalidConfigError(
                f"{topic} got compression.type {config.compression_type} after the rows were "
                f"staged as {codec_name}: nothing was published. Run the job again"
            )
        max_size = min(config.max_message_bytes, config.segment_bytes)
        if staged.largest > max_size:
            raise MessageTooLargeError(
                f"a staged batch for {topic}-{staged.partition} has {staged.largest} bytes, and "
                f"the topic now allows {max_size} (max.message.bytes, segment.bytes): nothing was "
                "published. Run the job again"
            )


def _topic_changed(topic: str, change: str, options: SinkOptions) -> UnknownTopicOrPartitionError:
    return UnknownTopicOrPartitionError(
        f"{topic} {change} after the rows were staged: nothing was published. Run the job again",
        path=options.paths[0],
    )


def _merge_partitions(messages: Sequence[Staged]) -> list[PartitionPublication]:
    """The staged ranges of all tasks for each partition, in the order of the tasks."""
    merged: dict[tuple[str, int], PartitionPublication] = {}
    for message in messages:
        for staged in message.partitions:
            partition = merged.setdefault(
                (staged.topic, staged.partition),
                PartitionPublication(staged.topic, staged.partition, [], 0),
            )
            partition.ranges.extend(staged.ranges)
            partition.count += staged.count
    return [merged[key] for key in sorted(merged)]


def _create_missing(
    store: Store, options: SinkOptions, partitions: Sequence[PartitionPublication]
) -> None:
    if options.num_partitions:
        for topic in dict.fromkeys(partition.topic for partition in partitions):
            if topic not in store:
                store.create_topic(topic, options.num_partitions)


def open_for_commit(options: SinkOptions, files: Files = DISK) -> Store:
    """Open the store as its one writer; StoreLockedError after ``lockTimeout``.

    Opening undoes an interrupted publication.
    """
    reason = (
        "a commit must be the only writer. Close the store in the other process (a Kafka broker "
        "holds the lock as long as it runs), or raise the option lockTimeout"
    )
    return open_alone(options.paths, options.lock_timeout_ms, reason, files)


# --- old and aborted files ------------------------------------------------------------------


def abort(options: SinkOptions, job: str, files: Files = DISK) -> None:
    """Remove the staged files of a job.

    May run before the job's last task has ended (``stagingRetention`` removes that task's files)
    and after a commit. Keeps the files of an unfinished publication, because undoing needs them.
    """
    directory = options.paths[0]
    try:
        names = files.listdir(directory)
        if filenames.PUBLISHING_PREFIX + job not in names:
            prefix = f"{filenames.STAGED_PREFIX}{job}."
            remove_staged(files, directory, {name for name in names if name.startswith(prefix)})
    except StorageError as error:
        _LOGGER.warning(
            "staged files of the job %s stay until stagingRetention is over: %s", job, error
        )


def new_job(options: SinkOptions) -> str:
    """A job's token, which contains its ``stagingRetention`` unless that is the default."""
    token, retention_ms = uuid.uuid4().hex, options.staging_retention_ms
    return token if retention_ms == STAGING_RETENTION_MS else f"{token}-{retention_ms}ms"


def sweep(options: SinkOptions, files: Files = DISK) -> None:
    """Remove staged files older than their job's ``stagingRetention``, and progress files older
    than their ``progressRetention``."""
    now = now_ms()
    # A commit does not read progress files that are younger than this.
    min_age_ms = min(options.progress_retention_ms, PROGRESS_RETENTION_MS)
    for directory in options.paths:
        for name in files.listdir(directory) if files.kind(directory) else ():
            path = os.path.join(directory, name)
            if name.startswith(filenames.STAGED_PREFIX):
                own = _STAGED_WITH_RETENTION.match(name)
                retention_ms = int(own[1]) if own else STAGING_RETENTION_MS
                _remove_old(files, path, now - retention_ms)
            elif name.startswith(filenames.PUBLISHED_PREFIX):
                _remove_old(files, path, now - min_age_ms, now)


def _remove_old(files: Files, path: str, before_ms: int, now: int | None = None) -> None:
    """Remove a file modified before ``before_ms``; with ``now``, only after its own retention."""
    try:
        modified = files.modified_ns(path) // 1_000_000
        if modified < before_ms and (now is None or modified < now - _retention_of(files, path)):
            files.remove(path)
    except KStoreError as error:  # removed by another process, unreadable, or not kstore's
        _LOGGER.info("an old file was not removed: %s", error)


def _retention_of(files: Files, path: str) -> int:
    """The ``progressRetention`` of a progress file; the default if an older kstore wrote it."""
    retention_ms = publish_barrier.parse(files, path).get("retention_ms")
    return retention_ms if isinstance(retention_ms, int) else PROGRESS_RETENTION_MS


def remove_staged(files: Files, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        path = os.path.join(directory, name)
        if files.kind(path) is not None:
            files.remove(path)
