"""Requests to a broker: from the bytes of a socket to the bytes of the answer in another."""

import select
import socket
from collections.abc import Callable
from contextlib import closing

import kstore
from counted.kernels import Prepared, one_batch
from counted.operation import Workspace, operation
from counted.paths import QUIET
from kstore._native.broker.frame_cutter import FrameCutter
from kstore.broker.connection import Connection
from kstore.broker.disk_workers import DiskWorkers
from kstore.broker.handlers import handler_classes
from kstore.broker.listener import Listener
from kstore.broker.loop import Loop
from kstore.broker.partitions import Partitions
from kstore.broker.request_memory import RequestMemory
from kstore.broker.services import Services
from kstore.broker.settings import BrokerSettings
from kstore.cluster.image import Endpoint
from kstore.cluster.local_metadata import LocalMetadata
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.produce import ProduceRequest
from load.frame_connections import decode, encode
from load.frames import fetch, produce

TOPIC = "counted"
Exchange = Callable[[bytes], int]
Ask = Callable[[bytes], bytes]


def connected(workspace: Workspace) -> tuple[kstore.Log, Exchange, Ask]:
    """A log, a call that sends requests, lets the loop turn once, and returns the number of bytes
    of the answers, and one that lets it turn until it has the answer to a request."""
    store = workspace.enter(kstore.open(workspace.directory / "logs", config=QUIET))
    log = store.create_topic(TOPIC)[0]
    loop, settings = Loop(), BrokerSettings()
    workspace.enter(closing(loop))
    metadata = LocalMetadata(store, node_id=0, endpoints={"PLAINTEXT": Endpoint("localhost", 1)})
    workspace.enter(closing(metadata))
    workers = DiskWorkers(loop, 1)
    workspace.enter(closing(workers))
    services = Services(
        store=store,
        metadata=metadata,
        partitions=Partitions(store, metadata, loop, workers),
        loop=loop,
        workers=workers,
        settings=settings,
    )
    for handlers in handler_classes():
        services.apis.add(handlers(services).apis())
    memory = RequestMemory(settings.queued_max_request_bytes)
    listener = Listener("PLAINTEXT", loop, settings, memory)
    client, served = socket.socketpair()
    workspace.enter(client)
    served.setblocking(False)
    connection = Connection(served, ("127.0.0.1", 1), listener, services, memory)
    listener.connections.add(connection)
    workspace.stack.callback(connection.close, "")

    _finish_start(loop, workers)

    def ask(request: bytes) -> bytes:
        client.sendall(request)
        while not select.select([client], [], [], 0)[0]:
            loop._turn()
        return client.recv(1 << 16)

    # A worker reads what the partition's first request needs; it takes more than one turn.
    ask(produce(TOPIC, 0, one_batch(1)).data)

    def exchange(requests: bytes) -> int:
        client.sendall(requests)
        loop._turn()
        return len(client.recv(1 << 16))

    return log, exchange, ask


def _finish_start(loop: Loop, workers: DiskWorkers) -> None:
    """Let the services start, so that no work of theirs is queued for the partition."""
    loop._turn()
    finished: list[None] = []
    workers.submit((TOPIC, 0), lambda: None, lambda *_: finished.append(None))
    while not finished:
        loop._turn()


@operation("produce one record to a broker", rounds=50)
def produce_one(workspace: Workspace) -> Prepared:
    log, exchange, _ = connected(workspace)
    request = produce(TOPIC, 0, one_batch(1)).data
    size = exchange(request)
    return lambda: exchange(request) == size and log.end_offset > 1, True


@operation("produce ten pipelined records to a broker", 10, "request", rounds=20)
def produce_pipelined(workspace: Workspace) -> Prepared:
    log, exchange, _ = connected(workspace)
    requests = produce(TOPIC, 0, one_batch(1)).data * 10
    size = exchange(requests)
    return lambda: exchange(requests) == size and log.end_offset > 10, True


@operation("produce one record by topic id to a broker", rounds=50)
def produce_by_id(workspace: Workspace) -> Prepared:
    log, exchange, ask = connected(workspace)
    find, data = MetadataRequest([MetadataRequest.Topics(name=TOPIC)]), ProduceRequest.TopicData
    [topic] = decode(find.API_KEY, 12, ask(encode(find, 12))[4:]).topics
    topics = [data("", topic.topic_id, [data.PartitionData(0, one_batch(1))])]
    request = encode(ProduceRequest(None, 1, 30_000, topics), 13)
    size = exchange(request)
    return lambda: exchange(request) == size and log.end_offset > 1, True


@operation("fetch 4 KiB from a broker", rounds=50)
def fetch_some(workspace: Workspace) -> Prepared:
    log, exchange, _ = connected(workspace)
    for _ in range(20):
        log.append_as_leader(one_batch(10))
    log.read(0)  # maps the segment, which is a disk worker's task otherwise
    request = fetch(TOPIC, 0, 4096).data
    return lambda: 4096 <= exchange(request) < 4300, True


@operation("fetch 4 KiB from a broker in a session", rounds=50)
def fetch_in_session(workspace: Workspace) -> Prepared:
    log, exchange, ask = connected(workspace)
    for _ in range(20):
        log.append_as_leader(one_batch(10))
    log.read(0)
    partition = FetchRequest.Topics.Partitions(0, partition_max_bytes=4096)
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=0,
        topics=[FetchRequest.Topics(TOPIC, partitions=[partition])],
    )
    request.session_id = decode(request.API_KEY, 11, ask(encode(request, 11))[4:]).session_id
    assert request.session_id

    def next_fetch() -> bool:
        request.session_epoch += 1
        return 4096 <= exchange(encode(request, 11)) < 4300

    return next_fetch, True


@operation("begin and commit a transaction at a broker", rounds=50)
def commit_one(workspace: Workspace) -> Prepared:
    """Three states and a marker, without records."""
    log, exchange, ask = connected(workspace)
    find, init = FindCoordinatorRequest("x", 1), InitProducerIdRequest("x", 60_000)
    while decode(find.API_KEY, 3, ask(encode(find, 3))[4:]).error_code:
        pass
    while (found := decode(init.API_KEY, 4, ask(encode(init, 4))[4:])).error_code:
        pass
    producer = found.producer_id, found.producer_epoch
    topics = [AddPartitionsToTxnRequest.V3AndBelowTopics(TOPIC, [0])]
    requests = encode(AddPartitionsToTxnRequest([], "x", *producer, topics), 3)
    requests += encode(EndTxnRequest("x", *producer, True), 3)
    size, before = exchange(requests), log.end_offset
    assert before == 2, "a record and a marker"
    return lambda: exchange(requests) == size and log.end_offset > before, True


@operation("cut frames of 100 bytes", 10, "frame", rounds=50)
def cut_frames(workspace: Workspace) -> Prepared:
    client, served = map(workspace.enter, socket.socketpair())
    cutter, sent = FrameCutter(1000), ((100).to_bytes(4, "big") + bytes(100)) * 10

    def cut() -> int:
        client.sendall(sent)
        cutter.receive(served)
        return sum(len(frame) for frame in iter(cutter.next_frame, None) if frame is not None)

    return cut, 1000
