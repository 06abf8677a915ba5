"""A Kafka broker for tests, in a process of its own or in this one.

Modules:

- broker_process: `kstore serve` as a child process, with kill and restart
- fixtures: pytest's fixtures kafka_broker and in_process_kafka_broker
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.testing.broker_process import BrokerProcess as BrokerProcess

__all__ = ["BrokerProcess"]


def __getattr__(name: str) -> object:
    """Import the class on first use, so that the fixtures load without it."""
    if name == "BrokerProcess":
        from kstore.testing.broker_process import BrokerProcess

        return BrokerProcess
    raise AttributeError(f"module 'kstore.testing' has no attribute {name!r}")
