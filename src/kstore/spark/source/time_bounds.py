"""Where a load begins and ends: offsets, "earliest", "latest" and times, within a snapshot.

A bound by time becomes an offset before Spark plans the query, so that segments on the other side
of it are not read.
"""

from kstore.errors import CorruptRecordError, InvalidConfigError
from kstore.log.log import Log
from kstore.partition_files import find_offset_for_time
from kstore.spark.source.data_loss import report_data_loss
from kstore.spark.source.offsets_json import EARLIEST, LATEST, Offsets, TopicPartition, format_names
from kstore.spark.source.options import Bound, SourceOptions
from kstore.spark.source.snapshot import Snapshot
from kstore.store.store import Store


def resolve(store: Store, snapshot: Snapshot, bound: Bound, options: SourceOptions) -> Offsets:
    """The offset of a bound in each partition; the end if no record is as late as a time.

    Raises InvalidConfigError if a bound by partition does not have exactly the snapshot's
    partitions, or if no record is as late as a starting time (unless the option
    ``startingOffsetsByTimestampStrategy`` is ``latest``).
    """
    partitions = snapshot.extents
    if bound.common is None and set(bound.offsets) != set(partitions):
        lacking = set(partitions) - set(bound.offsets)
        surplus = set(bound.offsets) - set(partitions)
        raise InvalidConfigError(
            f"{bound.option} must name exactly the partitions that are read"
            + (f"; it lacks {format_names(lacking)}" if lacking else "")
            + (f"; it also has {format_names(surplus)}" if surplus else "")
            + ("; write -2 for the earliest, -1 for the latest" if not bound.is_time else "")
        )
    resolved = {}
    for tp, (start, end) in partitions.items():
        value = bound.value_of(tp)
        if bound.is_time:
            value = _at_time(store, tp, value, end, bound, options)
        resolved[tp] = start if value == EARLIEST else end if value == LATEST else value
    return resolved


def _at_time(
    store: Store, tp: TopicPartition, time_ms: int, end: int, bound: Bound, options: SourceOptions
) -> int:
    log = _log(store, tp)
    try:
        offset = log.offset_at(time_ms)
    except CorruptRecordError:
        found, lost = find_offset_for_time(log, time_ms)
        report_data_loss(lost, options.fail_on_data_loss)
        offset = end if found is None else found
    if offset < end:
        return offset
    if bound.option.startswith("starting") and options.error_if_no_offset:
        raise InvalidConfigError(
            f"{bound.option}: no record of {tp[0]}-{tp[1]} is as late as {time_ms}; use an "
            "earlier time, or set startingOffsetsByTimestampStrategy to latest"
        )
    return end


def _log(store: Store, tp: TopicPartition) -> Log:
    return store[tp[0]][tp[1]]
