"""OffsetCommit and OffsetFetch: the committed offsets of groups."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.clock import now_ms
from kstore.cluster.image import ClusterImage
from kstore.coordinator.group.offset_records import (
    Commits,
    OffsetCommit,
    PartitionKey,
    metadata_length,
)
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services

FetchedTopic = OffsetFetchResponse.Topics
FetchedGroup = OffsetFetchResponse.Groups
CommittedTopic = OffsetCommitResponse.Topics
_GENERATION_FROM = 1  # of OffsetCommit: earlier versions have no members
_DEFAULT_RETENTION = -1
_TOP_LEVEL_ERROR_FROM, _GROUPS_FROM = 2, 8  # of OffsetFetch


class GroupOffsetHandlers:
    """Serves OffsetCommit and OffsetFetch."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._service = group_service(services)

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.OFFSET_COMMIT, 0, 9, self.offset_commit),
            Api(ApiKey.OFFSET_FETCH, 0, 9, self.offset_fetch),
        ]

    # --- OffsetCommit -----------------------------------------------------------------------

    def offset_commit(self, request: Request) -> Answer:
        """Respond once the commits are in ``__consumer_offsets``."""
        version = request.api_version
        message = OffsetCommitRequest.decode(request.reader, version)
        service = self._service
        errors: dict[PartitionKey, ErrorCode] = {}
        commits = self._valid_commits(message, request.image, errors)
        error = service.check(message.group_id, allows_empty=True)
        if error == ErrorCode.NONE:
            has_members = version >= _GENERATION_FROM
            error = service.check_commit(
                message.group_id,
                message.member_id if has_members else "",
                message.group_instance_id,
                message.generation_id_or_member_epoch if has_members else -1,
                version,
            )
        # an error of the group takes precedence over one of a partition's metadata
        if error != ErrorCode.NONE:
            for key in [*commits, *errors]:
                if errors.get(key) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    errors[key] = error
            return _committed(message, errors)
        if not commits:
            return _committed(message, errors)
        pending = Pending()

        def done(failed: ErrorCode, refused: frozenset[PartitionKey]) -> None:
            unknown = dict.fromkeys(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = dict.fromkeys(commits, failed) | errors | unknown
            pending.complete(_committed(message, found))

        service.commit(message.group_id, commits, done)
        return pending

    def _valid_commits(
        self,
        message: OffsetCommitRequest,
        image: ClusterImage,
        errors: dict[PartitionKey, ErrorCode],
    ) -> Commits:
        """The valid commits; the others get an entry in ``errors``."""
        most = self._services.settings.offset_metadata_max_bytes
        expires = -1
        if message.retention_time_ms != _DEFAULT_RETENTION:
            expires = now_ms() + message.retention_time_ms
        commits: Commits = {}
        for topic in message.topics:
            for each in topic.partitions:
                key = topic.name, each.partition_index
                metadata = each.committed_metadata or ""
                if image.partition(*key) is None:
                    errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif metadata_length(metadata) > most:
                    errors[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    commits[key] = OffsetCommit(
                        each.committed_offset, -1, metadata, each.committed_leader_epoch, expires
                    )
        return commits

    # --- OffsetFetch ------------------------------------------------------------------------

    def offset_fetch(self, request: Request) -> Answer:
        """Return the committed offsets of one group or, since version 8, of several."""
        version = request.api_version
        message = OffsetFetchRequest.decode(request.reader, version)
        if version >= _GROUPS_FROM:
            asked = [(each.group_id, _wanted(each.topics)) for each in message.groups]
            members = {
                each.group_id: (each.member_id, each.member_epoch) for each in message.groups
            }
        else:
            asked = [(message.group_id, _wanted(message.topics))]
            members = {}
        answers: list[FetchedGroup | None] = [None] * len(asked)
        pending = Pending()

        def take(index: int, answer: FetchedGroup) -> None:
            answers[index] = answer
            found = [each for each in answers if each is not None]
            if len(found) == len(answers):
                pending.complete(_fetched(version, found))

        if not asked:
            return OffsetFetchResponse()
        for index, (group_id, wanted) in enumerate(asked):
            member = members.get(group_id, (None, -1))
            self._fetch(group_id, wanted, message.require_stable, member, partial(take, index))
        return pending

    def _fetch(
        self,
        group_id: str,
        wanted: list[PartitionKey] | None,
        require_stable: bool,
        member: tuple[str | None, int],
        then: Callable[[FetchedGroup], object],
    ) -> None:
        def done(error: ErrorCode, commits: Commits, unstable: set[PartitionKey]) -> None:
            if error != ErrorCode.NONE:
                then(FetchedGroup(group_id, _topics(wanted or (), {}, set(), error), int(error)))
                return
            keys = sorted(commits) if wanted is None else wanted
            then(FetchedGroup(group_id, _topics(keys, commits, unstable, error)))

        error = self._service.check(group_id, allows_empty=True)
        if error == ErrorCode.NONE:
            error = self._service.consumers.coordinator.check_fetch(group_id, *member)
        if error != ErrorCode.NONE:
            done(error, {}, set())
            return

        def fetched(error: ErrorCode, commits: Commits, unstable: set[PartitionKey]) -> None:
            done(error, commits, unstable if require_stable else set())

        self._service.fetch(group_id, fetched)


def _committed(
    message: OffsetCommitRequest, errors: dict[PartitionKey, ErrorCode]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            CommittedTopic(
                topic.name,
                [
                    CommittedTopic.Partitions(
                        each.partition_index, int(errors[topic.name, each.partition_index])
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _wanted(
    topics: "list[OffsetFetchRequest.Topics] | list[OffsetFetchRequest.Groups.Topics] | None",
) -> list[PartitionKey] | None:
    """The requested partitions, each once; None: all that have a committed offset."""
    if topics is None:
        return None
    keys = [(topic.name, number) for topic in topics for number in topic.partition_indexes]
    return list(dict.fromkeys(keys))


def _topics(
    keys: Iterable[PartitionKey],
    commits: Commits,
    unstable: set[PartitionKey],
    error: ErrorCode,
) -> list[FetchedGroup.Topics]:
    """An entry for each partition; offset -1 if none is committed."""
    topics: dict[str, FetchedGroup.Topics] = {}
    for key in keys:
        answer = FetchedGroup.Topics.Partitions(key[1], -1, -1, "", int(error))
        commit = commits.get(key)
        if key in unstable:
            answer.error_code = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        elif commit is not None:
            answer.committed_offset = commit.offset
            answer.committed_leader_epoch = commit.leader_epoch
            answer.metadata = commit.metadata
        topics.setdefault(key[0], FetchedGroup.Topics(key[0])).partitions.append(answer)
    return list(topics.values())


def _fetched(version: int, groups: list[FetchedGroup]) -> OffsetFetchResponse:
    """The response for a version: the error belongs to the group, in older versions to the
    response, and in the oldest to each partition."""
    if version >= _GROUPS_FROM:
        for each in groups:
            if each.error_code:
                each.topics = []
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        FetchedTopic(
            topic.name,
            [
                FetchedTopic.Partitions(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    if group.error_code and version >= _TOP_LEVEL_ERROR_FROM:
        topics = []
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)
