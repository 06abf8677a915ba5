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
    from kstore import errors as errors
    from kstore import jit as jit
    from kstore.config import LogConfig as LogConfig
    from kstore.config import StoreConfig as StoreConfig
    from kstore.consumer import Consumer as Consumer
    from kstore.consumer import ConsumerBatch as ConsumerBatch
    from kstore.errors import KStoreError as KStoreError
    from kstore.log.commit import Committer as Committer
    from kstore.log.log import AppendInfo as AppendInfo
    from kstore.log.log import Log as Log
    from kstore.log.repair import RepairReport as RepairReport
    from kstore.log.repair import plan_repair as plan_repair
    from kstore.log.repair import repair as repair
    from kstore.log.view import LogView as LogView
    from kstore.open_store import open as open
    from kstore.producer import Delivery as Delivery
    from kstore.producer import Producer as Producer
    from kstore.record import Record as Record
    from kstore.record.columns import Columns as Columns
    from kstore.record.columns import Ragged as Ragged
    from kstore.store import Store as Store
    from kstore.topic import Topic as Topic
    from kstore.topic_partition import Position as Position
    from kstore.topic_partition import TopicPartition as TopicPartition
    from kstore.transactions import TransactionalProducer as TransactionalProducer

__version__ = "0.1.0"

_HOME = {
    "AppendInfo": "kstore.log.log",
    "Columns": "kstore.record.columns",
    "Committer": "kstore.log.commit",
    "Consumer": "kstore.consumer",
    "ConsumerBatch": "kstore.consumer",
    "Delivery": "kstore.producer",
    "KStoreError": "kstore.errors",
    "Log": "kstore.log.log",
    "LogConfig": "kstore.config",
    "LogView": "kstore.log.view",
    "Position": "kstore.topic_partition",
    "Producer": "kstore.producer",
    "Ragged": "kstore.record.columns",
    "Record": "kstore.record",
    "RepairReport": "kstore.log.repair",
    "Store": "kstore.store",
    "StoreConfig": "kstore.config",
    "Topic": "kstore.topic",
    "TopicPartition": "kstore.topic_partition",
    "TransactionalProducer": "kstore.transactions",
    "open": "kstore.open_store",
    "plan_repair": "kstore.log.repair",
    "repair": "kstore.log.repair",
}
_MODULES = ("errors", "jit")

__all__ = ["__version__", *_MODULES, *_HOME]


def __getattr__(name: str) -> object:
    """Import the module that defines a public name, once."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"kstore.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kstore' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
