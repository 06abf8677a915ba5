"""Kafka 3.9's topic settings, in the order in which Kafka checks them, and kstore's own."""

from collections.abc import Mapping
from types import MappingProxyType

from kstore.cluster.settings.definition import Setting, parse_settings

TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    parse_settings("""
segment.bytes INT 1073741824 [14,...]
    The largest size in bytes of one segment file; retention and compaction work on segments.
segment.ms LONG 604800000 [1,...]
    The log rolls to a new segment after this many milliseconds, even if the segment is not full.
segment.jitter.ms LONG 0 [0,...]
    Up to this many milliseconds, at random, are subtracted from segment.ms, so that partitions do
    not roll all at once.
segment.index.bytes INT 10485760 [4,...]
    The largest size in bytes of the offset index and of the time index of a segment.
flush.messages LONG 9223372036854775807 [1,...]
    The log is synced to disk after this many records.
flush.ms LONG 9223372036854775807 [0,...]
    A record is synced to disk at most this many milliseconds after its append.
retention.bytes LONG -1
    Beyond this size in bytes a partition loses its oldest segments, if cleanup.policy has delete;
    -1 sets no limit.
retention.ms LONG 604800000 [-1,...]
    Segments whose records are all older than this many milliseconds are deleted, if
    cleanup.policy has delete; -1 keeps them.
max.message.bytes INT 1048588 [0,...]
    The largest record batch, in bytes as compressed, that a producer may append.
index.interval.bytes INT 4096 [0,...]
    The offset index gets an entry after about this many bytes of records.
delete.retention.ms LONG 86400000 [0,...]
    How many milliseconds compaction keeps a tombstone after it has cleaned that offset.
min.compaction.lag.ms LONG 0 [0,...]
    Records younger than this many milliseconds are not compacted.
max.compaction.lag.ms LONG 9223372036854775807 [1,...]
    Records older than this many milliseconds are compacted however little of the log is dirty.
file.delete.delay.ms LONG 60000 [0,...]
    How many milliseconds pass between the removal of a segment from the log and that of its files.
min.cleanable.dirty.ratio DOUBLE 0.5 [0,...,1]
    A log is compacted when at least this fraction of its bytes has not been compacted yet.
cleanup.policy LIST delete [compact, delete]
    delete drops old segments by retention, compact keeps the latest record of each key; a list of
    both does both.
unclean.leader.election.enable BOOLEAN false
    Whether a replica that is not in sync may become leader, which may lose records.
min.insync.replicas INT 1 [1,...]
    How many replicas must be in sync for a produce request with acks=all to be accepted.
compression.type STRING producer [uncompressed, zstd, lz4, snappy, gzip, producer]
    The codec in which batches are stored; producer keeps the one that the producer chose.
compression.gzip.level INT -1 [1,...,9] or -1
    The level of gzip, where compression.type is gzip. This broker uses its own level.
compression.lz4.level INT 9 [1,...,17]
    The level of lz4, where compression.type is lz4. This broker uses its own level.
compression.zstd.level INT 3 [-131072,...,22]
    The level of zstd, where compression.type is zstd. This broker uses its own level.
preallocate BOOLEAN false
    Whether a segment's file gets its full size when it is created.
message.format.version STRING 3.0-IV1 version
    The message format of brokers below 3.0; accepted and ignored, as Kafka 3.9 does.
message.timestamp.type STRING CreateTime [CreateTime, LogAppendTime]
    Whether a record keeps its producer's timestamp, or gets the time of its append.
message.timestamp.difference.max.ms LONG 9223372036854775807 [0,...]
    Superseded by message.timestamp.before.max.ms and message.timestamp.after.max.ms.
message.timestamp.before.max.ms LONG 9223372036854775807 [0,...]
    By how many milliseconds a producer's timestamp may lie before the broker's time.
message.timestamp.after.max.ms LONG 9223372036854775807 [0,...]
    By how many milliseconds a producer's timestamp may lie after the broker's time.
leader.replication.throttled.replicas LIST "" replicas
    Replicas whose replication is throttled at the leader: a list of partition:broker, or *.
follower.replication.throttled.replicas LIST "" replicas
    Replicas whose replication is throttled at the follower: a list of partition:broker, or *.
message.downconversion.enable BOOLEAN true
    Whether batches are converted for consumers that know older formats only.
remote.storage.enable BOOLEAN false
    Tiered storage, which this broker does not have.
local.retention.ms LONG -2 [-2,...]
    With tiered storage: how many milliseconds segments stay on local disks; -2: retention.ms.
local.retention.bytes LONG -2 [-2,...]
    With tiered storage: how many bytes of segments stay on local disks; -2: retention.bytes.
remote.log.copy.disable BOOLEAN false
    With tiered storage: whether copying segments is suspended.
remote.log.delete.on.disable BOOLEAN false
    With tiered storage: whether remote segments are deleted once it is disabled.
kstore.acks.durable BOOLEAN false
    Whether the acknowledgement of a record means that it is on disk, not only written. Not a
    setting of Kafka.
""")
)

# The broker settings that are defaults of topic settings, in order of precedence
# (ServerTopicConfigSynonyms), each with the factor from its unit to the topic setting's unit.
BROKER_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = MappingProxyType(
    {
        "segment.bytes": (("log.segment.bytes", 1),),
        "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
        "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
        "segment.index.bytes": (("log.index.size.max.bytes", 1),),
        "flush.messages": (("log.flush.interval.messages", 1),),
        "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        "retention.bytes": (("log.retention.bytes", 1),),
        "retention.ms": (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ),
        "max.message.bytes": (("message.max.bytes", 1),),
        "index.interval.bytes": (("log.index.interval.bytes", 1),),
        "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
        "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
        "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
        "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
        "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
        "cleanup.policy": (("log.cleanup.policy", 1),),
        "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
        "min.insync.replicas": (("min.insync.replicas", 1),),
        "compression.type": (("compression.type", 1),),
        "compression.gzip.level": (("compression.gzip.level", 1),),
        "compression.lz4.level": (("compression.lz4.level", 1),),
        "compression.zstd.level": (("compression.zstd.level", 1),),
        "preallocate": (("log.preallocate", 1),),
        "message.format.version": (("log.message.format.version", 1),),
        "message.timestamp.type": (("log.message.timestamp.type", 1),),
        "message.timestamp.difference.max.ms": (("log.message.timestamp.difference.max.ms", 1),),
        "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
        "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
        "message.downconversion.enable": (("log.message.downconversion.enable", 1),),
        "local.retention.ms": (("log.local.retention.ms", 1),),
        "local.retention.bytes": (("log.local.retention.bytes", 1),),
        "kstore.acks.durable": (("kstore.acks.durable", 1),),
    }
)
