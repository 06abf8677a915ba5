"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, DescribeQuorum."""

from interop.same_bytes.asker import Asker
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey

METADATA = ApiKey.METADATA


def ask(asker: Asker) -> None:
    create(asker, specification("listed", 3), specification("listed.too"))
    _api_versions(asker)
    for version in versions(METADATA):
        _metadata(asker, version)
    for version in versions(ApiKey.DESCRIBE_CLUSTER):
        for allowed in (False, True):
            fields = {"include_cluster_authorized_operations": allowed}
            asker.ask(f"operations {allowed}", ApiKey.DESCRIBE_CLUSTER, version, **fields)
        for kind in (0, 2, 3):
            asker.ask(f"endpoint {kind}", ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=kind)
    _topic_partitions(asker)
    for version in versions(ApiKey.DESCRIBE_QUORUM):
        for topic, number in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("listed", 0)):
            topics = [{"topic_name": topic, "partitions": [{"partition_index": number}]}]
            asker.ask(f"{topic}-{number}", ApiKey.DESCRIBE_QUORUM, version, topics=topics)
        asker.ask("no topics", ApiKey.DESCRIBE_QUORUM, version)


def _api_versions(asker: Asker) -> None:
    for version in versions(ApiKey.API_VERSIONS):
        names = (("kafka-python", "3.0.12"), ("a", "1"), ("", ""), ("-a", "1"), ("a", "1_2"))
        for name, number in names if version >= 3 else names[:1]:
            fields = {"client_software_name": name, "client_software_version": number}
            found = asker.look(ApiKey.API_VERSIONS, version, **fields)
            title = f"API_VERSIONS {version} of {name!r} {number!r}"
            asker.note(title, ["closed"] if found is None else [f"error_code={found.error_code}"])
    for version in (5, 99, 32767, -1):
        found, lines = asker._exchange(ApiKey.API_VERSIONS, version, b"", False)
        asker.note(f"API_VERSIONS {version}", lines)


def _metadata(asker: Asker, version: int) -> None:
    quiet = {"allow_auto_topic_creation": False}
    for title, names in (
        ("one", ["listed"]),
        ("two", ["listed", "listed.too"]),
        ("a topic twice", ["listed", "listed"]),
        ("an unknown topic", ["none"]),
        ("known and unknown", ["listed", "none"]),
        ("an empty name", [""]),
        ("a bad name", ["a b"]),
        ("a point", ["."]),
        ("a name of 250 characters", ["a" * 250]),
    ):
        if version >= 4 or title in ("one", "two", "a topic twice"):
            topics = [{"name": name} for name in names]
            asker.ask(title, METADATA, version, topics=topics, **quiet)
    if version >= 1:
        asker.ask("no topics", METADATA, version, topics=[], **quiet)
    for title in ("include_topic_authorized_operations", "include_cluster_authorized_operations"):
        fields = {"topics": [{"name": "listed"}], title: True}
        asker.ask(title, METADATA, version, **quiet, **fields)
    if version >= 10:
        ids = {"known": asker.topic_ids["listed"], "unknown": bytes(range(16)), "zero": bytes(16)}
        for title, topic_id in ids.items():
            for name in ("listed", "none", None) if version >= 12 else ("listed", "none"):
                topics = [{"topic_id": topic_id, "name": name}]
                asker.ask(f"{title} id, name {name}", METADATA, version, topics=topics, **quiet)
    if version >= 4:
        topic = f"made-on-demand-{version}"
        fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
        asker.ask("a topic made on demand", METADATA, version, **fields)
        for name in ("a b", "listed_too", "__consumer_offsets!"):
            fields = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
            asker.ask(f"{name} made on demand", METADATA, version, **fields)


def _topic_partitions(asker: Asker) -> None:
    api = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    for names in (["listed"], ["listed", "listed.too", "none"], ["a b"], ["listed", "listed"]):
        topics = [{"name": name} for name in names]
        asker.ask(f"{names}", api, 0, topics=topics)
        for limit in (0, 1, 2, -1):
            asker.ask(
                f"{names}, at most {limit}", api, 0, topics=topics, response_partition_limit=limit
            )
    for name, number in (("listed", 1), ("listed", 3), ("zzz", 0), ("a", 0), ("listed", -1)):
        topics = [{"name": "listed"}, {"name": "listed.too"}]
        cursor = {"topic_name": name, "partition_index": number}
        asker.ask(f"behind {name}-{number}", api, 0, topics=topics, cursor=cursor)
