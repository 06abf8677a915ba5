"""Runs a broker's handlers without sockets, with encoded requests and decoded responses."""

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from kstore.broker.disk_workers import DiskWorkers
from kstore.broker.loop import Loop
from kstore.broker.partitions import Partitions
from kstore.broker.request import CloseConnection, Pending, Request
from kstore.broker.services import Services
from kstore.broker.settings import BrokerSettings
from kstore.cluster.image import (
    ZERO_UUID,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
    names_by_id,
)
from kstore.protocol.wire import Reader, Writer
from kstore.store.store import Store

DEADLINE = 30.0  # seconds
LISTENER = "PLAINTEXT"
_CONNECTION: Any = SimpleNamespace(listener=LISTENER, peer=("127.0.0.1", 5))


class PlainMetadata:
    """Cluster metadata whose image the test sets, from the store's topics."""

    node_id = 0
    served_since = 0

    def __init__(self) -> None:
        self._callbacks: list[Callable[[ClusterImage, ClusterImage], object]] = []
        self.image = ClusterImage(
            "test",
            0,
            {0: BrokerImage(0, None, {LISTENER: Endpoint("127.0.0.1", 9092)})},
            {},
        )

    def on_change(self, callback: Callable[[ClusterImage, ClusterImage], object]) -> Any:
        self._callbacks.append(callback)
        return SimpleNamespace(close=lambda: self._callbacks.remove(callback))

    def publish(self, topics: Mapping[str, TopicImage], **fields: Any) -> None:
        old = self.image
        self.image = ClusterImage(
            old.cluster_id,
            old.controller_id,
            fields.get("brokers", old.brokers),
            dict(topics),
            names_by_id(topics),
            fields.get("broker_config", old.broker_config),
            old.version + 1,
        )
        for callback in list(self._callbacks):
            callback(old, self.image)

    def follow(self, store: Store, **changes: Any) -> None:
        """Publish the store's topics; ``changes`` by topic are fields of its partitions."""
        self.publish({name: topic_image(store, name, **changes) for name in store})


def topic_image(store: Store, name: str, **changes: Any) -> TopicImage:
    topic = store[name]
    text = topic.topic_id
    fields: dict[str, Any] = {
        "leader": 0,
        "leader_epoch": 0,
        "replicas": (0,),
        "isr": (0,),
        **changes,
    }
    config = fields.pop("config", {})
    return TopicImage(
        name,
        ZERO_UUID if text is None else uuid_bytes(text),
        {number: PartitionImage(number, **fields) for number in topic.partitions},
        config,
        is_internal=name.startswith("__"),
    )


def uuid_bytes(text: str) -> bytes:
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(text + "==")


class HandlerTester:
    """A store, an event loop, disk workers and handlers, used from one thread that runs the loop.

    ``ask`` runs the loop until the response exists; ``start`` leaves the request parked.
    """

    def __init__(self, store: Store, *handlers: Any, **settings: Any) -> None:
        self.store = store
        self.metadata = PlainMetadata()
        self.metadata.follow(store)
        self.loop = Loop()
        self.workers = DiskWorkers(self.loop, 2)
        self.partitions = Partitions(store, self.metadata, self.loop, self.workers)
        self.services = Services(
            store=store,
            metadata=self.metadata,
            partitions=self.partitions,
            loop=self.loop,
            workers=self.workers,
            settings=BrokerSettings(**settings),
        )
        self.handlers = [each(self.services) for each in handlers]
        for each in self.handlers:
            self.services.apis.add(each.apis())

    def close(self) -> None:
        self.partitions.close()
        self.workers.close()
        self.loop.close()

    def __enter__(self) -> "HandlerTester":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self, name: str, partitions: int = 1, topic_id: str | None = None, **config: Any
    ) -> Any:
        topic = self.store.create_topic(name, partitions, config=config or None, topic_id=topic_id)
        self.metadata.follow(self.store)
        return topic

    def start(self, message: Any, version: int, client_id: str = "test") -> "Asked":
        """Pass a request to its handler."""
        writer = Writer()
        message.encode(writer, version)
        return self.start_bytes(type(message), writer.to_bytes(), version, client_id)

    def start_bytes(self, kind: Any, body: bytes, version: int, client_id: str = "test") -> "Asked":
        api = self.services.apis.get(kind.API_KEY)
        assert api is not None
        assert api.min_version <= version <= api.max_version
        request = Request(
            api_key=kind.API_KEY,
            api_version=version,
            correlation_id=1,
            client_id=client_id,
            reader=Reader(body),
            connection=_CONNECTION,
            image=self.metadata.image,
            received=self.loop.time(),
        )
        return Asked(self, kind, version, api.handle, request)

    def ask(self, message: Any, version: int, client_id: str = "test") -> Any:
        """The decoded response; None if nothing is sent. Raises the handler's CloseConnection."""
        return self.start(message, version, client_id).answer()

    def turn(self) -> None:
        """Run one turn of the loop without waiting."""
        self.loop.call_soon(lambda: None)
        self.loop._turn()

    def run_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "the broker does not answer"
            self.loop.call_later(0.01, lambda: None)  # bounds the wait of the turn
            self.loop._turn()


class Asked:
    """A request that was passed to its handler."""

    def __init__(
        self, tester: HandlerTester, kind: Any, version: int, handle: Any, request: Request
    ) -> None:
        self._tester = tester
        self._kind = kind
        self._version = version
        self._result: list[Any] = []
        self.pending: Pending | None = None
        try:
            answer = handle(request)
        except CloseConnection as error:
            answer = error
        if isinstance(answer, Pending):
            self.pending = answer
            answer.deliver_to(self._result.append)
        else:
            self._result.append(answer)

    @property
    def is_answered(self) -> bool:
        return bool(self._result)

    def answer(self) -> Any:
        self._tester.run_until(lambda: self.is_answered)
        [result] = self._result
        if isinstance(result, BaseException):
            raise result
        if result is None:
            return None
        writer = Writer()
        result.encode(writer, self._version)
        reader = Reader(writer.to_bytes())
        decoded = type(result).decode(reader, self._version)
        assert reader.remaining == 0
        return decoded
