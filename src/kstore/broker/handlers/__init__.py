"""The handlers of Kafka's APIs, one module for each family.

Modules:

- acls: Access control lists
- api_versions: The APIs and versions that this broker serves
- auto_create_topics: Creates missing topics that clients request
- client_quotas: Limits of users, client ids and addresses
- cluster: DescribeCluster and DescribeTopicPartitions
- configs: Configs of topics and of this broker, and log levels
- consumer_groups: Members of consumer groups (KIP-848)
- controller_work: Runs metadata changes on a disk worker, with a timeout
- delete_records: Advances log start offsets
- describe_producers: The producer state of partitions
- elections: Leader elections and reassignments
- fetch: Sends records to consumers and followers
- find_coordinator: The broker that coordinates a group or a transactional id
- group_admin: Describes, lists and deletes groups
- group_offsets: The committed offsets of groups
- groups: The members of classic groups
- leader_epochs: The end offsets of leader epochs
- list_offsets: Offsets by timestamp, and log start and end offsets
- log_dirs: The contents of log directories, and moves between them
- metadata: Brokers, topics, partitions and their leaders
- produce: Appends client batches to logs
- producer_ids: Producer ids for idempotent and transactional producers
- quorum: Describes the quorum, which has one voter
- sasl: SASL authentication
- scram_users: SCRAM credentials
- topics: Creates and deletes topics, and adds partitions
- transaction_admin: Describes, lists and ends transactions
- transaction_offsets: Offsets committed in transactions
- transactions: The transactions of producers
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kstore.broker.api_table import Api
    from kstore.broker.services import Services


class Handlers(Protocol):
    """A family of APIs. Each broker has one instance, used on its event loop's thread."""

    def __init__(self, services: "Services") -> None: ...
    def apis(self) -> "list[Api]": ...


def handler_classes() -> "list[type[Handlers]]":
    """All API families that a broker serves."""
    from kstore.broker.handlers.acls import AclHandlers
    from kstore.broker.handlers.api_versions import ApiVersionsHandlers
    from kstore.broker.handlers.client_quotas import ClientQuotaHandlers
    from kstore.broker.handlers.cluster import ClusterHandlers
    from kstore.broker.handlers.configs import ConfigHandlers
    from kstore.broker.handlers.consumer_groups import ConsumerGroupHandlers
    from kstore.broker.handlers.delete_records import DeleteRecordsHandlers
    from kstore.broker.handlers.describe_producers import DescribeProducersHandlers
    from kstore.broker.handlers.elections import ElectionHandlers
    from kstore.broker.handlers.fetch import FetchHandlers
    from kstore.broker.handlers.find_coordinator import FindCoordinatorHandlers
    from kstore.broker.handlers.group_admin import GroupAdminHandlers
    from kstore.broker.handlers.group_offsets import GroupOffsetHandlers
    from kstore.broker.handlers.groups import GroupHandlers
    from kstore.broker.handlers.leader_epochs import LeaderEpochHandlers
    from kstore.broker.handlers.list_offsets import ListOffsetsHandlers
    from kstore.broker.handlers.log_dirs import LogDirHandlers
    from kstore.broker.handlers.metadata import MetadataHandlers
    from kstore.broker.handlers.produce import ProduceHandlers
    from kstore.broker.handlers.producer_ids import ProducerIdHandlers
    from kstore.broker.handlers.quorum import QuorumHandlers
    from kstore.broker.handlers.sasl import SaslHandlers
    from kstore.broker.handlers.scram_users import ScramUserHandlers
    from kstore.broker.handlers.topics import TopicHandlers
    from kstore.broker.handlers.transaction_admin import TransactionAdminHandlers
    from kstore.broker.handlers.transaction_offsets import TransactionOffsetHandlers
    from kstore.broker.handlers.transactions import TransactionHandlers

    return [
        AclHandlers,
        ApiVersionsHandlers,
        ClientQuotaHandlers,
        ClusterHandlers,
        ConfigHandlers,
        ConsumerGroupHandlers,
        DeleteRecordsHandlers,
        DescribeProducersHandlers,
        ElectionHandlers,
        FetchHandlers,
        FindCoordinatorHandlers,
        GroupAdminHandlers,
        GroupHandlers,
        GroupOffsetHandlers,
        LeaderEpochHandlers,
        ListOffsetsHandlers,
        LogDirHandlers,
        MetadataHandlers,
        ProduceHandlers,
        ProducerIdHandlers,
        QuorumHandlers,
        SaslHandlers,
        ScramUserHandlers,
        TopicHandlers,
        TransactionAdminHandlers,
        TransactionHandlers,
        TransactionOffsetHandlers,
    ]
