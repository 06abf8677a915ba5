"""The handlers of groups on a store, without sockets; disk workers run when a test says so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kstore
from kstore.broker.api_table import Api
from kstore.broker.handlers.find_coordinator import FindCoordinatorHandlers
from kstore.broker.handlers.group_admin import GroupAdminHandlers
from kstore.broker.handlers.group_offsets import GroupOffsetHandlers
from kstore.broker.handlers.groups import GroupHandlers
from kstore.broker.handlers.transaction_offsets import TransactionOffsetHandlers
from kstore.broker.services import Services
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from support.broker_requests import Client, decoded, local_metadata

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
_HANDLERS = (
    FindCoordinatorHandlers,
    GroupHandlers,
    GroupOffsetHandlers,
    GroupAdminHandlers,
    TransactionOffsetHandlers,
)


class AllHandlers:
    """All APIs of groups."""

    def __init__(self, services: Services) -> None:
        self._handlers = [each(services) for each in _HANDLERS]

    def apis(self) -> list[Api]:
        return [api for each in self._handlers for api in each.apis()]


class GroupClient(Client):
    """Sends requests of groups; ``groups`` is the broker's service."""

    def __init__(self, metadata: Any, store: Any, **settings: object) -> None:
        super().__init__(AllHandlers, metadata=metadata, store=store, settings=SETTINGS | settings)
        assert self.services.groups is not None
        self.groups = self.services.groups

    def now(self, message: Any, version: int) -> Any:
        """The response at once, without the disk workers."""
        return decoded(self.send(message, version), version)

    def ask(self, message: Any, version: int) -> Any:
        """The response after the disk workers ran, and the timers that are due."""
        answer = self.send(message, version)
        self.run()
        return decoded(answer, version)

    def run(self) -> None:
        self.workers.run()
        self.loop.pass_time(0)
        self.workers.run()


@contextmanager
def group_client(path: Path, *topics: str, found: bool = True) -> Iterator[GroupClient]:
    """A client of a new store with topics of two partitions; ``found``: the coordinator is known,
    so that ``__consumer_offsets`` exists."""
    with kstore.open(path) as store:
        for topic in topics:
            store.create_topic(topic, 2)
        metadata = local_metadata(store)
        try:
            client = GroupClient(metadata, store)
            client.run()
            if found:
                assert client.ask(FindCoordinatorRequest(key="g"), 3).error_code == 0
            yield client
        finally:
            metadata.close()
