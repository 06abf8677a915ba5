"""The brokers at which clients are recorded: each is reached by the proxy's port only."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from interop.kafka_jars import run
from interop.node import Node, free_ports
from interop.old_node import OldNode
from interop.recorded.clients import (
    NEWEST,
    Client,
    Endpoint,
    ancient,
    clients_of_kraft,
    java,
)
from interop.recorded.proxy import RecordingProxy
from interop.recorded.session import Frame, Session, exchanges
from kstore.protocol.api_keys import ApiKey
from support.waiting import until
from support.wire_client import Connection

OLD = "2.8.2"


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(each in name for each in wanted)


def record(client: Client, proxy: RecordingProxy, endpoint: Endpoint) -> Session:
    """What one client says; its topics exist."""
    proxy.wait_until_closed(_is_of_client)
    proxy.ceiling = client.ceiling
    proxy.take("")
    client.run(endpoint)
    proxy.wait_until_closed(_is_of_client)
    return proxy.take(client.name, client.topics)


def _is_of_client(client_id: str) -> bool:
    """Not of a broker, which keeps its connections."""
    return not (client_id.isdigit() or client_id.startswith("broker-"))


def _wait_until_known(
    broker: Node | OldNode, topics: Sequence[str], brokers: set[int] | None = None
) -> None:
    """Until a broker knows the topics, whose replicas are in sync, and just these brokers."""
    connection = Connection(broker.address)  # its own, not the proxy's

    def is_known() -> bool:
        fields = {"topics": [{"name": each} for each in topics]}
        found = connection.ask(ApiKey.METADATA, 4, allow_auto_topic_creation=False, **fields)
        alive = {each.node_id for each in found.brokers}
        partitions = [each for topic in found.topics for each in topic.partitions]
        return (
            (brokers is None or alive == brokers)
            and not any(each.error_code for each in (*found.topics, *partitions))
            and all(set(each.isr_nodes) == set(each.replica_nodes) & alive for each in partitions)
        )

    until(is_known)
    connection.close()


def kraft(root: Path, wanted: Sequence[str]) -> Iterator[Session]:
    """Kafka 3.9.2 with an authorizer, whose own requests go to a listener of their own."""
    chosen = [each for each in clients_of_kraft() if is_wanted(each.name, wanted)]
    if not chosen:
        return
    own, inner, proxied = free_ports(3)
    broker = Node(NEWEST, root, port=own)
    names = f"PLAINTEXT://127.0.0.1:{{}},INTERNAL://127.0.0.1:{inner}"
    broker.settings = {
        "listeners": f"{names.format(own)},CONTROLLER://{broker.controller}",
        "advertised.listeners": names.format(proxied),
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map":
            "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }  # fmt: skip
    proxy = RecordingProxy(proxied, own)
    try:
        broker.start()
        endpoint = Endpoint(proxy.address, broker.log_dir, root)
        _created(broker, "warm")
        # The internal topics exist from then on, and have leaders.
        java(NEWEST, "OneClient", proxy.address, "warm", "warm", "p.transactional.id=warm")
        for client in chosen:
            _created(broker, *client.topics)
            yield record(client, proxy, endpoint)
    finally:
        broker.kill()
        proxy.close()


def zookeeper(root: Path, wanted: Sequence[str]) -> Iterator[Session]:
    """Kafka 2.8.2, which keeps offsets of version 0 in ZooKeeper: for clients of 0.8.2 alone."""
    client = ancient(f"0.8.2.2 at {OLD}", f"0.8.2.2-at-{OLD}")
    if not is_wanted(client.name, wanted):
        return
    broker, proxy = _proxied(root, {})
    try:
        broker.start()
        _created(broker, "warm", *client.topics)
        java(OLD, "OneClient", proxy.address, "warm", "warm")
        endpoint = Endpoint(proxy.address, broker.log_dir, root)
        yield _without_brokers(record(client, proxy, endpoint))
    finally:
        broker.close()
        proxy.close()


def followers(root: Path, wanted: Sequence[str]) -> Iterator[Session]:
    """A follower of 2.8.2 that returns and asks its leader where their logs diverge."""
    for protocol in ("0.11.0", "2.0"):
        name = f"{OLD} follower of {protocol}"
        if not is_wanted(name, wanted):
            continue
        (root / protocol / "follower").mkdir(parents=True)
        leader, proxy = _proxied(root / protocol, {"inter.broker.protocol.version": protocol})
        follower = OldNode(OLD, root / protocol / "follower")
        try:
            leader.start()
            settings = {
                "broker.id": 2,
                "inter.broker.protocol.version": protocol,
                "zookeeper.connect": leader.zookeeper,
            }
            _append(root / protocol / "follower", settings)
            _created(leader, "warm")
            # The internal topics exist from then on, at the leader alone.
            java(OLD, "OneClient", proxy.address, "warm", "warm")
            proxy.wait_until_closed(_is_of_client)
            follower.start()
            yield _returns(name, leader, follower, proxy)
        finally:
            follower.close()
            leader.close()
            proxy.close()


def _returns(name: str, leader: OldNode, follower: OldNode, proxy: RecordingProxy) -> Session:
    topic = name.replace(" ", "-")
    arguments = ["--zookeeper", leader.zookeeper, "--create", "--topic", topic]
    run(OLD, "kafka.admin.TopicCommand", *arguments, "--replica-assignment", "1:2")
    _wait_until_known(leader, [topic], {1, 2})
    proxy.take("")
    java(OLD, "OneClient", proxy.address, topic, f"group-{topic}")
    proxy.wait_until_closed(_is_of_client)
    _wait_until_known(leader, [topic], {1, 2})
    follower.kill()
    _wait_until_known(leader, [topic], {1})  # its session in ZooKeeper has ended
    follower.start()
    proxy.wait_for(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    return _without_brokers(proxy.take(name, (topic,)))


def _proxied(root: Path, settings: dict[str, str]) -> tuple[OldNode, RecordingProxy]:
    """A broker of 2.8.2 that is not started yet, and the proxy whose address it gives out."""
    broker = OldNode(OLD, root)
    proxied = free_ports(1)[0]
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxied}"}
    _append(root, advertised | settings)
    return broker, RecordingProxy(proxied, broker.port)


def _append(root: Path, settings: Mapping[str, object]) -> None:
    with (root / "server.properties").open("a") as properties:
        properties.writelines(f"{name}={value}\n" for name, value in settings.items())


def _created(broker: Node | OldNode, *topics: str) -> None:
    for topic in topics:
        broker.create_topic(topic, retention_ms=-1)
    if topics:
        _wait_until_known(broker, topics)


def _without_brokers(session: Session) -> Session:
    """What clients said, and of what brokers said the requests for epochs of leaders."""
    kept: list[Frame] = []
    answers: set[tuple[int, bytes]] = set()
    connections: set[int] = set()
    for each in exchanges(session):
        is_client = _is_of_client(each.header.client_id or "")
        if is_client or each.api == ApiKey.OFFSET_FOR_LEADER_EPOCH:
            connections.add(each.connection)
            answers |= {(each.connection, data) for data in (each.request, each.answer) if data}
    for frame in session.frames:
        is_end = not frame.data and frame.connection in connections
        if is_end or (frame.connection, frame.data) in answers:
            kept.append(frame)
    return session._replace(frames=tuple(kept))
