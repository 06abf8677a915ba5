"""Reports what an adoption of topics would change, and what retention would then delete."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kstore.cluster.adoption import PlannedTopic, Source, plan_adoption
from kstore.cluster.broker_file import read_broker_file
from kstore.cluster.config_changes import check_broker_config
from kstore.cluster.engine_config import to_log_config
from kstore.cluster.settings.layers import BrokerConfig
from kstore.cluster.settings.topic_settings import TOPIC_SETTINGS
from kstore.config import LogConfig
from kstore.errors import KStoreError
from kstore.log.log import Log
from kstore.log.retention import segments_to_delete
from kstore.log.time_lookup import segment_facts

if TYPE_CHECKING:
    from kstore.store.store import Store

_SHOWN = ("cleanup.policy", "retention.ms", "retention.bytes")


def report_adoption(
    store: "Store", source: Source, broker_config: Mapping[str, object]
) -> Iterator[str]:
    """Report lines for each topic of the source and each partition that would lose records.

    ``broker_config``: the settings of the broker to be started. Changes nothing; the store may be
    open for reading. Raises the errors of :func:`plan_adoption`.
    """
    state = read_broker_file(store._manager._dirs)
    static = check_broker_config(broker_config)
    broker = BrokerConfig(static)
    if state is not None:
        broker = BrokerConfig(static, state.default_config, state.config)
    planned = plan_adoption(store, source, broker)
    count = size = 0
    for topic in planned:
        if topic.refusal is not None:
            yield f"{topic.name}: would not be adopted: {topic.refusal}"
            continue
        count += 1
        values = {name: broker.topic_default(name) for name in TOPIC_SETTINGS} | dict(topic.config)
        yield f"{topic.name}: would be adopted; {_shown(topic, values)}"
        config = to_log_config(values, LogConfig())
        if "compact" in config.cleanup_policy:
            yield f"  {topic.name}: compaction would keep the latest record of each key"
        for partition in sorted(store._catalog.topics[topic.name]):
            try:
                deleted, start = deleted_by_retention(store[topic.name][partition], config)
            except KStoreError as error:
                yield f"  {topic.name}-{partition}: cannot be read: {error}"
                continue
            size += deleted
            if deleted:
                yield (
                    f"  {topic.name}-{partition}: retention would delete the records before "
                    f"offset {start}: {deleted:,} bytes"
                )
    yield (
        f"{count} of {len(planned)} topics would be adopted; retention would delete {size:,} bytes"
    )


def _shown(topic: PlannedTopic, values: Mapping[str, str]) -> str:
    names = [*_SHOWN, *sorted(name for name in topic.config if name not in _SHOWN)]
    return " ".join(
        f"{name}={values[name]}{'' if name in topic.config else ' (default)'}" for name in names
    )


def deleted_by_retention(log: Log, config: LogConfig) -> tuple[int, int]:
    """The bytes that retention would delete now, and the resulting log start offset."""
    if not log.size:  # a partition without a record may have no file yet
        return 0, log.start_offset
    facts = segment_facts(log, log._files)
    doomed = segments_to_delete(
        facts,
        config,
        log_start_offset=log.start_offset,
        end_offset=log.high_watermark,
        now_ms=time.time_ns() // 1_000_000,
    )
    gone = facts[: len(doomed)]
    return sum(each.size for each in gone), gone[-1].next_offset if gone else log.start_offset
