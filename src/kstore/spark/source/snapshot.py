"""The snapshot of a load: its partitions, with the start and end offset of each.

``load()`` takes it once, and the DataFrame keeps it: however often Spark plans a query over the
frame, records that are appended later are not read, and both sides of a self-join read the same
records. Bounds by time or "latest" are resolved within the snapshot
(:mod:`kstore.spark.source.time_bounds`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kstore.errors import (
    KStoreError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kstore.partition_files import TopicIdentity, check_isolation, filenames
from kstore.spark.java_pattern import compile_topic_pattern
from kstore.spark.source.offsets_json import Offsets, TopicPartition
from kstore.spark.source.options import SourceOptions
from kstore.store.store import Store


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The start and end offset of each partition, and the requested partitions that are missing."""

    extents: dict[TopicPartition, tuple[int, int]]
    missing: tuple[TopicPartition, ...] = ()
    missing_topics: tuple[str, ...] = ()
    identities: dict[str, TopicIdentity] = field(default_factory=dict)  # by topic

    @property
    def ends(self) -> Offsets:
        return {tp: end for tp, (_, end) in self.extents.items()}

    @property
    def starts(self) -> Offsets:
        return {tp: start for tp, (start, _) in self.extents.items()}

    def raise_if_missing(self, paths: tuple[str, ...]) -> None:
        """Raise UnknownTopicOrPartitionError if a partition of a batch query is missing."""
        names = [*self.missing_topics, *(f"{topic}-{number}" for topic, number in self.missing)]
        if names:
            raise UnknownTopicOrPartitionError(
                f"not in this store: {', '.join(names[:8])}; `kstore topics --list` lists topics",
                path=paths[0],
            )


def find_partitions(store: Store, options: SourceOptions) -> Snapshot:
    """The selected partitions, without their offsets (both are 0)."""
    if options.pattern is not None:
        pattern = compile_topic_pattern(options.pattern)
        # As in Kafka, no pattern matches internal topics.
        names: Iterable[str] = [
            name for name in store if name not in filenames.INTERNAL_TOPICS and pattern.search(name)
        ]
    else:
        names = options.topics or sorted({topic for topic, _ in options.partitions})
    existing: set[TopicPartition] = set()
    unknown: list[str] = []
    for name in names:
        if name in store:
            existing.update((name, number) for number in store[name].partitions)
        else:
            unknown.append(name)
    selected = set(options.partitions) or existing
    return Snapshot(
        dict.fromkeys(sorted(selected & existing), (0, 0)),
        tuple(sorted(tp for tp in selected - existing if tp[0] not in unknown)),
        tuple(unknown),
    )


def take_snapshot(store: Store, options: SourceOptions) -> Snapshot:
    """The selected partitions with their current start and end offsets.

    The end is the log end offset, or with read_committed the last stable offset, as for Kafka's
    clients.
    """
    found = find_partitions(store, options)
    committed = check_isolation(options.isolation)
    # Before the offsets: if a topic is recreated meanwhile, its offsets get the old identity, and
    # later checks detect it.
    identities = {
        topic: find_identity(store, topic)
        for topic in dict.fromkeys(topic for topic, _ in found.extents)
    }
    extents = {}
    for topic, number in found.extents:
        log = store[topic][number]
        start = log.start_offset
        end = log.last_stable_offset if committed else log.end_offset
        extents[topic, number] = (start, max(end, start))
    return Snapshot(extents, found.missing, found.missing_topics, identities)


def find_identity(store: Store, topic: str) -> TopicIdentity:
    """A topic's identity as of the last listing of the directories."""
    return store._manager.identities.find(topic)


def check_identity(topic: str, known: str | None, current: TopicIdentity) -> KStoreError | None:
    """The error for a recreated topic; None if the topic still has the known identity."""
    if current.is_same(known):
        return None
    return UnknownTopicOrPartitionError(
        f"topic {topic!r} was deleted and recreated (its id was {known or 'unset'} and is "
        f"{current.text or 'unset'}): the requested records are lost, and other records have their "
        "offsets"
    )


def check_extent(
    tp: TopicPartition, start: int, stop: int, extent: tuple[int, int]
) -> tuple[int, int, KStoreError | None]:
    """A range clipped to the existing offsets, and the error for the others; None without any."""
    low, high = extent
    if low <= start <= high and stop <= high:
        return start, stop, None
    lost = OffsetOutOfRangeError(
        f"offsets {start} to {stop} of {tp[0]}-{tp[1]} are requested, but the log has {low} to "
        f"{high}: retention, a deletion or a truncation removed records, or the offsets are wrong",
        offset=start if start < low else high,
    )
    return min(max(start, low), high), max(min(stop, high), low), lost
