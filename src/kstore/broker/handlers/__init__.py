"""The handlers of Kafka's APIs, one module for each family.

Modules:

- acls: Who may do what
- api_versions: Which APIs this broker serves, in which versions
- auto_create_topics: Topics that clients ask for and that do not exist yet
- client_quotas: Limits of users, client ids and addresses
- cluster: The cluster image in the newer messages
- configs: Settings of topics and of this broker, levels of loggers
- consumer_groups: Members of consumer groups (KIP-848)
- controller_work: Changes of the metadata on a disk worker, within a time
- delete_records: Raises the start of logs
- describe_producers: The producer state of partitions
- elections: Leaders and reassignments, where every partition has one replica
- fetch: Records for consumers and followers
- find_coordinator: The broker that coordinates a group or a transactional id
- group_admin: Groups as an administrator sees them
- group_offsets: The committed offsets of groups
- groups: The membership of groups
- leader_epochs: Where the records of a leader epoch end
- list_offsets: Offsets by time, and the ends of logs
- log_dirs: What is in which log directory, and moves between them
- metadata: Brokers, topics, partitions and their leaders
- produce: Batches of clients, appended to logs
- producer_ids: Producer ids for idempotent and transactional producers
- quorum: The quorum of one voter
- sasl: Clients prove who they are
- scram_users: The users of SCRAM are described, set and removed
- topics: Topics are created and deleted, partitions added
- transaction_admin: Transactions as an administrator sees and ends them
- transaction_offsets: Offsets of groups that count when a transaction commits
- transactions: Producers' transactions, step by step
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kstore.broker.api_table import Api
    from kstore.broker.services import Services


class Handlers(Protocol):
    """A family of APIs. One object for each broker, used on its loop's thread."""

    def __init__(self, services: "Services") -> None: ...
    def apis(self) -> "list[Api]": ...


def handler_classes() -> "list[type[Handlers]]":
    """Every family that a broker serves."""
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
