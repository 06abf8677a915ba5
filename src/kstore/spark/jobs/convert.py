"""``kstore spark convert``: messages v0 and v1 of a store as record batches v2."""

import argparse
from typing import TYPE_CHECKING, Unpack

from kstore.arguments import add_rewriting
from kstore.partition_files import RewriteTarget
from kstore.spark.jobs.command import main
from kstore.spark.jobs.rewrite import RewriteJob, RewriteOptions, RewrittenPartition
from kstore.spark.jobs.store_changes import add_changing
from kstore.spark.jobs.task_runner import Progress
from kstore.spark.session import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark convert --log-dir /data/kafka-logs
  kstore spark convert --compression zstd --roll --topic 'old.*' --log-dir data
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/convert.py --log-dir /mnt/kafka-logs

Rewrites rolled segments with messages v0 or v1 as record batches v2, the only format that Kafka 4
reads; the active segment only with --roll, which rolls it first. A message becomes a batch of one
record, a compressed message set becomes one batch. Offsets and timestamps stay (v0 has no
timestamps: -1). --compression recompresses every batch, also those of v2, unless that makes it
larger (--force).
No other process may write to the store meanwhile. After a kill each segment is the old or the new
one. A damaged segment is named and stays unchanged. Later appends use the topic's
message.format.version.
--dry-run shows the tasks. --resume saves the reports of finished partitions in a file; a partition
is processed again if it has changed since.
Exit status: 0 if all is well, 1 if a damaged segment stayed unchanged.
"""


def convert(
    spark: "SparkSession",
    path: Paths,
    *,
    compression: str | None = None,
    level: int | None = None,
    force: bool = False,
    **options: Unpack[RewriteOptions],
) -> list[RewrittenPartition]:
    """Convert messages v0 and v1 in a store's rolled segments to record batches v2, on Spark.

    Parameters
    ----------
    compression, level
        Kafka's name of a codec for every batch that it does not make larger, and its level; None
        keeps the codec of each batch.
    force
        Use the codec also for batches that it makes larger.
    options
        ``roll`` and those of every job that changes a store:
        :class:`~kstore.spark.jobs.rewrite.RewriteOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError if another
    process keeps the store's lock, InvalidConfigError if no topic matches, and StorageError if an
    executor does not see the directories or a disk fails; the segments that were swapped in before
    stay.
    """
    target = RewriteTarget(compression, level, magic=2, force=force)
    return RewriteJob(spark, path, target, **options).run()


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)
    add_rewriting(parser, codec_required=False)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    target = RewriteTarget(arguments.compression, arguments.level, magic=2, force=arguments.force)
    return RewriteJob.run_command(
        arguments, progress, "convert", target=target, roll=arguments.roll
    )


if __name__ == "__main__":
    raise SystemExit(main("convert"))
