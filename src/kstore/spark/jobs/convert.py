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

Sealed segments with messages v0 or v1 are written anew in place as record batches v2, which is all
that Kafka 4 reads; the active one only with --roll, which closes it first. A message becomes a
batch of one record, a compressed set of messages one batch; offsets and timestamps stay (v0 has
none: -1). With --compression every batch gets that codec, those of v2 as well, unless it makes
them larger (--force).
Nobody else may write meanwhile. When this program is killed, each segment is the old or the new
one. A damaged segment stays as it is, and is named. What is appended later has the format that
the topic's message.format.version says.
--dry-run shows the tasks. --resume keeps what is done in a file; a partition that has changed since
is looked at again.
Exit status: 0 if all is well, 1 where a segment stayed as it was.
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
    """Write messages v0 and v1 in a store's sealed segments anew as batches v2, on Spark.

    Parameters
    ----------
    compression, level
        A codec for every batch that it does not make larger, by Kafka's name; None keeps each
        batch's.
    force
        Use the codec also for batches that it makes larger.
    options
        ``roll`` and those of every job that changes a store:
        :class:`~kstore.spark.jobs.rewrite.RewriteOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where no topic matches, StorageError where an executor does not see the
    directories or a disk fails: what was swapped in by then stays.
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
    from kstore.spark.jobs import convert as job

    raise SystemExit(main("convert", job.describe, job.run))
