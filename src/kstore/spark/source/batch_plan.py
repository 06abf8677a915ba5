"""The plan of a batch load: the selected offsets of its snapshot as tasks."""

from collections.abc import Iterable, Mapping, Sequence

from kstore.errors import InvalidConfigError
from kstore.log.log import Log
from kstore.partition_files import TopicIdentity
from kstore.spark.source.data_loss import LostOffsets, report_data_loss
from kstore.spark.source.offset_ranges import Plan, plan_ranges
from kstore.spark.source.offsets_json import EARLIEST, LATEST, TopicPartition
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.range_reader import open_store
from kstore.spark.source.snapshot import Snapshot, check_extent, check_identity, find_identity
from kstore.spark.source.time_bounds import resolve


def plan_batch(options: SourceOptions, snapshot: Snapshot, parallelism: int) -> Plan:
    """The tasks of a load; reports records that were lost since the snapshot."""
    store = open_store(options.paths)
    known = {topic: identity.text for topic, identity in snapshot.identities.items()}
    current = {topic: find_identity(store, topic) for topic in known if topic in store}
    recreated = find_recreated(known, current, options.fail_on_data_loss)
    starts = resolve(store, snapshot, options.starting, options)
    stops = resolve(store, snapshot, options.ending, options)
    logs: list[tuple[Log, int, int]] = []
    requested: list[tuple[Log, int, int]] = []
    for tp, extent in snapshot.extents.items():
        if tp[0] in recreated:
            continue
        _check_order(tp, options)
        start, stop, lost = check_extent(tp, starts[tp], stops[tp], extent)
        report_data_loss(lost, options.fail_on_data_loss)
        log = store[tp[0]][tp[1]]
        logs.append((log, start, stop))
        requested.append((log, 0 if options.starting.is_earliest(tp) else start, stop))
    return plan_logs(logs, requested, options, parallelism, snapshot)


def plan_logs(
    logs: Sequence[tuple[Log, int, int]],
    requested: Sequence[tuple[Log, int, int]],
    options: SourceOptions,
    parallelism: int,
    snapshot: Snapshot,
) -> Plan:
    """Plan tasks for offsets [start, stop) of logs; report requested offsets that are lost."""
    plan = plan_ranges(
        logs,
        parallelism=parallelism,
        max_bytes=options.max_partition_bytes,
        min_tasks=options.min_partitions,
        max_offsets=options.max_records,
        identities=snapshot.identities,
    )
    report_lost_segments(requested, options.fail_on_data_loss)
    return plan


def report_lost_segments(
    requested: Iterable[tuple[Log, int, int]], fail_on_data_loss: bool
) -> list[LostOffsets]:
    """Report the offsets [start, stop) of logs whose segments are lost, by the last listing.

    A start of 0 includes lost segments before the first existing one. Returns the lost offsets if
    the query continues without them.
    """
    lost_offsets = []
    for log, start, stop in requested:
        for lost, error in log._source.lost.find_errors(start, stop):
            report_data_loss(error, fail_on_data_loss)
            first, end = max(lost.first, start), min(lost.end, stop)
            lost_offsets.append(LostOffsets(log.topic, log.partition, first, end))
    return lost_offsets


def _check_order(tp: TopicPartition, options: SourceOptions) -> None:
    """Raise InvalidConfigError if a starting offset lies beyond the ending offset."""
    if options.starting.is_time or options.ending.is_time:
        return
    start = options.starting.offsets.get(tp, EARLIEST)
    stop = options.ending.offsets.get(tp, LATEST)
    if start > stop >= 0:
        raise InvalidConfigError(
            f"startingOffsets has {start} for {tp[0]}-{tp[1]}, beyond the {stop} of "
            "endingOffsets: nothing can be read between them"
        )


def find_recreated(
    known: Mapping[str, str | None], current: Mapping[str, TopicIdentity], fail_on_data_loss: bool
) -> set[str]:
    """The topics whose identity is no longer the known one: reports their records as lost."""
    recreated = set()
    for topic in known:
        lost = check_identity(topic, known[topic], current[topic]) if topic in current else None
        report_data_loss(lost, fail_on_data_loss)
        if lost is not None:
            recreated.add(topic)
    return recreated
