"""Handing partitions over to a Kafka broker, and taking a broker's directory over.

A broker serves a partition only if it knows it: a KRaft one by the topic's id, which it keeps in
its metadata and compares with ``partition.metadata``; what it does not know it renames to
``-stray``, and an empty partition takes its place. So the topic is made on the broker first, the
broker stopped, and the segments go into the folders that it made, which keep their ids. What is
checked here, and why, is a table in docs/guide/handover.md; each line of it was tried with brokers.

Neither side may run meanwhile: both directories are locked while anything is written.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kstore.errors import CorruptFileError, HandoverError, KStoreError, StorageError
from kstore.log import filenames
from kstore.log.checkpoint import read_clean_shutdown, read_offsets
from kstore.log.filenames import CLEANED_SUFFIX, DELETE, FUTURE, STRAY, PartitionName
from kstore.log.files import DISK, Files
from kstore.log.identity import (
    MetaProperties,
    read_meta_properties,
    read_topic_id,
    uuid_from_text,
    write_topic_id,
)
from kstore.log.leader_epochs import LeaderEpochs
from kstore.log.log_dir import Contents, LogDir, LogState, absolute_paths
from kstore.log.opening import peek_end_offset
from kstore.log.verify import verify_partition
from kstore.store import Paths
from kstore.store import open as open_store

REFUSED, WARNING, NOTE = "refused", "warning", "note"
HANDOVER = "kstore.handover"  # in a broker's partition folder: what is here came only half over
KRAFT, ZOOKEEPER = "KRaft", "ZooKeeper"

_CHECKPOINTS = (
    filenames.RECOVERY_POINTS,
    filenames.LOG_STARTS,
    filenames.HIGH_WATERMARKS,
    filenames.CLEANER_OFFSETS,
)
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_METADATA = "__cluster_metadata-0"
_CHUNK = 1 << 20

Progress = Callable[[int, int, str], None]


class Finding(NamedTuple):
    """Something that was seen. ``level``: refused (nothing is done), warning, or note."""

    level: str
    where: str
    sentence: str


class PartitionPlan(NamedTuple):
    """A partition that is to be handed over. Offsets and bytes as they are in the source."""

    topic: str
    partition: int
    source: str
    target: str
    topic_id: str | None
    start_offset: int
    end_offset: int
    size: int


@dataclass(slots=True)
class HandoverReport:
    """What would be done, or was; ``ok``: nothing speaks against it."""

    kind: str = ""
    findings: list[Finding] = field(default_factory=list)
    partitions: list[PartitionPlan] = field(default_factory=list)
    executed: bool = False

    @property
    def ok(self) -> bool:
        return not any(each.level == REFUSED for each in self.findings)

    def refuse(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(REFUSED, where, sentence))

    def warn(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(WARNING, where, sentence))

    def note(self, where: str, sentence: str) -> None:
        self.findings.append(Finding(NOTE, where, sentence))


class _Broker:
    """A stopped broker's log directories, read only."""

    def __init__(self, files: Files, paths: Paths, report: HandoverReport) -> None:
        self.files = files
        self.report = report
        self.dirs: list[LogDir] = []
        self.contents: dict[str, Contents] = {}
        self.places: dict[tuple[str, int], LogDir] = {}
        for path in absolute_paths(paths):
            if files.kind(path) != "directory":
                report.refuse(path, "there is no such directory")
                continue
            place = LogDir(files, path, writable=False)
            self.dirs.append(place)
            self.contents[path] = place.scan()

    def check(self) -> None:
        """Everything that would keep the broker from starting, or from being this broker."""
        metas = [(place, self._meta(place)) for place in self.dirs]
        known = [(place, meta) for place, meta in metas if meta is not None]
        if known:
            self.report.kind = KRAFT if known[0][1].version == 1 else ZOOKEEPER
            self._compare(known)
        for place in self.dirs:
            self._check_dir(place)
        self._warn_of_lone_copies()

    def _meta(self, place: LogDir) -> MetaProperties | None:
        try:
            meta = read_meta_properties(self.files, place.path)
        except CorruptFileError as error:
            self.report.refuse(place.path, f"{error.reason}: the broker would not start")
            return None
        if meta is None:
            self.report.refuse(
                place.path,
                "no meta.properties: no broker has used this directory yet. Format it "
                "(kafka-storage), start the broker, create the topics, stop it",
            )
        return meta

    def _compare(self, known: list[tuple[LogDir, MetaProperties]]) -> None:
        first = known[0][1]
        seen: dict[str, str] = {}
        for place, meta in known:
            if (meta.version, meta.cluster_id, meta.node_id) != (
                first.version,
                first.cluster_id,
                first.node_id,
            ):
                self.report.refuse(
                    place.path,
                    f"meta.properties is of node {meta.node_id} in cluster {meta.cluster_id}, "
                    f"{known[0][0].path} of node {first.node_id} in cluster {first.cluster_id}: "
                    "a broker takes only its own directories",
                )
            if meta.directory_id is not None:
                if meta.directory_id in seen:
                    self.report.refuse(
                        place.path,
                        f"the directory.id {meta.directory_id} is that of "
                        f"{seen[meta.directory_id]}, too: one is a copy of the other",
                    )
                seen[meta.directory_id] = place.path

    def _check_dir(self, place: LogDir) -> None:
        report, contents = self.report, self.contents[place.path]
        if self.files.probe(place.join(filenames.LOCK)):
            report.refuse(place.path, ".lock is held: the broker (or a writer) runs; stop it first")
        elif read_clean_shutdown(self.files, place.path) is None and contents.partitions:
            report.refuse(
                place.path,
                "not closed cleanly: start the broker again, and stop it by SIGTERM",
            )
        for name in contents.strangers:
            report.refuse(
                place.join(name),
                "a folder that is no partition: a broker does not start beside it"
                + (" (use a folder below the mount point)" if name == "lost+found" else ""),
            )
        for name in _CHECKPOINTS:
            self._parses(place.join(name), lambda path: read_offsets(self.files, path))
        for found in contents.partitions:
            key = (found.topic, found.partition)
            folder = place.join(filenames.partition_directory(*key))
            self._parses(
                os.path.join(folder, filenames.LEADER_EPOCHS),
                lambda path: LeaderEpochs.load(self.files, path),
            )
            first = self.places.setdefault(key, place)
            if first is not place:
                report.refuse(folder, f"the same partition is in {first.path}: it would not start")
        for folder, retired in contents.retired.items():
            self._tell_retired(place.join(folder), retired)

    def _parses(self, path: str, read: Callable[[str], object]) -> None:
        try:
            read(path)
        except CorruptFileError as error:
            self.report.refuse(path, f"{error.reason}: a broker does not start with it")

    def _warn_of_lone_copies(self) -> None:
        """A move's unfinished copy without the partition itself; known once all dirs were seen."""
        for place in self.dirs:
            for folder, name in self.contents[place.path].retired.items():
                if name.state == FUTURE and (name.topic, name.partition) not in self.places:
                    self.report.warn(
                        place.join(folder),
                        "a copy that a move had not finished, and the partition itself is not "
                        "here: a broker whose metadata has it in another directory begins an "
                        "empty one there, and empties this. Where it is all that is left, rename "
                        f"it to {filenames.partition_directory(name.topic, name.partition)}",
                    )

    def _tell_retired(self, path: str, name: PartitionName) -> None:
        what = {
            STRAY: "put aside by a broker that did not know it; never served, never removed",
            FUTURE: "a move between directories that is not finished; the broker goes on with it",
            DELETE: "waits for its deletion",
        }
        self.report.note(path, what[name.state])

    def topic_id(self, key: tuple[str, int]) -> str | None:
        folder = self.places[key].join(filenames.partition_directory(*key))
        return read_topic_id(self.files, folder)

    def warn_of_replicas(self, topics: Iterable[str] | None) -> None:
        """What can be seen from here of other replicas: a high watermark below the log's end."""
        seen = False
        for key, place in sorted(self.places.items()):
            if topics is not None and key[0] not in topics:
                continue
            folder = place.join(filenames.partition_directory(*key))
            try:
                mark = read_offsets(self.files, place.join(filenames.HIGH_WATERMARKS)).get(key)
                end = peek_end_offset(self.files, folder, 0)
            except KStoreError:
                continue  # was refused above
            if mark is not None and mark < end:
                seen = True
                self.report.warn(
                    folder,
                    f"the high watermark {mark} is below the log end {end}: other replicas had "
                    "not got everything. " + _REPLICATED,
                )
        if not seen:
            self.report.note(
                ", ".join(place.path for place in self.dirs),
                "whether other brokers have replicas of these partitions cannot be seen from "
                "here. If so: " + _REPLICATED,
            )


_REPLICATED = (
    "what is appended while the broker is down is unknown to the other replicas. As a follower it "
    "cuts its log back to the leader's by leader epoch; as the leader its followers part from it "
    "unseen, since the epoch is not raised. Append only where this is the only replica"
)


# --- to a broker ------------------------------------------------------------------------------


def plan_handover(
    source: Paths,
    broker: Paths,
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    files: Files = DISK,
) -> HandoverReport:
    """What handing partitions of kstore's over to a stopped broker would do; nothing is changed.

    Parameters
    ----------
    source
        kstore's log directory, or several.
    broker
        All of the broker's log directories (``log.dirs``).
    topics
        Which topics; by default all but Kafka's internal ones.
    topic_ids
        Ids (22 characters) that the broker knows topics by, for folders that it has lost.
    """
    report = HandoverReport()
    there = _Broker(files, broker, report)
    there.check()
    if set(absolute_paths(source)) & set(absolute_paths(broker)):
        report.refuse(str(source), "source and broker are the same directory: nothing to hand over")
        return report
    wanted = None if topics is None else list(topics)
    with open_store(source, "r") as store:
        names = list(store) if wanted is None else wanted
        for name in names:
            if name not in store:
                report.refuse(name, "there is no such topic in the source")
            elif wanted is None and name in _INTERNAL:
                report.note(name, "left out: a broker keeps its own; name it to hand it over")
            else:
                for log in store[name]:
                    plan = PartitionPlan(
                        name,
                        log.partition,
                        log.path,
                        _target(there, (name, log.partition)),
                        (topic_ids or {}).get(name),
                        log.start_offset,
                        log.end_offset,
                        log.size,
                    )
                    report.partitions.append(plan)
    for plan in report.partitions:
        _check_partition(there, plan, topic_ids or {})
    _check_counts(there, report)
    for path in absolute_paths(source):
        if files.probe(os.path.join(path, filenames.LOCK)):
            report.refuse(path, ".lock is held: another process writes here; close it first")
    there.warn_of_replicas({plan.topic for plan in report.partitions})
    return report


def _target(there: _Broker, key: tuple[str, int]) -> str:
    place = there.places.get(key)
    if place is None:
        live = sorted(there.dirs, key=lambda each: each.partition_count)
        if not live:
            return ""
        place = live[0]
    return place.join(filenames.partition_directory(*key))


def _check_partition(there: _Broker, plan: PartitionPlan, topic_ids: Mapping[str, str]) -> None:
    report, key = there.report, (plan.topic, plan.partition)
    given = topic_ids.get(plan.topic)
    if given is not None:
        try:
            uuid_from_text(given)
        except ValueError as error:
            report.refuse(plan.topic, str(error))
            return
    if key not in there.places:
        if given is None and report.kind != ZOOKEEPER:
            report.refuse(
                plan.target,
                "the broker has no such partition: it would rename the folder to -stray. Create "
                f"the topic on it first (kafka-topics --create --topic {plan.topic}), stop it "
                "cleanly, and try again; or give the id that it knows the topic by",
            )
        elif given is None:
            report.note(
                plan.target,
                "the broker serves it once the topic is created there; the folder is then adopted",
            )
        return
    try:
        found = there.topic_id(key)
    except CorruptFileError as error:
        report.refuse(plan.target, f"{error.reason}: the broker would not take it for its own")
        return
    if found is None and given is None and report.kind == KRAFT:
        report.refuse(
            plan.target,
            "no partition.metadata: a KRaft broker renames the folder to -stray and begins an "
            "empty one. Give the id that it knows the topic by",
        )
    if found is not None and given is not None and found != given:
        report.refuse(plan.target, f"the broker's partition.metadata has the id {found}: not it")
    unfinished = there.files.kind(os.path.join(plan.target, HANDOVER)) is not None
    end = peek_end_offset(there.files, plan.target, 0)
    if not unfinished and (end > 0 or _log_bytes(there.files, plan.target) > 0):
        report.refuse(
            plan.target,
            f"the broker's partition is not empty (its log ends at {end}): its records would be "
            "lost. Delete and create the topic anew, or choose another",
        )


def _log_bytes(files: Files, folder: str) -> int:
    names = [name for name in files.listdir(folder) if name.endswith(".log")]
    return sum(files.size_of(os.path.join(folder, name)) for name in names)


def _check_counts(there: _Broker, report: HandoverReport) -> None:
    ours: dict[str, set[int]] = {}
    for plan in report.partitions:
        ours.setdefault(plan.topic, set()).add(plan.partition)
    for topic, numbers in ours.items():
        theirs = {partition for name, partition in there.places if name == topic}
        ids = {found for n in theirs if (found := _quiet_id(there, (topic, n))) is not None}
        if len(ids) > 1:
            report.refuse(topic, f"its folders on the broker have different ids: {sorted(ids)}")
        if theirs - numbers:
            report.warn(
                topic,
                f"the broker has {len(theirs)} partitions of it, the source {len(numbers)}: keys "
                "that are appended from now on go to other partitions than before",
            )


def _quiet_id(there: _Broker, key: tuple[str, int]) -> str | None:
    try:
        return there.topic_id(key)
    except CorruptFileError:
        return None  # was refused


def hand_over(
    source: Paths,
    broker: Paths,
    *,
    topics: Iterable[str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    files: Files = DISK,
) -> HandoverReport:
    """Copy partitions into a stopped broker's directories; the source stays as it is.

    Everything is verified before it is copied and compared byte by byte after. A source that was
    not closed cleanly is recovered first. Interrupted it is done again by the same call: until a
    partition is whole a file says so, and its directory counts as not closed cleanly.

    Raises HandoverError, before anything is changed, where :func:`plan_handover` refuses;
    CorruptRecordError for a damaged source; StoreLockedError, StorageError.
    """
    open_store(source).close()  # recovers what is due, and sees that nobody writes here
    names = None if topics is None else list(topics)
    report = plan_handover(source, broker, topics=names, topic_ids=topic_ids, files=files)
    if not report.ok:
        first = next(each for each in report.findings if each.level == REFUSED)
        raise HandoverError(first.sentence, path=first.where)
    locked: list[LogDir] = []
    try:
        for path in (*absolute_paths(source), *absolute_paths(broker)):
            locked.append(LogDir(files, path, writable=True))
        by_path = {place.path: place for place in locked}
        total, done = sum(plan.size for plan in report.partitions), 0
        for plan in report.partitions:
            verify_partition(files, plan.source).raise_if_corrupt()
        targets = {os.path.dirname(plan.target) for plan in report.partitions}
        for path in targets:
            by_path[path].scan()
            by_path[path].begin()  # a crash from here on counts as unclean
        for plan in report.partitions:
            if progress is not None:
                progress(done, total, f"{plan.topic}-{plan.partition}")
            _copy_partition(files, plan)
            _take_over(by_path, plan)
            done += plan.size
        for path in targets:
            by_path[path].finish(clean=True)
        report.executed = True
    finally:
        for place in locked:
            place.release()
    return report


def _take_over(by_path: Mapping[str, LogDir], plan: PartitionPlan) -> None:
    """What the checkpoints of the broker's directory say of the partition from now on."""
    key = (plan.topic, plan.partition)
    ours = by_path[os.path.dirname(plan.source)]
    bases = [
        found.base_offset
        for name in ours.files.listdir(plan.source)
        if (found := filenames.parse(name)) is not None
        and found.kind == filenames.LOG
        and not found.suffix
    ]
    start = plan.start_offset if plan.start_offset > min(bases, default=0) else None
    state = LogState(plan.end_offset, start, plan.end_offset)
    theirs = by_path[os.path.dirname(plan.target)]
    theirs.take_over(key, state, ours.cleaner_offset(key))
    theirs.files.remove(os.path.join(plan.target, HANDOVER))
    theirs.files.sync_directory(plan.target)


def _copy_partition(files: Files, plan: PartitionPlan) -> None:
    """Put a partition's files into the broker's folder in place of its empty segment."""
    target = plan.target
    if files.kind(target) is None:
        files.make_directory(target)
    if plan.topic_id is not None:
        write_topic_id(files, target, plan.topic_id)
    files.write_atomically(os.path.join(target, HANDOVER), b'{"format":1}\n')
    names = [name for name in files.listdir(plan.source) if _goes_over(name)]
    for name in names:
        made = os.path.join(target, name + CLEANED_SUFFIX)  # left behind it is worthless to all
        size = files.size_of(os.path.join(plan.source, name))
        files.copy(os.path.join(plan.source, name), made, size)
        _compare(files, os.path.join(plan.source, name), made)
    for name in files.listdir(target):
        if not name.endswith(CLEANED_SUFFIX) and _goes_over(name):
            files.remove(os.path.join(target, name))
    for name in names:
        made = os.path.join(target, name)
        files.rename(made + CLEANED_SUFFIX, made)
        files.set_modified_ns(made, files.modified_ns(os.path.join(plan.source, name)))
    files.sync_directory(target)
    files.sync_directory(os.path.dirname(target))


def _goes_over(name: str) -> bool:
    """Segments, their indexes, snapshots and leader epochs; neither ids nor kstore's own."""
    found = filenames.parse(name)
    return name == filenames.LEADER_EPOCHS or (found is not None and not found.suffix)


def _compare(files: Files, source: str, copy: str) -> None:
    ours = files.open(source)
    try:
        theirs = files.open(copy)
        try:
            position = 0
            while data := files.pread(ours, _CHUNK, position):
                if files.pread(theirs, _CHUNK, position) != data:
                    raise StorageError("the copy is not what was copied", path=copy)
                position += len(data)
            if files.size(theirs) != position:
                raise StorageError("the copy is longer than what was copied", path=copy)
        finally:
            files.close(theirs)
    finally:
        files.close(ours)


# --- and back ---------------------------------------------------------------------------------


def check_broker(broker: Paths, *, files: Files = DISK) -> HandoverReport:
    """What to know before kstore writes in a stopped broker's directories; nothing is changed."""
    report = HandoverReport()
    there = _Broker(files, broker, report)
    there.check()
    for place in there.dirs:
        if files.kind(place.join(_METADATA)) is not None:
            report.note(place.join(_METADATA), "the cluster's metadata: kstore leaves it alone")
        loose = [n for n in there.contents[place.path].files if n.startswith("kstore.offsets.")]
        if loose and ("__consumer_offsets", 0) not in there.places:
            report.warn(
                place.join(loose[0]),
                "the next writer would make __consumer_offsets of it, a topic that the broker "
                "does not know and would rename to -stray: remove the file",
            )
    there.warn_of_replicas(None)
    return report
