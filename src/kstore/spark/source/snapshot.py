"""What a load sees of a store: which partitions there are, and where each begins and ends.

It is taken once, when ``load()`` is called, and travels with the DataFrame: however often Spark
plans a query over the frame, records that come later do not show, and two halves of a join see
the same. Offsets that options name by time or as "latest" are found within it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    KStoreError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kstore.log.log import Log
from kstore.partition_files import TopicIdentity, check_isolation, filenames, find_offset_for_time
from kstore.spark.java_pattern import compile_topic_pattern
from kstore.spark.source.data_loss import report_data_loss
from kstore.spark.source.offsets import EARLIEST, LATEST, Offsets, TopicPartition, format_names
from kstore.spark.source.options import Bound, SourceOptions
from kstore.store.store import Store

# No pattern finds them, as in Kafka.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """First offset and end of each partition, and what was asked for but is not there."""

    extents: dict[TopicPartition, tuple[int, int]]
    missing: tuple[TopicPartition, ...] = ()
    missing_topics: tuple[str, ...] = ()
    identities: dict[str, TopicIdentity] = field(default_factory=dict)  # by topic

    @property
    def ends(self) -> Offsets:
        return {place: end for place, (_, end) in self.extents.items()}

    @property
    def starts(self) -> Offsets:
        return {place: start for place, (start, _) in self.extents.items()}

    def raise_if_missing(self, paths: tuple[str, ...]) -> None:
        """UnknownTopicOrPartitionError for what a batch query names and the store lacks."""
        names = [*self.missing_topics, *(f"{topic}-{number}" for topic, number in self.missing)]
        if names:
            raise UnknownTopicOrPartitionError(
                f"not in this store: {', '.join(names[:8])}; `kstore topics --list` names what is",
                path=paths[0],
            )


def find_partitions(store: Store, options: SourceOptions) -> Snapshot:
    """Which partitions are meant, without a look into them (both offsets are 0)."""
    if options.pattern is not None:
        pattern = compile_topic_pattern(options.pattern)
        names: Iterable[str] = [
            name for name in store if name not in filenames.INTERNAL_TOPICS and pattern.search(name)
        ]
    else:
        names = options.topics or sorted({topic for topic, _ in options.partitions})
    there: set[TopicPartition] = set()
    unknown: list[str] = []
    for name in names:
        if name in store:
            there.update((name, number) for number in store[name].partitions)
        else:
            unknown.append(name)
    wanted = set(options.partitions) or there
    return Snapshot(
        dict.fromkeys(sorted(wanted & there), (0, 0)),
        tuple(sorted(place for place in wanted - there if place[0] not in unknown)),
        tuple(unknown),
    )


def take_snapshot(store: Store, options: SourceOptions) -> Snapshot:
    """The partitions that are meant, with the offsets at which they begin and end now.

    The end is the log's, or with read_committed its last stable offset, as for Kafka's clients.
    """
    found = find_partitions(store, options)
    committed = check_isolation(options.isolation)
    # Before the offsets: of a topic that is made again meanwhile these are not taken for its own.
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
    """What a topic is known by, by the last look at the directories."""
    return store._manager.identities.find(topic)


def resolve(store: Store, snapshot: Snapshot, bound: Bound, options: SourceOptions) -> Offsets:
    """The offset of each partition that a bound names; the end where a time has none behind it.

    Raises InvalidConfigError where a bound that names partitions does not name just these, or
    where no record is as late as a starting time (unless told to take the latest).
    """
    places = snapshot.extents
    if bound.whole is None and set(bound.offsets) != set(places):
        lacking = set(places) - set(bound.offsets)
        surplus = set(bound.offsets) - set(places)
        raise InvalidConfigError(
            f"{bound.option} has to name just the partitions that are read"
            + (f"; it lacks {format_names(lacking)}" if lacking else "")
            + (f"; it has {format_names(surplus)} beside them" if surplus else "")
            + ("; write -2 for the earliest, -1 for the latest" if not bound.is_time else "")
        )
    resolved = {}
    for place, (start, end) in places.items():
        value = bound.value_of(place)
        if bound.is_time:
            value = _at_time(store, place, value, end, bound, options)
        resolved[place] = start if value == EARLIEST else end if value == LATEST else value
    return resolved


def _at_time(
    store: Store, place: TopicPartition, when: int, end: int, bound: Bound, options: SourceOptions
) -> int:
    log = _log(store, place)
    try:
        offset = log.offset_at(when)
    except CorruptRecordError:
        found, lost = find_offset_for_time(log, when)
        report_data_loss(lost, options.fail_on_data_loss)
        offset = end if found is None else found
    if offset < end:
        return offset
    if bound.option.startswith("starting") and options.error_if_no_offset:
        raise InvalidConfigError(
            f"{bound.option}: no record of {place[0]}-{place[1]} is as late as {when}; take an "
            "earlier time, or set startingOffsetsByTimestampStrategy to latest"
        )
    return end


def _log(store: Store, place: TopicPartition) -> Log:
    return store[place[0]][place[1]]


def check_identity(topic: str, known: str | None, now: TopicIdentity) -> KStoreError | None:
    """The error for a topic that is not the one that it was; None for the same topic."""
    if now.is_same(known):
        return None
    return UnknownTopicOrPartitionError(
        f"topic {topic!r} was deleted and made again (it was {known or 'without an id'} and is "
        f"{now.text or 'without an id'}): the records that are wanted are gone, and others have "
        "their offsets"
    )


def check_extent(
    place: TopicPartition, start: int, stop: int, extent: tuple[int, int]
) -> tuple[int, int, KStoreError | None]:
    """A range cut to what is there, and what to say of the rest (None: nothing is lost)."""
    low, high = extent
    if low <= start <= high and stop <= high:
        return start, stop, None
    lost = OffsetOutOfRangeError(
        f"offsets {start} to {stop} of {place[0]}-{place[1]} are wanted, but there are {low} to "
        f"{high}: retention, a deletion or a truncation was faster, or the offsets are wrong",
        offset=start if start < low else high,
    )
    return min(max(start, low), high), max(min(stop, high), low), lost
