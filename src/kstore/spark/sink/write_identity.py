"""The identity of a write, and the progress file of its last publication.

The identity of a stream's micro-batch is its query's id and its number. The identity of a batch
job with a ``writeId`` is that id, its topics, the number of its rows and a checksum of them that
does not depend on their order. The progress file ``kstore.published.<id>`` describes the last
publication of a ``writeId`` or, for a stream without one, of the query's id.
:mod:`kstore.spark.sink.repetition` compares a write with it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from kstore.errors import InvalidConfigError, LogDirOfflineError
from kstore.partition_files import (
    Files,
    count_of,
    filenames,
    group_file_name,
    publish_barrier,
)
from kstore.spark.sink.options import ABSENT, SinkOptions, Staged
from kstore.store.store import Store


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a write.

    ``name`` is the ``writeId``, or the query's id for a stream without one. ``run`` is the id of
    the query's run if its function (``foreachBatch``) may write more than once in a micro-batch,
    and empty if the tasks do not know the run, because another thread than the query's writes.
    Of a batch job that resumes, such as a restore, it is the id of what its first run planned:
    that is published once, whatever records a later run still finds.
    """

    name: str
    query: str | None = None  # None: a batch job, identified by its records
    batch: int = 0
    run: str | None = None
    rebind: bool = False  # whether the name may be bound to another query, or to other records

    @property
    def file(self) -> str:
        """The name of its progress file."""
        return group_file_name(self.name, filenames.PUBLISHED_PREFIX)

    def path_in(self, directory: str) -> str:
        return os.path.join(directory, self.file)

    def __str__(self) -> str:
        if self.query is None:
            return f"the batch job with writeId {self.name!r}"
        by_name = "" if self.name == self.query else f" (writeId {self.name!r})"
        return f"batch {self.batch} of the streaming query {self.query}{by_name}"


def of_query(query: str, batch: int) -> Identity:
    """The identity of a stream's micro-batch that has no ``writeId``."""
    return Identity(query, query, batch)


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a write: topics with identities, number of rows, and their checksum if any."""

    topics: Mapping[str, str | None]  # None: the topic has none
    rows: int
    checksum: int | None = None

    def __str__(self) -> str:
        return f"{count_of(self.rows, 'row')} for {', '.join(sorted(self.topics)) or 'no topic'}"

    def describe_difference(self, other: "Content") -> str | None:
        """How another write's content differs from this one's; None if it does not."""
        if self.rows != other.rows or self.topics.keys() != other.topics.keys():
            return f"this job has {other}"
        if (deleted := self.describe_deletion(other)) is not None:
            return deleted
        if None not in (self.checksum, other.checksum) and self.checksum != other.checksum:
            return "this job has other rows (the checksums differ)"
        return None

    def describe_deletion(self, other: "Content") -> str | None:
        """Which topic of both writes was deleted between them; None if none was."""
        for topic, topic_id in self.topics.items():
            current = other.topics.get(topic)
            if topic_id and current is not None and current != topic_id:
                return f"{topic} was deleted since" + (" and recreated" if current else "")
        return None


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of a progress file; ``is_bound`` is False if an older kstore wrote it."""

    directory: str
    document: dict[str, Any]
    batch: int
    at_ms: int
    content: Content
    query: str | None
    run: str | None
    generation: int
    is_bound: bool

    def has_unknown_owner(self, identity: Identity) -> bool:
        """Whether the file does not name its owner; a file of a query's id is that query's."""
        return not self.is_bound and identity.query != identity.name

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"published at {when} with {self.content}"


def identify_micro_batch(
    options: SinkOptions, messages: Sequence[Staged | None], batch: int
) -> Identity | None:
    """The identity of a stream's micro-batch; None if there are no tasks.

    Raises InvalidConfigError if the tasks do not know the query's id.
    """
    if not messages:
        return None
    query = _query_of(messages)
    if query is None:
        raise InvalidConfigError(
            "no task knows the id of the streaming query (Spark's local property "
            "sql.streaming.queryId), so a repetition could not be recognized: nothing was "
            "published. Write in foreachBatch, with the options writeId, writeBatch and queryId"
        )
    return Identity(options.write_id or query, query, batch, None, options.rebind)


def identify_job(options: SinkOptions, messages: Sequence[Staged | None]) -> Identity | None:
    """The identity of a batch job; None without ``writeId``.

    With ``writeBatch`` it is the identity of a micro-batch, whose query the tasks or the option
    ``queryId`` name. Raises InvalidConfigError if neither does, or if they differ.
    """
    if options.write_id is None:
        return None
    if options.write_batch is None:
        return Identity(options.write_id, rebind=options.rebind)
    query = _query_of(messages)
    if options.query_id is not None and query not in (None, options.query_id):
        raise InvalidConfigError(
            f"queryId is {options.query_id!r}, but this job runs in the streaming query {query}: "
            "nothing was published. Omit queryId"
        )
    query = options.query_id or query
    if query is None:
        raise InvalidConfigError(
            "writeBatch numbers the micro-batches of a streaming query, and the query is unknown: "
            "nothing was published. In foreachBatch set the option queryId to the query's id; "
            "outside of a stream omit writeBatch and give each job a writeId of its own"
        )
    run = next((staged.run for staged in messages if staged is not None and staged.run), "")
    return Identity(options.write_id, query, options.write_batch, run, options.rebind)


def _query_of(messages: Sequence[Staged | None]) -> str | None:
    queries = {staged.query for staged in messages if staged is not None and staged.query}
    if len(queries) > 1:
        raise InvalidConfigError(
            f"tasks of one job name several streaming queries, {', '.join(sorted(queries))}: "
            "nothing was published"
        )
    return queries.pop() if queries else None


def content_of(messages: Sequence[Staged], store: Store, last: Progress | None = None) -> Content:
    """The staged content, with the current identities of its topics.

    A topic's identity is its id, or its creation stamp if it has no id. A topic of ``last`` keeps
    its identity if it is still the same topic: an upgraded broker assigns an id to it.
    """
    identities = store._manager.identities
    earlier = {} if last is None else last.content.topics

    def identify(name: str) -> str | None:
        if name not in store:
            return ABSENT
        before = earlier.get(name)
        return (
            before if before and identities.is_same(name, before) else identities.identity_of(name)
        )

    partitions = [partition for staged in messages for partition in staged.partitions]
    rows = sum(partition.count for partition in partitions)
    names = sorted({partition.topic for partition in partitions if partition.count})
    topics = {name: identify(name) for name in names}
    sums = [staged.checksum for staged in messages if staged.checksum is not None]
    return Content(topics, rows, sum(sums) % (1 << 64) if len(sums) == len(messages) else None)


# --- progress -------------------------------------------------------------------------------------


def find_progress(files: Files, store: Store, identity: Identity) -> Progress | None:
    """The last publication under an identity's name; None if there is none.

    The file is in the directory that was the store's first one at that time. Raises
    LogDirOfflineError if a directory that may have it is offline.
    """
    live = store._catalog.live_paths
    found = []
    for directory in live:
        path = identity.path_in(directory)
        if files.kind(path) is not None:
            found.append(read_progress(files, directory, identity.file))
    if not found and len(live) < len(store.paths):
        raise LogDirOfflineError(
            "this log directory is offline and may contain the progress file of earlier "
            "publications: nothing was published",
            path=next(path for path in store.paths if path not in live),
        )
    return max(found, key=attrgetter("generation", "batch"), default=None)


def read_progress(files: Files, directory: str, name: str) -> Progress:
    """Read a progress file. Raises CorruptFileError, NewerFormatError."""
    path = os.path.join(directory, name)
    document = publish_barrier.parse(files, path)
    try:
        is_bound = "rows" in document
        if is_bound:
            checksum = document["checksum"]
            content = Content(
                dict(document["topics"]),
                int(document["rows"]),
                None if checksum is None else int(checksum, 16),
            )
        else:
            content = _unbound_content(document)
        return Progress(
            directory,
            document,
            int(document["batch"]),
            int(document.get("at_ms", 0)),
            content,
            document.get("query"),
            document.get("run"),
            int(document.get("generation", 0)),
            is_bound,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise publish_barrier.unreadable(path) from None


def _unbound_content(document: Mapping[str, Any]) -> Content:
    """The content by an older kstore's file, which has only the number of records by partition."""
    counts = [
        (str(entry["topic"]), int(entry["count"])) for entry in document.get("partitions", ())
    ]
    topics: dict[str, str | None] = {topic: None for topic, count in counts if count}
    return Content(topics, sum(count for _, count in counts))


def binding(identity: Identity, content: Content, last: Progress | None) -> dict[str, object]:
    """The properties of an identity in a progress file, besides its name and batch."""
    return {
        "query": identity.query,
        "run": identity.run,
        "topics": dict(content.topics),
        "rows": content.rows,
        "checksum": None if content.checksum is None else f"{content.checksum:016x}",
        "generation": 1 + (0 if last is None else last.generation),
    }


def bind(files: Files, progress: Progress, identity: Identity, content: Content) -> None:
    """Write the owner into a progress file of an older kstore."""
    document = progress.document | binding(identity, content, progress)
    path = identity.path_in(progress.directory)
    files.write_atomically(path, json.dumps(document).encode())


def note_run(files: Files, progress: Progress, identity: Identity) -> None:
    """Save that this run of the query has repeated its last batch.

    A second write of the batch in the same run is then compared with the published content.
    """
    document = progress.document | {"run": identity.run}
    path = identity.path_in(progress.directory)
    files.write_atomically(path, json.dumps(document).encode())
