"""TxnOffsetCommit: offsets of a group committed as part of a transaction."""

from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.cluster.image import ClusterImage
from kstore.coordinator.group.offset_records import (
    Commits,
    OffsetCommit,
    PartitionKey,
    metadata_length,
)
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

CommittedTopic = TxnOffsetCommitResponse.Topics
# The first versions with these features.
_LOADING_FROM, _MEMBER_FROM, _ABORTABLE_FROM = 2, 3, 4


class TransactionOffsetHandlers:
    """Serves TxnOffsetCommit."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._groups = group_service(services)
        self._transactions = transaction_service(services)

    def apis(self) -> list[Api]:
        return [Api(ApiKey.TXN_OFFSET_COMMIT, 0, 4, self.commit)]

    def commit(self, request: Request) -> Answer:
        """Respond once the offsets are in ``__consumer_offsets``; a COMMIT marker makes them
        visible."""
        version = request.api_version
        message = TxnOffsetCommitRequest.decode(request.reader, version)
        errors: dict[PartitionKey, ErrorCode] = {}
        commits = self._valid_commits(message, request.image, errors)
        error = self._refusal(message, version)
        if error != ErrorCode.NONE or not commits:
            return _committed(message, dict.fromkeys(commits, error) | errors)
        pending = Pending()

        def done(failed: ErrorCode, refused: frozenset[PartitionKey]) -> None:
            unknown = dict.fromkeys(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = dict.fromkeys(commits, failed) | errors | unknown
            pending.complete(_committed(message, found))

        self._groups.commit_in_transaction(
            message.group_id, commits, message.producer_id, message.producer_epoch, done
        )
        return pending

    def _refusal(self, message: TxnOffsetCommitRequest, version: int) -> ErrorCode:
        """The error that prevents a commit, checked in Kafka's order; or NONE."""
        groups = self._groups
        error = groups.check(message.group_id)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error != ErrorCode.NONE:
            return error
        has_members = version >= _MEMBER_FROM
        error = groups.check_commit(
            message.group_id,
            message.member_id if has_members else "",
            message.group_instance_id if has_members else None,
            message.generation_id if has_members else -1,
            None,
        )
        if error != ErrorCode.NONE:
            return error
        error = self._transactions.verify_append(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            (OFFSETS_TOPIC, groups.partition_of(message.group_id)),
            knows_abortable=version >= _ABORTABLE_FROM,
        )
        if error == ErrorCode.NOT_ENOUGH_REPLICAS:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    def _valid_commits(
        self,
        message: TxnOffsetCommitRequest,
        image: ClusterImage,
        errors: dict[PartitionKey, ErrorCode],
    ) -> Commits:
        """The valid commits; the others get an entry in ``errors``."""
        most = self._services.settings.offset_metadata_max_bytes
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
                        each.committed_offset, -1, metadata, each.committed_leader_epoch
                    )
        return commits


def _committed(
    message: TxnOffsetCommitRequest, errors: dict[PartitionKey, ErrorCode]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
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
