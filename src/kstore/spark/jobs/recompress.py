"""``kstore spark recompress``: the batches of a store under another codec."""

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
  kstore spark recompress --compression zstd --log-dir /data/kafka-logs
  kstore spark recompress --compression none --topic orders --master 'local[4]' --log-dir data
  kstore spark recompress --compression lz4 --roll --resume done.json --json --log-dir data
  spark-submit --master spark://host:7077 .../jobs/recompress.py --compression zstd --log-dir DIR

Sealed segments are written anew in place, segment by segment; the active one only with --roll,
which closes it first. Every record keeps offset, timestamp and headers, every batch its
producer's fields and transaction; control batches stay as they are. A message format below v2
stays what it is (see convert). What has that codec already is not written. A batch that the codec
would make larger stays as it is, unless --force, or --compression none, which is always applied.
--merge puts small batches together. The report has the bytes before and after.
Nobody else may write meanwhile. When this program is killed, each segment is the old or the new
one. A damaged segment stays as it is, and is named. Appends go on with the topic's own codec.
--dry-run shows the tasks. --resume keeps what is done in a file; a partition that has changed since
is looked at again.
Exit status: 0 if all is well, 1 where a segment stayed as it was.
"""


def recompress(
    spark: "SparkSession",
    path: Paths,
    compression: str,
    *,
    level: int | None = None,
    force: bool = False,
    merge: bool = False,
    **options: Unpack[RewriteOptions],
) -> list[RewrittenPartition]:
    """Write the sealed segments of a store anew with another codec, on Spark's executors.

    Parameters
    ----------
    compression
        Kafka's name of a codec: none, gzip, snappy, lz4 or zstd.
    level
        The codec's own, None for Kafka's default.
    force
        Use the codec also for batches that it makes larger. Without it they stay as they are,
        unless ``compression`` is none.
    merge
        Put small neighbours together as one batch, up to ``max.message.bytes`` before compression:
        such as follow each other without a gap, without producer id or transaction, of one leader
        epoch and timestamp type.
    options
        ``roll`` and those of every job that changes a store:
        :class:`~kstore.spark.jobs.rewrite.RewriteOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where no topic matches, StorageError where an executor does not see the
    directories or a disk fails: what was swapped in by then stays.
    """
    target = RewriteTarget(compression, level, force=force, merge=merge)
    return RewriteJob(spark, path, target, **options).run()


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)
    add_rewriting(parser, codec_required=True)
    parser.add_argument(
        "--merge",
        action="store_true",
        help="put small neighbouring batches together, up to max.message.bytes: only such without "
        "gap, producer id or transaction, of one leader epoch and timestamp type",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    target = RewriteTarget(
        arguments.compression, arguments.level, force=arguments.force, merge=arguments.merge
    )
    return RewriteJob.run_command(
        arguments, progress, "recompress", target=target, roll=arguments.roll
    )


if __name__ == "__main__":
    from kstore.spark.jobs import recompress as job

    raise SystemExit(main("recompress", job.describe, job.run))
