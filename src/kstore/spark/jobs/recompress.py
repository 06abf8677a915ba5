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

Rewrites rolled segments with the codec; the active segment only with --roll, which rolls it first.
Every record keeps its offset, timestamp and headers, every batch its producer fields and its
transaction; control batches and message formats stay (see convert). A segment whose batches all
have the codec is not rewritten. A batch that the codec would make larger stays unchanged, except
with --force or --compression none. --merge merges small batches. The report has the bytes before
and after.
No other process may write to the store meanwhile. After a kill each segment is the old or the new
one. A corrupt segment is named and stays unchanged. Later appends use the topic's codec.
--dry-run shows the tasks. --resume saves the reports of finished partitions in a file; a partition
is processed again if it has changed since.
Exit status: 0 if all is well, 1 if a corrupt segment stayed unchanged.
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
    """Rewrite the rolled segments of a store with another codec, on Spark's executors.

    Parameters
    ----------
    compression
        Kafka's name of a codec: none, gzip, snappy, lz4 or zstd.
    level
        The codec's compression level; None: Kafka's default.
    force
        Use the codec also for batches that it makes larger. Without it they stay unchanged,
        unless ``compression`` is none.
    merge
        Merge consecutive small batches into one of up to ``max.message.bytes`` before compression:
        only batches without an offset gap between them, without producer id or transaction, and
        with the same leader epoch and timestamp type.
    options
        ``roll`` and those of every job that changes a store:
        :class:`~kstore.spark.jobs.rewrite.RewriteOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError if another
    process keeps the store's lock, InvalidConfigError if no topic matches, and StorageError if an
    executor does not see the directories or a disk fails; the segments that were swapped in before
    stay.
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
        help="merge consecutive small batches, up to max.message.bytes: only batches without an "
        "offset gap between them, without producer id or transaction, and with the same leader "
        "epoch and timestamp type",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    target = RewriteTarget(
        arguments.compression, arguments.level, force=arguments.force, merge=arguments.merge
    )
    return RewriteJob.run_command(
        arguments, progress, "recompress", target=target, roll=arguments.roll
    )


if __name__ == "__main__":
    raise SystemExit(main("recompress"))
