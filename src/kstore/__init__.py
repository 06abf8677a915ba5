"""kstore: Apache Kafka's log as a Python library.

Public names are resolved on first use (PEP 562), so ``import kstore`` costs about a
millisecond and loads neither numpy, numba, asyncio, pyarrow nor pyspark.
"""

import sys

if sys.platform != "linux":
    raise ImportError(
        f"kstore runs on Linux only, not on {sys.platform}: it relies on Linux's open file "
        "description locks, sendfile and fallocate"
    )
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "kstore does not support free-threaded Python: its classes state their thread safety "
        "with the GIL in place; run it with PYTHON_GIL=1 or on a standard build"
    )

TYPE_CHECKING = False  # not typing's: importing typing alone would cost several milliseconds
if TYPE_CHECKING:
    from types import FrameType

    from kstore import errors as errors
    from kstore import jit as jit
    from kstore import spark as spark
    from kstore import testing as testing
    from kstore.broker.broker import Broker as Broker
    from kstore.broker.broker import serve as serve
    from kstore.client.consumer import Consumer as Consumer
    from kstore.client.consumer_batch import ConsumerBatch as ConsumerBatch
    from kstore.client.delivery import Delivery as Delivery
    from kstore.client.producer import MultiTopicProducer as MultiTopicProducer
    from kstore.client.producer import Producer as Producer
    from kstore.client.record_metadata import RecordMetadata as RecordMetadata
    from kstore.client.transactional_producer import TransactionalProducer as TransactionalProducer
    from kstore.config import LogConfig as LogConfig
    from kstore.config import StoreConfig as StoreConfig
    from kstore.coordinator.group.list_groups import CommittedOffset as CommittedOffset
    from kstore.coordinator.group.list_groups import ConsumerGroup as ConsumerGroup
    from kstore.errors import *  # noqa: F403  # each as kstore.NAME, too
    from kstore.errors import KStoreError as KStoreError
    from kstore.log.append_info import AppendInfo as AppendInfo
    from kstore.log.batch_headers import RecordBatchInfo as RecordBatchInfo
    from kstore.log.group_commit import Committer as Committer
    from kstore.log.log import Log as Log
    from kstore.log.offset_and_timestamp import OffsetAndTimestamp as OffsetAndTimestamp
    from kstore.log.retention_report import RetentionReport as RetentionReport
    from kstore.log.shared_committer import SharedCommitter as SharedCommitter
    from kstore.log.view import LogView as LogView
    from kstore.log.watch import LogEvents as LogEvents
    from kstore.maintenance.repair import RepairReport as RepairReport
    from kstore.maintenance.repair import plan_repair as plan_repair
    from kstore.maintenance.repair import repair as repair
    from kstore.record import Record as Record
    from kstore.record.columns import Columns as Columns
    from kstore.record.columns import Ragged as Ragged
    from kstore.store.open_store import open as open
    from kstore.store.open_store import verify as verify
    from kstore.store.store import Store as Store
    from kstore.store.topic import Topic as Topic
    from kstore.store.topic_differences import TopicEvent as TopicEvent
    from kstore.store.topic_differences import TopicEventType as TopicEventType
    from kstore.topic_partition import Position as Position
    from kstore.topic_partition import TopicPartition as TopicPartition

__version__ = "0.1.0"

_HOME = {
    "AppendInfo": "kstore.log.append_info",
    "Broker": "kstore.broker.broker",
    "Columns": "kstore.record.columns",
    "CommittedOffset": "kstore.coordinator.group.list_groups",
    "Committer": "kstore.log.group_commit",
    "Consumer": "kstore.client.consumer",
    "ConsumerBatch": "kstore.client.consumer_batch",
    "ConsumerGroup": "kstore.coordinator.group.list_groups",
    "Delivery": "kstore.client.delivery",
    "KStoreError": "kstore.errors",
    "Log": "kstore.log.log",
    "LogConfig": "kstore.config",
    "LogEvents": "kstore.log.watch",
    "LogView": "kstore.log.view",
    "MultiTopicProducer": "kstore.client.producer",
    "OffsetAndTimestamp": "kstore.log.offset_and_timestamp",
    "Position": "kstore.topic_partition",
    "Producer": "kstore.client.producer",
    "Ragged": "kstore.record.columns",
    "Record": "kstore.record",
    "RecordBatchInfo": "kstore.log.batch_headers",
    "RecordMetadata": "kstore.client.record_metadata",
    "RepairReport": "kstore.maintenance.repair",
    "RetentionReport": "kstore.log.retention_report",
    "SharedCommitter": "kstore.log.shared_committer",
    "Store": "kstore.store.store",
    "StoreConfig": "kstore.config",
    "Topic": "kstore.store.topic",
    "TopicEvent": "kstore.store.topic_differences",
    "TopicEventType": "kstore.store.topic_differences",
    "TopicPartition": "kstore.topic_partition",
    "TransactionalProducer": "kstore.client.transactional_producer",
    "open": "kstore.store.open_store",
    "plan_repair": "kstore.maintenance.repair",
    "repair": "kstore.maintenance.repair",
    "serve": "kstore.broker.broker",
}
_MODULES = ("errors", "jit", "spark", "testing", "verify")

__all__ = ["__version__", *_MODULES, *_HOME]


class _CallablePackage(type(sys)):  # type: ignore[misc]  # types.ModuleType, without its import
    """The package ``kstore.verify``, which is called as a function: ``kstore.verify("data")``."""

    def __call__(self, path: object, **options: object) -> object:
        from kstore.store.open_store import verify

        return verify(path, **options)  # type: ignore[arg-type]


def __getattr__(name: str) -> object:
    """Import the module that defines a public name, once."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"kstore.{name}")
    home = _HOME.get(name)
    if home is None and name.endswith(("Error", "Warning")):
        home = "kstore.errors" if name in vars(import_module("kstore.errors")) else None
    if home is None:
        raise _missing("kstore", name, sys._getframe(1))
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _missing(module: str, name: str, caller: "FrameType") -> AttributeError | ImportError:
    """The error for a name that the module has not; ``caller`` is the frame that asked for it."""
    from kstore.hints.kafka_names import of_module
    from kstore.hints.missing_names import missing_of_module

    return missing_of_module(module, name, of_module(name), caller)


def __dir__() -> list[str]:
    return sorted(__all__)
