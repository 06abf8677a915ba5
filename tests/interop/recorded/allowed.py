"""Differences between kstore's answers and the recorded ones that are meant, and why."""

import re

from interop.same_bytes.allowed import Allowed

_APIS = r"^API_VERSIONS \d+ "
_DIRS = r"^DESCRIBE_LOG_DIRS \d+ .*"
_FOLLOWER = r"^\w+ \d+ 2\.8\.2 follower of .*"

_REASONS: tuple[tuple[str, str], ...] = (
    (_APIS + r".*api_keys\[0\]\.max_version: ", "two more versions, of Kafka 4"),
    (_APIS + r".*api_keys\[(2|3|15|60|68|69|74)\]\.max_version: ", "one more version, of Kafka 4"),
    (_APIS + r".*api_keys\[(38|39|40|41)\]: Kafka has it", "there are no delegation tokens"),
    (_APIS + r".*api_keys\[(57|64|80|81)\]: Kafka has it", "there is one node, without features"),
    (_APIS + r".*(supported|finalized)_features", "there are no features"),
    (_APIS + r"2\.8\.2 follower of .*api_keys\[", "kstore has the APIs of newer brokers"),
    (_FOLLOWER + r"topic_id: Kafka zero", "a broker has no ids under a protocol before 2.8"),
    (_FOLLOWER + r"(brokers\[2\]|replica_nodes|isr_nodes|node_id): ", "a cluster of two"),
    (
        r"^OFFSET_(COMMIT|FETCH) 0 .*error_code: Kafka 35, kstore (0|25)$",
        "Kafka 3.9 keeps those of version 0 in ZooKeeper only",
    ),
    (
        r"^OFFSET_FETCH 0 0\.8\.2\.2.*"
        r"(committed_offset: Kafka (-1|5), kstore 6|metadata: Kafka '', kstore 'of version 1')$",
        "Kafka keeps those of version 0 in ZooKeeper, without metadata, those of version 1 apart",
    ),
    (r"configs\[kstore\.acks\.durable\]: kstore has it, Kafka has not", "a setting of our own"),
    (r"^DESCRIBE_CONFIGS 0 .*is_default: Kafka False, kstore True", "Kafka never sets it"),
    (_DIRS + r"topics\[warm\].*partition_size", "it has records only at the recorded broker"),
    (_DIRS + r"topics\[__\w+\].*partition_size", "internal topics have the broker's own records"),
    (_DIRS + r"topics\[0\.10\.\S+\].*partition_size", "the leader compresses them as batches v2"),
)
ALLOWED: Allowed = tuple((re.compile(pattern), reason) for pattern, reason in _REASONS)
