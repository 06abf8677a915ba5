"""A Kafka broker for tests, in a child process or in this process.

Modules:

- broker_process: `kstore serve` as a child process, with kill and restart
- fixtures: The pytest fixtures kafka_broker and in_process_kafka_broker
- guessed_names: What a broker's process and this package answer to names that they lack
- settings: Settings of brokers for tests
- temporary_broker: A broker for a block of a test: it serves a temporary directory
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.testing.broker_process import BrokerProcess as BrokerProcess
    from kstore.testing.temporary_broker import broker as broker

__all__ = ["BrokerProcess", "broker"]

_HOME = {"BrokerProcess": "broker_process", "broker": "temporary_broker"}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that the fixtures load without the others."""
    from importlib import import_module

    if name in _HOME:
        value: object = getattr(import_module(f"kstore.testing.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    from kstore.hints.missing_names import missing_of_module
    from kstore.testing.guessed_names import OF_TESTING

    raise missing_of_module("kstore.testing", name, OF_TESTING.get(name), sys._getframe(1))


def __dir__() -> list[str]:
    return sorted(__all__)
