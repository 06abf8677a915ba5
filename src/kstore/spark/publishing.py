"""The driver's side of the sink: what a commit publishes, once, and what an abort takes away.

Progress is a file of the log directory, ``kstore.published.<id>``: the last batch of a query (or
of a ``writeId``). It becomes that by the very rename which shows the batch's records, so the two
cannot differ. A batch that is there already is not published again.
"""

import logging
import os
import time
from collections.abc import Sequence

from kstore.errors import InvalidConfigError, StorageError
from kstore.group.offsets import file_name
from kstore.log.fence import parse, unreadable
from kstore.log.files import DISK, Files
from kstore.log.log import Log
from kstore.log.publication import PUBLISHING, Part, Publication
from kstore.spark.alone import open_alone
from kstore.spark.sink_options import STAGED, SinkOptions, Staged
from kstore.store import Store

_LOGGER = logging.getLogger("kstore")

PUBLISHED = "kstore.published."


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
    for a job that is not whole, and what opening and appending raise; then nothing shows.
    """
    whole = check_whole(messages)
    store = open_for_commit(options, files)
    try:
        directory = options.paths[0]
        name = None if identity is None else file_name(identity, PUBLISHED)
        if name is not None and batch <= last_batch(files, directory, name):
            _LOGGER.info("batch %d of %s is there already: it is left out", batch, identity)
            remove_staged(files, directory, staged_names(whole))
            return False
        _check_there(files, directory, whole)
        parts = _gather(whole)
        _create_missing(store, options, parts)
        publication = Publication(
            files, directory, job, identity, batch, time.time_ns() // 1_000_000, parts
        )
        _publish(publication, store, None if name is None else os.path.join(directory, name))
        sweep(options, files)
        return True
    finally:
        store.close()


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


def last_batch(files: Files, directory: str, name: str) -> int:
    """The last batch that is recorded under a name; -1 for none."""
    path = os.path.join(directory, name)
    if files.kind(path) is None:
        return -1
    document = parse(files, path)
    try:
        return int(document["batch"])
    except (KeyError, TypeError, ValueError):
        raise unreadable(path) from None


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


def sweep(options: SinkOptions, files: Files = DISK) -> None:
    """Remove what is staged longer than ``stagingRetention``, and progress likewise."""
    directory = options.paths[0]
    now = time.time_ns()
    keep: dict[str, int] = {
        STAGED: options.staging_retention_ms,
        PUBLISHED: options.progress_retention_ms,
    }
    for name in files.listdir(directory):
        for prefix, most in keep.items():
            if name.startswith(prefix):
                _remove_old(files, os.path.join(directory, name), now - most * 1_000_000)


def _remove_old(files: Files, path: str, before_ns: int) -> None:
    try:
        if files.modified_ns(path) < before_ns:
            files.remove(path)
    except StorageError as error:  # others have removed it, or it goes next time
        _LOGGER.info("left as it is: %s", error)


def remove_staged(files: Files, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        path = os.path.join(directory, name)
        if files.kind(path) is not None:
            files.remove(path)
