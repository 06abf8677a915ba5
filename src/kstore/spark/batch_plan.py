"""A batch load's plan: what its options name, within its snapshot, as tasks."""

from kstore.spark.options import SourceOptions
from kstore.spark.planning import Plan, plan_ranges
from kstore.spark.reading import open_store
from kstore.spark.snapshot import Snapshot, check_extent, check_topic_id, resolve
from kstore.spark.tasks import report_lost
from kstore.store import Store


def plan_batch(options: SourceOptions, snapshot: Snapshot, parallelism: int) -> Plan:
    """The tasks of a load; raises what was lost since the snapshot, unless told to go on."""
    store = open_store(options.paths)
    gone = _made_anew(store, snapshot, options.fail_on_data_loss)
    starts = resolve(store, snapshot, options.starting, options)
    stops = resolve(store, snapshot, options.ending, options)
    logs = []
    for place, extent in snapshot.extents.items():
        if place[0] in gone:
            continue
        start, stop, lost = check_extent(place, starts[place], stops[place], extent)
        report_lost(lost, options.fail_on_data_loss)
        logs.append((store[place[0]][place[1]], start, stop))
    return plan_ranges(
        logs,
        parallelism=parallelism,
        most=options.max_partition_bytes,
        min_tasks=options.min_partitions,
        most_offsets=options.max_records,
        topic_ids=snapshot.topic_ids,
    )


def _made_anew(store: Store, snapshot: Snapshot, fail_on_data_loss: bool) -> set[str]:
    """Topics that are others than those of the snapshot: their records are lost."""
    gone = set()
    for topic, known in snapshot.topic_ids.items():
        lost = check_topic_id(topic, known, store[topic].topic_id if topic in store else known)
        report_lost(lost, fail_on_data_loss)
        if lost is not None:
            gone.add(topic)
    return gone
