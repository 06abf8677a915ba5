"""A batch load's plan: what its options name, within its snapshot, as tasks."""

from collections.abc import Iterable, Mapping

from kstore.errors import InvalidConfigError
from kstore.log.log import Log
from kstore.partition_files import TopicIdentity
from kstore.spark.source.data_loss import LostOffsets, report_data_loss
from kstore.spark.source.offset_ranges import Plan, plan_ranges
from kstore.spark.source.offsets import EARLIEST, LATEST, TopicPartition
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.range_reader import open_store
from kstore.spark.source.snapshot import (
    Snapshot,
    check_extent,
    check_identity,
    find_identity,
    resolve,
)


def plan_batch(options: SourceOptions, snapshot: Snapshot, parallelism: int) -> Plan:
    """The tasks of a load; raises data loss since the snapshot (``failOnDataLoss``)."""
    store = open_store(options.paths)
    known = {topic: each.text for topic, each in snapshot.identities.items()}
    now = {topic: find_identity(store, topic) for topic in known if topic in store}
    gone = find_made_again(known, now, options.fail_on_data_loss)
    starts = resolve(store, snapshot, options.starting, options)
    stops = resolve(store, snapshot, options.ending, options)
    logs: list[tuple[Log, int, int]] = []
    wanted: list[tuple[Log, int, int]] = []
    for place, extent in snapshot.extents.items():
        if place[0] in gone:
            continue
        _check_order(place, options)
        start, stop, lost = check_extent(place, starts[place], stops[place], extent)
        report_data_loss(lost, options.fail_on_data_loss)
        log = store[place[0]][place[1]]
        logs.append((log, start, stop))
        wanted.append((log, 0 if options.starting.is_earliest(place) else start, stop))
    found = plan_ranges(
        logs,
        parallelism=parallelism,
        most=options.max_partition_bytes,
        min_tasks=options.min_partitions,
        most_offsets=options.max_records,
        identities=snapshot.identities,
    )
    report_lost_segments(wanted, options.fail_on_data_loss)
    return found


def report_lost_segments(
    wanted: Iterable[tuple[Log, int, int]], fail_on_data_loss: bool
) -> list[LostOffsets]:
    """Report offsets [start, stop) of logs whose segments are lost, by the last listing.

    A start of 0 includes what is lost in front of the first segment, where the log starts now.
    Returns the offsets that are lost, where the query continues without them.
    """
    found = []
    for log, start, stop in wanted:
        for lost, error in log._source.lost.find_errors(start, stop):
            report_data_loss(error, fail_on_data_loss)
            first, end = max(lost.first, start), min(lost.end, stop)
            found.append(LostOffsets(log.topic, log.partition, first, end))
    return found


def _check_order(place: TopicPartition, options: SourceOptions) -> None:
    """InvalidConfigError where a query names two offsets, and the first lies behind the second."""
    if options.starting.is_time or options.ending.is_time:
        return
    start = options.starting.offsets.get(place, EARLIEST)
    stop = options.ending.offsets.get(place, LATEST)
    if start > stop >= 0:
        raise InvalidConfigError(
            f"startingOffsets has {start} for {place[0]}-{place[1]}, beyond the {stop} of "
            "endingOffsets: nothing can be read between them"
        )


def find_made_again(
    known: Mapping[str, str | None], now: Mapping[str, TopicIdentity], fail_on_data_loss: bool
) -> set[str]:
    """Topics that are others now than those of the known identities: their records are lost."""
    gone = set()
    for topic in known:
        lost = check_identity(topic, known[topic], now[topic]) if topic in now else None
        report_data_loss(lost, fail_on_data_loss)
        if lost is not None:
            gone.add(topic)
    return gone
