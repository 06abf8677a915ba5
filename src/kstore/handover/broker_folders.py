"""Checks a stopped broker's log directories as the broker does when it starts."""

import os
from collections.abc import Callable, Iterable

from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    KStoreError,
    NewerFormatError,
    StorageError,
)
from kstore.handover.report import KRAFT, ZOOKEEPER, HandoverReport
from kstore.handover.stray_folders import find_stray_reason
from kstore.partition_files import (
    ClusterMetadata,
    Contents,
    Files,
    LeaderEpochs,
    LogDir,
    MetaProperties,
    Paths,
    absolute_paths,
    filenames,
    marker_file,
    peek_end_offset,
    read_clean_shutdown,
    read_cluster_metadata,
    read_meta_properties,
    read_offsets,
    read_topic_id,
)

_CHECKPOINTS = (
    filenames.RECOVERY_POINTS,
    filenames.LOG_STARTS,
    filenames.HIGH_WATERMARKS,
    filenames.CLEANER_OFFSETS,
)

_UNCHECKED = (
    "The topic ids were not checked against the cluster metadata; a broker renames a partition "
    "with an unknown id to -stray"
)
_REPLICATED = (
    "the other replicas do not have what is appended while the broker is down. If the broker "
    "becomes a follower, it truncates these records (leader epoch check). If it becomes the "
    "leader, its followers diverge without an error, because the leader epoch does not change. "
    "Append only if this is the only replica"
)


class Broker:
    """A stopped broker's log directories, read only."""

    def __init__(self, files: Files, paths: Paths, report: HandoverReport) -> None:
        self.files = files
        self.report = report
        self.dirs: list[LogDir] = []
        self.contents: dict[str, Contents] = {}
        self.partition_dirs: dict[tuple[str, int], LogDir] = {}
        self.node_id: int | None = None
        self.directory_ids: dict[str, LogDir] = {}
        self.metadata: ClusterMetadata | None = None  # None: not a KRaft broker, or unknown
        for path in absolute_paths(paths):
            if files.kind(path) != "directory":
                report.refuse(path, "the directory does not exist")
                continue
            log_dir = LogDir(files, path, writable=False)
            self.dirs.append(log_dir)
            self.contents[path] = log_dir.scan()

    def check(self, metadata_log_dir: str | None = None) -> None:
        """Report everything that would prevent the broker from starting with these directories.

        ``metadata_log_dir``: the setting of that name, if the cluster metadata log is in none of
        the log directories.
        """
        metas = [(log_dir, self._read_meta_properties(log_dir)) for log_dir in self.dirs]
        known = [(log_dir, meta) for log_dir, meta in metas if meta is not None]
        if known:
            self.report.kind = KRAFT if known[0][1].version == 1 else ZOOKEEPER
            self._check_same_broker(known)
        for log_dir in self.dirs:
            self._check_dir(log_dir)
        self._warn_of_orphaned_future_replicas()
        if self.report.kind == KRAFT:
            self._read_cluster_metadata(metadata_log_dir, known[0][1])

    def _read_meta_properties(self, log_dir: LogDir) -> MetaProperties | None:
        try:
            meta = read_meta_properties(self.files, log_dir.path)
        except CorruptFileError as error:
            self.report.refuse(log_dir.path, f"{error.reason}: the broker would not start")
            return None
        if meta is None:
            self.report.refuse(
                log_dir.path,
                "no meta.properties: no broker has used this directory yet. Format it "
                "(kafka-storage), start the broker, create the topics, stop it",
            )
        return meta

    def _check_same_broker(self, known: list[tuple[LogDir, MetaProperties]]) -> None:
        first = known[0][1]
        self.node_id = first.node_id
        for log_dir, meta in known:
            if (meta.version, meta.cluster_id, meta.node_id) != (
                first.version,
                first.cluster_id,
                first.node_id,
            ):
                self.report.refuse(
                    log_dir.path,
                    f"meta.properties is of node {meta.node_id} in cluster {meta.cluster_id}, "
                    f"{known[0][0].path} of node {first.node_id} in cluster {first.cluster_id}: "
                    "a broker takes only its own directories",
                )
            if meta.directory_id is not None:
                if meta.directory_id in self.directory_ids:
                    self.report.refuse(
                        log_dir.path,
                        f"the directory.id {meta.directory_id} is that of "
                        f"{self.directory_ids[meta.directory_id].path}, too: one is a copy of the "
                        "other",
                    )
                self.directory_ids[meta.directory_id] = log_dir

    def _read_cluster_metadata(self, metadata_log_dir: str | None, meta: MetaProperties) -> None:
        """Read the node's cluster metadata; warn if that fails."""
        paths = [log_dir.path for log_dir in self.dirs]
        if metadata_log_dir is not None:
            paths = [os.path.abspath(metadata_log_dir)]
            self._compare_metadata_dir(paths[0], meta)
        folders = [os.path.join(path, filenames.CLUSTER_METADATA) for path in paths]
        folders = [path for path in folders if self.files.kind(path) == "directory"]
        if len(folders) != 1:
            self.report.warn(
                ", ".join(folders or paths),
                f"found {len(folders)} {filenames.CLUSTER_METADATA} directories, need one. "
                f"{_UNCHECKED}: give the broker's metadata.log.dir",
            )
            return
        try:
            self.metadata = read_cluster_metadata(self.files, folders[0])
        except (CorruptRecordError, StorageError) as error:
            self.report.warn(folders[0], f"cannot read the cluster metadata: {error}. {_UNCHECKED}")

    def _compare_metadata_dir(self, path: str, meta: MetaProperties) -> None:
        try:
            found = read_meta_properties(self.files, path)
        except CorruptFileError as error:
            self.report.refuse(path, f"{error.reason}: the broker would not start")
            return
        if found is None or (found.cluster_id, found.node_id) != (meta.cluster_id, meta.node_id):
            self.report.refuse(path, "its meta.properties is of another node or cluster")

    def stray_reason(self, key: tuple[str, int], topic_id: str | None) -> str | None:
        """The reason that the broker would not serve a folder with this topic id; None if it would
        serve it, or if that is unknown."""
        if self.metadata is None or topic_id is None:
            return None
        return find_stray_reason(self.metadata, self.node_id, self.directory_ids, key, topic_id)

    def assigned_log_dir(self, key: tuple[str, int]) -> LogDir | None:
        """The directory that the cluster metadata assigns a partition to, if known."""
        known = self.metadata
        if known is None or self.node_id is None:
            return None
        replicas = known.partition(known.topic_ids.get(key[0], ""), key[1])
        directory = None if replicas is None else replicas.directory_of(self.node_id)
        return None if directory is None else self.directory_ids.get(directory)

    def is_incomplete(self, folder: str) -> bool:
        """Whether a folder's copy is incomplete; reports a marker of a newer format."""
        try:
            return marker_file.exists(self.files, os.path.join(folder, filenames.HANDOVER))
        except (CorruptFileError, NewerFormatError) as error:
            self.report.refuse(os.path.join(folder, filenames.HANDOVER), error.reason)
            return False

    def _check_dir(self, log_dir: LogDir) -> None:
        report, contents = self.report, self.contents[log_dir.path]
        if self.files.probe(log_dir.join(filenames.LOCK)):
            report.refuse(
                log_dir.path,
                ".lock is held: the broker, or a kstore writer, is running; stop it first",
            )
        elif read_clean_shutdown(self.files, log_dir.path) is None and contents.partitions:
            report.refuse(
                log_dir.path,
                "not closed cleanly: start the broker again, and stop it by SIGTERM",
            )
        for name in contents.unrecognized:
            report.refuse(
                log_dir.join(name),
                "not a partition directory: the broker does not start"
                + (" (use a folder below the mount point)" if name == "lost+found" else ""),
            )
        for name in _CHECKPOINTS:
            self._parses(log_dir.join(name), lambda path: read_offsets(self.files, path))
        for found in contents.partitions:
            key = (found.topic, found.partition)
            folder = log_dir.join(filenames.partition_directory(*key))
            self._parses(
                os.path.join(folder, filenames.LEADER_EPOCHS),
                lambda path: LeaderEpochs.load(self.files, path),
            )
            first = self.partition_dirs.setdefault(key, log_dir)
            if first is not log_dir:
                report.refuse(folder, f"the same partition is in {first.path}: it would not start")
        for folder, retired in contents.retired.items():
            self._report_retired(log_dir.join(folder), retired)

    def _parses(self, path: str, read: Callable[[str], object]) -> None:
        try:
            read(path)
        except CorruptFileError as error:
            self.report.refuse(
                path,
                f"{error.reason}: a broker does not start with it, or takes the directory offline",
            )

    def _warn_of_orphaned_future_replicas(self) -> None:
        """Warn of unfinished copies of moves whose partition is in none of the directories."""
        for log_dir in self.dirs:
            for folder, name in self.contents[log_dir.path].retired.items():
                if (
                    name.state == filenames.FUTURE
                    and (name.topic, name.partition) not in self.partition_dirs
                ):
                    self.report.warn(
                        log_dir.join(folder),
                        "an unfinished future replica without its partition: a broker that has the "
                        "partition assigned to another directory creates it there, empty, and "
                        "empties this copy. If this is the only copy, rename it to "
                        f"{filenames.partition_directory(name.topic, name.partition)}",
                    )

    def _report_retired(self, path: str, name: filenames.PartitionName) -> None:
        what = {
            filenames.STRAY: "a stray replica, renamed by a broker; Kafka neither serves nor "
            "deletes it",
            filenames.FUTURE: "an unfinished move between directories; the broker continues it",
            filenames.DELETE: "waits for its deletion",
        }
        self.report.note(path, what[name.state])

    def folder(self, key: tuple[str, int]) -> str:
        return self.partition_dirs[key].join(filenames.partition_directory(*key))

    def topic_id(self, key: tuple[str, int]) -> str | None:
        return read_topic_id(self.files, self.folder(key))

    def warn_of_replicas(self, topics: Iterable[str] | None) -> None:
        """Warn of signs of other replicas: a high watermark below the log end offset."""
        seen = False
        for key, log_dir in sorted(self.partition_dirs.items()):
            if topics is not None and key[0] not in topics:
                continue
            folder = log_dir.join(filenames.partition_directory(*key))
            try:
                high_watermark = read_offsets(
                    self.files, log_dir.join(filenames.HIGH_WATERMARKS)
                ).get(key)
                end = peek_end_offset(self.files, folder, 0)
            except KStoreError:
                continue  # was refused above
            if high_watermark is not None and high_watermark < end:
                seen = True
                self.report.warn(
                    folder,
                    f"the high watermark {high_watermark} is below the log end {end}: followers "
                    "were behind. " + _REPLICATED,
                )
        if not seen and self.partition_dirs:
            self.report.note(
                ", ".join(log_dir.path for log_dir in self.dirs),
                "whether other brokers have replicas of these partitions cannot be seen from "
                "here. If so: " + _REPLICATED,
            )
