"""The driver's side of the sink: what a commit publishes, once, and what an abort takes away.

Progress is a file of the log directory, ``kstore.published.<id>``: the last batch of a query (or
of a ``writeId``). It becomes that by the very rename which shows the batch's records, so the two
cannot differ. A batch that is there already is not published again.
"""

import logging
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kstore.errors import (
    InvalidConfigError,
    InvalidRecordError,
    KStoreError,
    LogDirOfflineError,
    MessageTooLargeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.group.offsets import file_name
from kstore.log.fence import parse, unreadable
from kstore.log.files import DISK, Files
from kstore.log.log import Log
from kstore.log.publication import PUBLISHING, Part, Publication, sync_progress
from kstore.spark.alone import open_alone
from kstore.spark.sink_options import (
    PROGRESS_RETENTION_MS,
    STAGED,
    STAGING_RETENTION_MS,
    SinkOptions,
    Staged,
)
from kstore.store import Store

_LOGGER = logging.getLogger("kstore")

PUBLISHED = "kstore.published."
_KEPT = re.compile(rf"{re.escape(STAGED)}[^.]*-(\d{{1,15}})ms\.")


def publish(
    options: SinkOptions,
    job: str,
    messages: Sequence[Staged | None],
    identity: str | None,
    batch: int,
    *,
    files: Files = DISK,
) -> bool:
    """Publish what the tasks of a job staged: all of it, on disk, or nothing.

    Parameters
    ----------
    job
        The job's token, in the names of all it staged.
    identity, batch
        Whose batch this is: it is published only if none of the same or a higher number is
        recorded for the identity. None: it is always published.

    Returns whether it was published; False where it had been before. Raises StoreLockedError
    when another process writes the store for longer than ``lockTimeout``, InvalidConfigError
    for a job that is not whole, and what opening and appending raise; then nothing shows. Only
    with UnsyncedError everything does: nobody knows whether the last step is on the disk.
    """
    whole = check_whole(messages)
    store = open_for_commit(options, files)
    try:
        shown = _publish_once(store, options, job, whole, identity, batch, files)
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
    identity: str | None,
    batch: int,
    files: Files,
) -> bool:
    directory, name = options.paths[0], None
    if identity is not None:
        name = file_name(identity, PUBLISHED)
        if place := _find_published(store, files, name, batch):
            _LOGGER.info("batch %d of %s is there already: it is left out", batch, identity)
            sync_progress(files, place, identity)  # an earlier run's may have failed
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
        identity,
        batch,
        time.time_ns() // 1_000_000,
        parts,
        None if name is None else options.progress_retention_ms,
    )
    _publish(publication, store, None if name is None else os.path.join(directory, name))
    with _only_told("what is left over is looked for by the next commit"):
        sweep(options, files)
    return True


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
        topic, there = part.topic, part.topic in store
        if not there:
            if part.topic_id is not None:
                raise _another_topic(topic, "is gone", options)
            continue
        found, config = store[topic], store[topic].config
        if part.topic_id is not None and part.topic_id != found.topic_id:
            raise _another_topic(topic, "is another topic of that name", options)
        made = options.num_partitions and part.topic_id is None and found.topic_id is not None
        if made and len(found) != options.num_partitions:
            raise _another_topic(topic, f"was made with {len(found)} partitions", options)
        if part.keyless and "compact" in config.cleanup_policy:
            raise InvalidRecordError(
                f"{topic} is compacted since this was staged, and rows for it have no key: "
                "nothing was published"
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


def _gather(messages: Sequence[Staged]) -> list[Part]:
    """What each partition gets, in the order of tasks."""
    parts: dict[tuple[str, int], Part] = {}
    for message in messages:
        for staged in message.parts:
            part = parts.setdefault(
                (staged.topic, staged.partition), Part(staged.topic, staged.partition, [], 0)
            )
            part.pieces.extend(staged.pieces)
            part.count += staged.count
    return [parts[key] for key in sorted(parts)]


def _create_missing(store: Store, options: SinkOptions, parts: Sequence[Part]) -> None:
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


# --- progress -------------------------------------------------------------------------------


def last_batch(files: Files, directories: Sequence[str], name: str) -> tuple[int, str | None]:
    """The last batch that is recorded under a name, and in which directory; -1 for none.

    It is in what was the first directory then: in any, where their order was changed.
    """
    found: tuple[int, str | None] = -1, None
    for directory in directories:
        path = os.path.join(directory, name)
        if files.kind(path) is None:
            continue
        document = parse(files, path)
        try:
            batch = int(document["batch"])
        except (KeyError, TypeError, ValueError):
            raise unreadable(path) from None
        found = max(found, (batch, directory), key=lambda each: each[0])
    return found


def _find_published(store: Store, files: Files, name: str, batch: int) -> str | None:
    """In which directory it is written that a batch was published; None where it was not.

    Raises LogDirOfflineError where nobody knows.
    """
    live = store._live
    last, directory = last_batch(files, live, name)
    if last < 0 and len(live) < len(store.paths):
        raise LogDirOfflineError(
            "this log directory is offline, and may be the one that tells what was published "
            "before: nothing was published",
            path=next(each for each in store.paths if each not in live),
        )
    return directory if last >= batch else None


def identify(options: SinkOptions, messages: Sequence[Staged | None]) -> str:
    """Whose micro-batch it is: ``writeId``, the query's id as its tasks know it, the checkpoint.

    Raises InvalidConfigError where none of them is known.
    """
    queries = {each.query for each in messages if each is not None and each.query}
    found = options.write_id or (queries.pop() if len(queries) == 1 else options.checkpoint)
    if not found:
        raise InvalidConfigError(
            "no task knows the query's id, and there is no checkpointLocation: set the option "
            "writeId to a name that stays the same when the query is restarted"
        )
    return found


# --- left-overs -----------------------------------------------------------------------------


def abort(options: SinkOptions, job: str, files: Files = DISK) -> None:
    """Remove what a job staged.

    Harmless before its last task has ended (what that stages goes by age), and after a commit.
    What an unfinished publication names is kept: undoing compares with it.
    """
    directory = options.paths[0]
    try:
        names = files.listdir(directory)
        if PUBLISHING + job not in names:
            wanted = f"{STAGED}{job}."
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
            if name.startswith(STAGED):
                kept = _KEPT.match(name)
                most = int(kept[1]) if kept else STAGING_RETENTION_MS
                _remove_old(files, path, now - most)
            elif name.startswith(PUBLISHED):
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
    most = parse(files, path).get("retention_ms")
    return most if isinstance(most, int) else PROGRESS_RETENTION_MS


def remove_staged(files: Files, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        path = os.path.join(directory, name)
        if files.kind(path) is not None:
            files.remove(path)
