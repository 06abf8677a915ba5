"""The objects that request handlers share."""

from dataclasses import field
from typing import TYPE_CHECKING

from kstore.broker.api_table import ApiTable
from kstore.broker.client_throttling import ClientThrottling
from kstore.broker.purgatory_size import PurgatorySize
from kstore.lazy_dataclass import lazy_dataclass

if TYPE_CHECKING:
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.durable_commits import DurableCommits
    from kstore.broker.full_disk import FullDisk
    from kstore.broker.group_service import GroupService
    from kstore.broker.loop import Loop
    from kstore.broker.metrics.counters import BrokerCounters
    from kstore.broker.partitions import Partitions
    from kstore.broker.produce_turns import ProduceTurns
    from kstore.broker.settings import BrokerSettings
    from kstore.broker.transaction_service import TransactionService
    from kstore.cluster.metadata import Metadata
    from kstore.security.acl_store import AclStore
    from kstore.security.credentials import Credentials
    from kstore.security.security_settings import SecuritySettings
    from kstore.store.store import Store


@lazy_dataclass()
class Services:
    """One broker's shared objects, for all its handlers."""

    store: "Store"
    metadata: "Metadata"
    partitions: "Partitions"
    loop: "Loop"
    workers: "DiskWorkers"
    settings: "BrokerSettings"
    apis: ApiTable = field(default_factory=ApiTable)
    security: "SecuritySettings | None" = None  # None: plaintext listeners only
    credentials: "Credentials | None" = None
    acls: "AclStore | None" = None  # None: no authorizer, all operations are allowed
    groups: "GroupService | None" = None  # created by the first group handler
    transactions: "TransactionService | None" = None  # created by the first transaction handler
    produce_turns: "ProduceTurns | None" = None  # created by the Produce handler
    counters: "BrokerCounters | None" = None  # None: nothing is counted
    delayed_fetches: PurgatorySize = field(default_factory=PurgatorySize)
    delayed_produces: PurgatorySize = field(default_factory=PurgatorySize)
    throttling: ClientThrottling = field(default_factory=ClientThrottling)
    full_disk: "FullDisk | None" = None  # None: nothing is reserved
    commits: "DurableCommits | None" = None  # created by the first request that waits for a disk
