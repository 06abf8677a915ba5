"""``kstore topics --bootstrap-server``: Kafka's kafka-topics on a server."""

import argparse
from typing import TYPE_CHECKING

from kstore.cli.common import WrongOptionsError, open_server
from kstore.cli.partition_reports import is_report, is_reported, parse_assignment
from kstore.cli.topic_options import changed, list_topics, selected, settings_of, warn_of_collisions
from kstore.errors import KStoreError
from kstore.partition_files import count_of

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore
    from kstore.remote.topic import RemoteTopic


def run(action: str, arguments: argparse.Namespace) -> int:
    """Run one action with validated options."""
    if arguments.foreign:
        raise WrongOptionsError("--foreign goes with --log-dir")
    if arguments.create and arguments.topic_id:
        raise WrongOptionsError("--create --topic-id goes with --log-dir: a broker chooses the id")
    actions = {
        "list": list_topics,
        "describe": describe_topics,
        "create": create,
        "alter": alter,
        "delete": delete,
    }
    from kstore.remote.answer_errors import kafka_text

    try:
        with open_server(arguments) as store:
            actions[action](store, arguments)
    except WrongOptionsError:
        raise
    except KStoreError as error:
        print(f"Error while executing topic command : {kafka_text(error)}")
        return 1
    return 0


def describe_topics(store: "RemoteStore", arguments: argparse.Namespace) -> None:
    nodes = store.cluster.nodes
    for name in selected(store, arguments):
        topic = store[name]
        if not is_report(arguments):
            own = topic.own_settings()
            if arguments.topics_with_overrides and not own:
                continue
            print(header(topic, ",".join(f"{key}={value}" for key, value in own.items())))
            if arguments.topics_with_overrides:
                continue
        min_in_sync = min_in_sync_replicas(topic) if has_min_isr_report(arguments) else 1
        for partition in topic.partitions:
            found = topic.entries[partition]
            if is_reported(
                arguments,
                replicas=len(found.replica_nodes),
                in_sync=len(found.isr_nodes),
                has_leader=found.leader_id in nodes,
                min_in_sync=min_in_sync,
            ):
                print(f"\tTopic: {name}\tPartition: {partition}\t{replicas_of(topic, partition)}")


def has_min_isr_report(arguments: argparse.Namespace) -> bool:
    """Whether a report compares with min.insync.replicas."""
    return bool(arguments.under_min_isr_partitions or arguments.at_min_isr_partitions)


def min_in_sync_replicas(topic: "RemoteTopic") -> int:
    for each in topic.settings():
        if each.name == "min.insync.replicas":
            return int(each.value or 1)
    return 1


def header(topic: "RemoteTopic", settings: str) -> str:
    """The line of a topic; as in Kafka, the replication factor is that of its first partition."""
    identity = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
    replicas = len(topic.entries[topic.partitions[0]].replica_nodes) if topic.partitions else 0
    return (
        f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {settings}"
    )


def replicas_of(topic: "RemoteTopic", partition: int) -> str:
    """The brokers of a partition, as Kafka's tool shows them."""
    found = topic.entries[partition]
    leader = "none" if found.leader_id < 0 else found.leader_id
    replicas, isr = (",".join(map(str, each)) for each in (found.replica_nodes, found.isr_nodes))
    return f"Leader: {leader}\tReplicas: {replicas}\tIsr: {isr}\tElr: \tLastKnownElr: "


def create(store: "RemoteStore", arguments: argparse.Namespace) -> None:
    name = arguments.topic
    if arguments.if_not_exists and name in store:
        return
    warn_of_collisions(name)
    store.create_topic(
        name,
        arguments.partitions,
        replication_factor=arguments.replication_factor,
        config=settings_of(arguments),
        assignment=assignment_of(arguments),
    )
    print(f"Created topic {name}.")


def assignment_of(arguments: argparse.Namespace) -> list[list[int]] | None:
    text = arguments.replica_assignment
    return None if text is None else parse_assignment(text)


def alter(store: "RemoteStore", arguments: argparse.Namespace) -> None:
    settings = settings_of(arguments)
    unset = [name.strip() for text in arguments.delete_config for name in text.split(",")]
    for name in changed(store, arguments):
        topic = store[name]
        if arguments.partitions is not None:
            store.add_partitions(
                name,
                arguments.partitions,
                assignment=assignment_of(arguments),
                validate_only=arguments.dry_run,
            )
        if settings or unset:
            topic.alter(settings, unset=unset, validate_only=arguments.dry_run)
        if arguments.dry_run:
            print(f"Topic {name} would be altered.")


def delete(store: "RemoteStore", arguments: argparse.Namespace) -> None:
    for name in changed(store, arguments):
        if arguments.dry_run:
            print(f"Topic {name} would be deleted ({count_of(len(store[name]), 'partition')}).")
        else:
            store.delete_topic(name)
