"""DescribeLogDirs and AlterReplicaLogDirs: the contents of log directories, and moves."""

import logging
import os
from collections.abc import Mapping
from functools import partial

from kstore.broker.alter_replica_log_dirs import AlterReplicaLogDirs, PartitionKey
from kstore.broker.api_table import Api
from kstore.broker.handlers.controller_work import error_of
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage
from kstore.errors import KStoreError, StorageError
from kstore.files.filenames import LOG, parse_partition_directory, partition_directory
from kstore.files.files import Files
from kstore.integers import INT64_MAX
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kstore.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kstore.store.log_dir_info import LogDirInfo
from kstore.store.partition_factory import peek_end_offset

_LOGGER = logging.getLogger("kstore.broker")
_WORK_KEY = "log-dirs"  # of the disk workers
_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_Result = DescribeLogDirsResponse.Results
_Partition = DescribeLogDirsResponse.Results.Topics.Partitions


class LogDirHandlers:
    """Serves log directories. Loop's thread only; disk workers read the directories."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._moves = AlterReplicaLogDirs(services.store)
        services.metadata.on_change(self._follow_settings)
        self._follow_settings(None, services.metadata.image)
        self._moves.resume()

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, self.describe_log_dirs),
            Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, self.alter_replica_log_dirs),
        ]

    def _follow_settings(self, _old: ClusterImage | None, new: ClusterImage) -> None:
        """On the thread that changed the settings, if any did."""
        self._moves.set_rate(int(new.broker_config.get(_RATE, INT64_MAX)))

    # --- describe -------------------------------------------------------------------------

    def describe_log_dirs(self, request: Request) -> Answer:
        """Describe the partitions of each directory. Null topics mean all; an offline directory has
        the error KAFKA_STORAGE_ERROR."""
        asked = DescribeLogDirsRequest.decode(request.reader, request.api_version)
        wanted: set[PartitionKey] | None = None
        if asked.topics is not None:
            wanted = {
                (topic.topic, number) for topic in asked.topics for number in topic.partitions
            }
        pending = Pending()

        def done(results: list[_Result] | None, error: BaseException | None) -> None:
            response = DescribeLogDirsResponse(results=results or [])
            if error is not None:
                response.error_code, _ = error_of(error)
            pending.complete(response)

        self._services.workers.submit(_WORK_KEY, partial(self._describe, wanted), done)
        return pending

    def _describe(self, wanted: set[PartitionKey] | None) -> list[_Result]:
        targets = self._moves.targets()
        store = self._services.store
        return [
            self._directory(info, log_dir.files, wanted, targets)
            for info, log_dir in zip(store.log_dirs, store._manager._dirs, strict=True)
        ]

    def _directory(
        self,
        info: LogDirInfo,
        files: Files,
        wanted: set[PartitionKey] | None,
        targets: Mapping[PartitionKey, str],
    ) -> _Result:
        result = _Result(log_dir=os.path.abspath(info.path))
        if info.offline is not None:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return result
        result.total_bytes, result.usable_bytes = files.disk_space(info.path)
        futures = {
            (name.topic, name.partition): folder
            for folder in info.futures
            if (name := parse_partition_directory(folder)) is not None
        }
        topics: dict[str, list[_Partition]] = {}
        for key in info.partitions:
            if wanted is None or key in wanted:
                size = _size(files, os.path.join(info.path, partition_directory(*key)))
                topics.setdefault(key[0], []).append(_Partition(key[1], size))
        for key, path in targets.items():
            if os.path.abspath(path) == result.log_dir and key not in info.partitions:
                futures.setdefault(key, "")
        for key, folder in sorted(futures.items()):
            if wanted is None or key in wanted:
                future = self._future(
                    key, files, os.path.join(info.path, folder) if folder else None
                )
                topics.setdefault(key[0], []).append(future)
        result.topics = [_Result.Topics(name, found) for name, found in topics.items()]
        return result

    def _future(self, key: PartitionKey, files: Files, path: str | None) -> _Partition:
        """A future replica, the copy of a partition in progress; its lag is counted in offsets."""
        topic, number = key
        end = copied = 0
        log = self._services.store.get(topic)
        if log is not None and number in log.partitions:
            end = log[number].end_offset
        if path is not None:
            copied = peek_end_offset(files, path, 0)
        size = 0 if path is None else _size(files, path)
        return _Partition(number, size, max(0, end - copied), True)

    # --- move -----------------------------------------------------------------------------

    def alter_replica_log_dirs(self, request: Request) -> Answer:
        """Queue the moves, and respond without waiting for them. If a request names a partition
        repeatedly, its last directory applies."""
        asked = AlterReplicaLogDirsRequest.decode(request.reader, request.api_version)
        wanted: dict[str, dict[int, str]] = {}
        for directory in asked.dirs:
            for topic in directory.topics:
                for number in topic.partitions:
                    wanted.setdefault(topic.name, {})[number] = directory.path
        pending = Pending()

        def done(response: AlterReplicaLogDirsResponse, error: BaseException | None) -> None:
            if error is not None:
                code, _ = error_of(error)
                response = _answered({name: dict.fromkeys(of, code) for name, of in wanted.items()})
            pending.complete(response)

        work = partial(self._begin_moves, wanted, request.image)
        self._services.workers.submit(_WORK_KEY, work, done)
        return pending

    def _begin_moves(
        self, wanted: Mapping[str, Mapping[int, str]], image: ClusterImage
    ) -> AlterReplicaLogDirsResponse:
        dirs = {os.path.abspath(info.path): info for info in self._services.store.log_dirs}
        codes: dict[str, dict[int, ErrorCode]] = {}
        for topic, partitions in wanted.items():
            for number, path in partitions.items():
                info, error = dirs.get(path), ErrorCode.NONE
                partition = image.partition(topic, number)
                if info is None:
                    error = ErrorCode.LOG_DIR_NOT_FOUND
                elif info.offline is not None:
                    error = ErrorCode.KAFKA_STORAGE_ERROR
                elif partition is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif partition.leader < 0:
                    error = ErrorCode.KAFKA_STORAGE_ERROR
                else:
                    try:
                        self._moves.request(topic, number, info.path)
                    except KStoreError as failure:  # the system has no thread left
                        _LOGGER.error("%s-%d is not moved: %s", topic, number, failure)
                        error = ErrorCode.UNKNOWN_SERVER_ERROR
                codes.setdefault(topic, {})[number] = error
        return _answered(codes)


def _answered(codes: Mapping[str, Mapping[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    result = AlterReplicaLogDirsResponse.Results
    return AlterReplicaLogDirsResponse(
        results=[
            result(name, [result.Partitions(number, code) for number, code in found.items()])
            for name, found in codes.items()
        ]
    )


def _size(files: Files, folder: str) -> int:
    """The size of a partition's log files; ignores files deleted meanwhile."""
    size = 0
    path = folder
    try:
        for name in files.listdir(folder):
            path = os.path.join(folder, name)
            if name.endswith(f".{LOG}") and files.kind(path) is not None:
                size += files.size_of(path)
    except StorageError:
        if files.kind(path) is not None:
            raise
    return size
