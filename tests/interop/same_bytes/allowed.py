"""Differences between kstore's answers and those of Kafka 3.9.2 that are meant, and why."""

import re

Allowed = tuple[tuple[re.Pattern[str], str], ...]

_TEXT = "a text says why, where Kafka has none"
_BUG = "an exception that Kafka does not catch: it answers -1, or nothing at all"
_PRODUCE, _FETCH = r"^PRODUCE \d+ ", r"^FETCH \d+ "

_REASONS: tuple[tuple[str, str], ...] = (
    # Produce
    (_PRODUCE + "null records: ", _BUG),
    (_PRODUCE + r".* that is none.*: .*(error_code|log_start_offset|error_message)", _BUG),
    (_PRODUCE + r"codec [57].*: .*(error_code|error_message|log_start_offset)", _BUG),
    (_PRODUCE + "offsets with a gap", "Kafka appends it, and the next batch has the same offset"),
    (
        _PRODUCE + "the same partition twice: .*base_offset: Kafka 2, kstore 0",
        "the batch with a gap is before it in Kafka's log",
    ),
    (_PRODUCE + r".*error_message: Kafka None, kstore a text", _TEXT),
    (_PRODUCE + r"(magic 3|magic -1|a size of 0|a negative size): .*error_message", _TEXT),
    # Fetch
    (_FETCH + "-1 bytes", _BUG),
    (_FETCH + "isolation level 2", _BUG),
    (_FETCH + r".*aborted_transactions: Kafka None, kstore \[\]", "of an error, read by no client"),
    (_FETCH + r"records of zstd: .*records: Kafka None, kstore \[\]", "null confuses old clients"),
    # Offsets
    (r"^LIST_OFFSETS \d+ isolation level 2", _BUG),
    (r"^LIST_OFFSETS 0 time -\d+ of \w+: .*Kafka 35, kstore 0", "brokers of 0.8 gave no offsets"),
    (r"^LIST_OFFSETS 0 time .*, at most -1: ", _BUG),
    (r"^DESCRIBE_PRODUCERS 0 produced-9: .*error_message", _TEXT),
    # Metadata
    (
        r"^METADATA \d+ .* made on demand: .*error_code: Kafka 3, kstore (5|17)",
        ("5 is what Kafka answered with ZooKeeper, and old clients know"),
    ),
    (r"^METADATA 12 zero id, name None: .*error_code: Kafka -1", _BUG),
    (r"^DESCRIBE_QUORUM 2 .*listeners\[", "there is no controller listener"),
    # Groups
    (r"^FIND_COORDINATOR \d+ .* of type 2: .*error_message", _TEXT),
    (r"^FIND_COORDINATOR 6 .* of type 2: .*Kafka 15, kstore 42", "there are no share groups"),
    (r"^(after )?OFFSET_(COMMIT|FETCH) 0 ", "Kafka 3.9 keeps those of version 0 in ZooKeeper only"),
    (r"^LIST_GROUPS \d .*groups\[commits-0\]: kstore has it", "from version 0 of OffsetCommit"),
    # Settings and topics
    (r"configs\[kstore\.acks\.durable\]: kstore has it, Kafka has not", "a setting of our own"),
    (r"\.documentation: ", "sentences of our own"),
    (r"^DESCRIBE_CONFIGS 0 .*is_default'?: Kafka False, kstore True", "Kafka never sets it"),
    (r"^DESCRIBE_CONFIGS \d+ an unknown topic: .*error_message", _TEXT),
    (r"^CREATE_PARTITIONS \d+ .*error_message: Kafka None, kstore a text", _TEXT),
    (r"^INCREMENTAL_ALTER_CONFIGS \d+ operation 4", _BUG),
)
ALLOWED: Allowed = tuple((re.compile(pattern), reason) for pattern, reason in _REASONS)
