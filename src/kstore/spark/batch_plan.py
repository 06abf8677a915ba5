"""A batch load's plan: what its options name, within its snapshot, as tasks."""

from kstore.spark.options import SourceOptions
from kstore.spark.planning import Plan, plan_ranges
from kstore.spark.reading import open_store
from kstore.spark.snapshot import Snapshot, check_extent, resolve
from kstore.spark.tasks import report_lost


def plan_batch(options: SourceOptions, snapshot: Snapshot, parallelism: int) -> Plan:
    """The tasks of a load; raises what was lost since the snapshot, unless told to go on."""
    store = open_store(options.paths)
    starts = resolve(store, snapshot, options.starting, options)
    stops = resolve(store, snapshot, options.ending, options)
    logs = []
    for place, extent in snapshot.extents.items():
        start, stop, lost = check_extent(place, starts[place], stops[place], extent)
        report_lost(lost, options.fail_on_data_loss)
        logs.append((store[place[0]][place[1]], start, stop))
    return plan_ranges(
        logs,
        parallelism=parallelism,
        most=options.max_partition_bytes,
        min_tasks=options.min_partitions,
        topic_ids={topic: store[topic].topic_id for topic, _ in snapshot.extents},
    )
