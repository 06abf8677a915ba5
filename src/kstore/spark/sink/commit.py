"""The driver's side of the sink: what a commit publishes, once, and what an abort takes away.

Progress is a file of the log directory, ``kstore.published.<id>``: what was published last under
that id, and whose it was (:mod:`kstore.spark.sink.write_identity`). It becomes that by the very
rename which shows the records, so the two cannot differ. A repetition is not published again.
"""

import logging
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
from kstore.spark.sink.write_identity import (
    Content,
    Identity,
    Progress,
    bind,
    binding,
    content_of,
    find_progress,
    is_repetition,
    note_run,
)
from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

_KEPT = re.compile(rf"{re.escape(filenames.STAGED_PREFIX)}[^.]*-(\d{{1,15}})ms\.")


def publish(
    options: SinkOptions,
    job: str,
    messages: Sequence[Staged | None],
    identity: Identity | None,
    *,
    keep_timestamps: bool = False,
    files: Files = DISK,
) -> bool:
    """Publish what the tasks of a job staged: all of it, on disk, or nothing.

    Parameters
    ----------
    job
        The job's token, in the names of all it staged.
    identity
        Whose records these are: they are published only if that was not done before. None:
        they are always published.
    keep_timestamps
        Keep the records' own where the topic's ``message.timestamp.type`` is LogAppendTime, too.

    Returns whether it was published; False where it had been before. Raises StoreLockedError
    when another process writes the store for longer than ``lockTimeout``, InvalidConfigError
    for a job that is not whole or whose identity is that of other records, and what opening and
    appending raise; then nothing shows. Only with UnsyncedError everything does: nobody knows
    whether the last step is on the disk.
    """
    whole = check_whole(messages)
    store = open_for_commit(options, files)
    try:
        shown = _publish_once(store, options, job, whole, identity, keep_timestamps, files)
    finally:
        # What is decided is decided, and what failed has its own error.
        with _only_told("the store was not closed cleanly, the next writer recovers it"):
            store.close()
    return shown


def _publish_once(
    store: Store,
    options: SinkOptions,
    job: str,
    whole: Sequence[Staged],
    identity: Identity | None,
    keep_timestamps: bool,
    files: Files,
) -> bool:
    directory, last = options.paths[0], None
    if identity is not None:
        last = find_progress(files, store, identity)
        content = content_of(whole, store, last)
        if last is not None and is_repetition(last, identity, content):
            _leave_out(last, identity, content, files)
            with _only_told("what was staged goes by age"):
                remove_staged(files, directory, staged_names(whole))
            return False
    _check_there(files, directory, whole)
    _check_topics(store, options, whole)
    parts = _gather(whole)
    _create_missing(store, options, parts)
    publication = Publication(
        files,
        directory,
        job,
        None if identity is None else identity.name,
        0 if identity is None else identity.batch,
        time.time_ns() // 1_000_000,
        parts,
        None if identity is None else options.progress_retention_ms,
        {} if identity is None else binding(identity, content_of(whole, store), last),
        keep_timestamps,
    )
    _publish(publication, store, None if identity is None else identity.path_in(directory))
    with _only_told("what is left over is looked for by the next commit"):
        sweep(options, files)
    return True


def _leave_out(last: Progress, identity: Identity, content: Content, files: Files) -> None:
    """Log a repetition, with what was published then; and see to it that it is on the disk."""
    of_last = last.batch == identity.batch
    difference = last.content.describe_difference(content) if of_last else None
    unknown = (
        "; an older kstore did not note which query published it. If it was another one, these "
        "rows are not there: start this query with a new checkpoint and rebindWriteId, or with a "
        "new checkpoint and a new writeId"
        if last.has_unknown_owner(identity)
        else ""
    )
    _LOGGER.warning(
        "%s is a repetition, and its %d rows are left out: %s%s%s%s",
        identity,
        content.rows,
        "it was " if of_last else f"its batch {last.batch} was ",
        last,
        "" if difference is None else f"; {difference}",
        unknown,
    )
    if not last.is_bound:
        bind(files, last, identity, content)
    elif of_last and identity.run is not None and identity.run != last.run:
        note_run(files, last, identity)
    sync_progress(files, last.directory, identity.name)  # an earlier run's may have failed


@contextmanager
def _only_told(what: str) -> Iterator[None]:
    """Behind the switch an error is told, and fails nothing: everything shows."""
    try:
        yield
    except (KStoreError, OSError) as error:
        _LOGGER.warning("%s: %s", what, error)


def _publish(publication: Publication, store: Store, published: str | None) -> None:
    """All steps of a publication, undone where one fails before the switch."""

    def find(topic: str, partition: int) -> Log:
        return store[topic][partition]

    try:
        publication.begin(find)
        publication.append(find)
        publication.show(published)
    except BaseException:
        publication.undo(find, store._live)
        raise
    with _only_told("fences and staged files of a publication that is over stay"):
        publication.clear(find)


def check_whole(messages: Sequence[Staged | None]) -> list[Staged]:
    """The messages in the order of their tasks; InvalidConfigError where one is missing.

    Spark gives one message for each task that succeeded, whatever became of other attempts.
    """
    whole = sorted((each for each in messages if each is not None), key=lambda each: each.task)
    tasks = [each.task for each in whole]
    if len(whole) != len(messages) or tasks != list(range(len(tasks))):
        raise InvalidConfigError(
            f"the job is not whole: {len(messages)} messages, of tasks {tasks[:20]}; nothing was "
            "published"
        )
    return whole


def _check_there(files: Files, directory: str, messages: Sequence[Staged]) -> None:
    """StorageError where a staged file is not here, before anything is appended.

    An executor with a directory of its own under the path stages into that one.
    """
    for each in messages:
        names = {piece.file for part in each.parts for piece in part.pieces}
        paths = [os.path.join(directory, name) for name in sorted(names)]
        path = next((path for path in paths if files.kind(path) is None), None)
        if path is not None:
            raise StorageError(
                f"task {each.task} staged this on host {each.host}, and here it is not: that host "
                "has a directory of its own under the path instead of the shared one, or the file "
                "was older than stagingRetention; nothing was published",
                path=path,
            )


def staged_names(messages: Sequence[Staged]) -> set[str]:
    """The names of all files that were staged."""
    return {piece.file for each in messages for part in each.parts for piece in part.pieces} | {
        each.file for each in messages
    }


def _check_topics(store: Store, options: SinkOptions, messages: Sequence[Staged]) -> None:
    """What tasks checked is checked again: a topic may have been changed since, or made anew.

    Raises UnknownTopicOrPartitionError, InvalidRecordError, MessageTooLargeError.
    """
    for part in (part for each in messages for part in each.parts):
        topic, is_new = part.topic, part.topic_identity == ABSENT
        if topic not in store:
            if not is_new:
                raise _another_topic(topic, "is gone", options)
            continue
        found, config = store[topic], store[topic].config
        if not is_new and not store._manager.identities.is_same(topic, part.topic_identity):
            raise _another_topic(topic, "is another topic of that name", options)
        if is_new and len(found) != options.num_partitions:
            raise _another_topic(topic, f"was made with {len(found)} partitions", options)
        if part.keyless and "compact" in config.cleanup_policy:
            raise InvalidRecordError(
                f"{topic} is compacted since this was staged, and rows for it have no key: "
                "nothing was published"
            )
        kept = codec.NAMES[max(part.codec, 0)]
        if part.codec >= 0 and codec_of_batches(config, kept) != kept:
            raise InvalidConfigError(
                f"{topic} has compression.type {config.compression_type} since this was staged as "
                f"{kept}: nothing was published. Run the job again"
            )
        most = min(config.max_message_bytes, config.segment_bytes)
        if part.largest > most:
            raise MessageTooLargeError(
                f"a batch for {topic}-{part.partition} takes {part.largest} bytes, and since it "
                f"was staged the topic takes {most} (max.message.bytes, segment.bytes): nothing "
                "was published. Run the job again"
            )


def _another_topic(topic: str, what: str, options: SinkOptions) -> UnknownTopicOrPartitionError:
    return UnknownTopicOrPartitionError(
        f"{topic} {what} since this was staged: nothing was published. Run the job again",
        path=options.paths[0],
    )


def _gather(messages: Sequence[Staged]) -> list[PartitionPublication]:
    """What each partition gets, in the order of tasks."""
    parts: dict[tuple[str, int], PartitionPublication] = {}
    for message in messages:
        for staged in message.parts:
            part = parts.setdefault(
                (staged.topic, staged.partition),
                PartitionPublication(staged.topic, staged.partition, [], 0),
            )
            part.ranges.extend(staged.pieces)
            part.count += staged.count
    return [parts[key] for key in sorted(parts)]


def _create_missing(
    store: Store, options: SinkOptions, parts: Sequence[PartitionPublication]
) -> None:
    if options.num_partitions:
        for topic in dict.fromkeys(part.topic for part in parts):
            if topic not in store:
                store.create_topic(topic, options.num_partitions)


def open_for_commit(options: SinkOptions, files: Files = DISK) -> Store:
    """The store, as its one writer; StoreLockedError when others write it for too long.

    What an earlier publication left unfinished is undone by that.
    """
    reason = (
        "a commit needs it for itself. Close it there (a Kafka broker holds it as long as it "
        "runs), or raise the option lockTimeout"
    )
    return open_alone(options.paths, options.lock_timeout_ms, reason, files)


# --- left-overs -----------------------------------------------------------------------------


def abort(options: SinkOptions, job: str, files: Files = DISK) -> None:
    """Remove what a job staged.

    Harmless before its last task has ended (what that stages goes by age), and after a commit.
    What an unfinished publication names is kept: undoing compares with it.
    """
    directory = options.paths[0]
    try:
        names = files.listdir(directory)
        if filenames.PUBLISHING_PREFIX + job not in names:
            wanted = f"{filenames.STAGED_PREFIX}{job}."
            remove_staged(files, directory, {name for name in names if name.startswith(wanted)})
    except StorageError as error:
        _LOGGER.warning("what the job %s staged goes by age: %s", job, error)


def new_job(options: SinkOptions) -> str:
    """A job's token. It says how long its staged files are kept, where that is not as usual."""
    token, keep = uuid.uuid4().hex, options.staging_retention_ms
    return token if keep == STAGING_RETENTION_MS else f"{token}-{keep}ms"


def sweep(options: SinkOptions, files: Files = DISK) -> None:
    """Remove what is staged longer than its job's ``stagingRetention``, and progress of queries
    that is older than their ``progressRetention``."""
    now = time.time_ns() // 1_000_000
    # To read every file would cost each commit: it looks no closer at what is younger than this.
    least = min(options.progress_retention_ms, PROGRESS_RETENTION_MS)
    for directory in options.paths:
        for name in files.listdir(directory) if files.kind(directory) else ():
            path = os.path.join(directory, name)
            if name.startswith(filenames.STAGED_PREFIX):
                kept = _KEPT.match(name)
                most = int(kept[1]) if kept else STAGING_RETENTION_MS
                _remove_old(files, path, now - most)
            elif name.startswith(filenames.PUBLISHED_PREFIX):
                _remove_old(files, path, now - least, now)


def _remove_old(files: Files, path: str, before_ms: int, now: int | None = None) -> None:
    """Remove a file that is older; where ``now`` is given, as old as it says of itself, too."""
    try:
        modified = files.modified_ns(path) // 1_000_000
        if modified < before_ms and (now is None or modified < now - _retention_of(files, path)):
            files.remove(path)
    except KStoreError as error:  # others have removed it, it goes next time, or is not ours
        _LOGGER.info("left as it is: %s", error)


def _retention_of(files: Files, path: str) -> int:
    """How long a query's progress is kept; the default where an older kstore wrote it."""
    most = publish_barrier.parse(files, path).get("retention_ms")
    return most if isinstance(most, int) else PROGRESS_RETENTION_MS


def remove_staged(files: Files, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        path = os.path.join(directory, name)
        if files.kind(path) is not None:
            files.remove(path)
