"""Sends requests to a broker's handlers without sockets, threads or a clock."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kstore.broker.api_table import Api, ApiTable
from kstore.broker.request import Pending, Request
from kstore.broker.services import Services
from kstore.broker.settings import BrokerSettings
from kstore.cluster.image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
    names_by_id,
)
from kstore.cluster.local_metadata import LocalMetadata
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer
from kstore.store.store import Store
from support.clock import ManualLoop

NODE = 1
LISTENER = "PLAINTEXT"
NO_STORE = SimpleNamespace(log_dirs=())
NONE_RECOVERING = SimpleNamespace(
    is_recovering=lambda topic, partition: False,
    is_any_recovering=False,
    open_new_topic=lambda topic: None,
)


def topic_image(name: str, partitions: int = 1, number: int = 0, **fields: Any) -> TopicImage:
    """A topic led by the node; its id is derived from ``number`` (0: no id)."""
    images = {n: PartitionImage(n, NODE, 0, (NODE,), (NODE,)) for n in range(partitions)}
    return TopicImage(name, number.to_bytes(16, "big"), images, **fields)


def cluster_image(*topics: TopicImage, **fields: Any) -> ClusterImage:
    endpoints = {LISTENER: Endpoint("broker.test", 9092), "OTHER": Endpoint("other.test", 9093)}
    by_name = {topic.name: topic for topic in topics}
    image = ClusterImage(
        cluster_id="a-cluster",
        controller_id=NODE,
        brokers={NODE: BrokerImage(NODE, None, endpoints)},
        topics=by_name,
        names_by_id=names_by_id(by_name),
    )
    return replace(image, **fields)


class Workers:
    """Disk workers that run submitted work when ``run`` is called."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Hashable, Callable[[], Any], Callable[..., object]]] = deque()

    def submit(self, key: Hashable, work: Callable[[], Any], done: Callable[..., object]) -> None:
        self.waiting.append((key, work, done))

    def is_busy(self, key: Hashable) -> bool:
        return any(each[0] == key for each in self.waiting)

    def run(self) -> None:
        while self.waiting:
            _, work, done = self.waiting.popleft()
            result, error = None, None
            try:
                result = work()
            except Exception as raised:
                error = raised
            done(result, error)


class Client:
    """Sends requests to handlers, encoding them to bytes and decoding responses from bytes."""

    def __init__(
        self,
        handlers: type,
        *,
        metadata: Any,
        store: Any = NO_STORE,
        settings: Mapping[str, object] | None = None,
        listener: str = LISTENER,
    ) -> None:
        self.workers, self.loop = Workers(), ManualLoop()
        self.metadata = metadata
        self.listener = listener
        self.services = Services(
            store=store,
            metadata=metadata,
            partitions=NONE_RECOVERING,
            loop=self.loop,
            workers=self.workers,
            settings=BrokerSettings.from_properties(settings or {}),
            apis=ApiTable(),
        )
        self.handlers = handlers(self.services)
        self._apis: dict[int, Api] = {int(api.key): api for api in self.handlers.apis()}

    def versions(self) -> Iterable[tuple[int, int]]:
        """All APIs of the handlers in all versions."""
        for key, api in self._apis.items():
            for version in range(api.min_version, api.max_version + 1):
                yield key, version

    def send(self, message: Any, version: int) -> Any:
        """The handler's result: a message, or Pending."""
        writer = Writer()
        message.encode(writer, version)
        body = b"".join(bytes(chunk) for chunk in writer.chunks())
        connection: Any = SimpleNamespace(listener=self.listener, peer=("127.0.0.1", 1))
        request = Request(
            api_key=message.API_KEY,
            api_version=version,
            correlation_id=1,
            client_id="test",
            reader=Reader(body),
            connection=connection,
            image=self.metadata.image,
            received=self.loop.time(),
        )
        answer = self._apis[message.API_KEY].handle(request)
        assert request.reader.remaining == 0
        return answer

    def ask(self, message: Any, version: int) -> Any:
        """The response as a client decodes it, after running the disk workers."""
        answer = self.send(message, version)
        if isinstance(answer, Pending):
            self.workers.run()
        return decoded(answer, version)


def decoded(answer: Any, version: int) -> Any:
    """The response as a client decodes it; for a Pending, its completed response."""
    if isinstance(answer, Pending):
        found: list[Any] = []
        answer.deliver_to(found.append)
        assert found, "the request is not answered yet"
        (answer,) = found
    if isinstance(answer, BaseException):
        raise answer
    writer = Writer()
    answer.encode(writer, version)
    reader = Reader(b"".join(bytes(chunk) for chunk in writer.chunks()))
    message = message_types(answer.API_KEY)[1].decode(reader, version)
    assert reader.remaining == 0
    return message


def local_metadata(store: Store, **options: Any) -> LocalMetadata:
    """The metadata of a store for a broker with the id NODE; close it before the store."""
    endpoints = {LISTENER: Endpoint("broker.test", 9092)}
    return LocalMetadata(store, node_id=NODE, endpoints=endpoints, **options)
