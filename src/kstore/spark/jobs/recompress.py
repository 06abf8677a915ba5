"""``kstore spark recompress``: the batches of a store under another codec."""

import argparse
from typing import TYPE_CHECKING, Any

from kstore.log.rewriting import Target
from kstore.spark.jobs.command import main
from kstore.spark.jobs.rewriting import RewrittenPartition, add_rewriting, rewrite, run_rewriting
from kstore.spark.jobs.running import Progress
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
stays what it is (see convert). What has that codec already is not written.
Nobody else may write meanwhile. When this program is killed, each segment is the old or the new
one. A damaged segment stays as it is, and is named. Appends go on with the topic's own codec.
--dry-run shows the tasks. --resume keeps what is done in a file.
Exit status: 0 if all is well, 1 where a segment stayed as it was.
"""


def recompress(
    spark: "SparkSession",
    path: Paths,
    compression: str,
    *,
    level: int | None = None,
    **options: Any,
) -> list[RewrittenPartition]:
    """Write the sealed segments of a store anew with another codec, on Spark's executors.

    Parameters
    ----------
    compression
        Kafka's name of a codec: none, gzip, snappy, lz4 or zstd.
    level
        The codec's own, None for Kafka's default.
    options
        ``topic``, ``roll``, ``progress``, ``resume``, ``lock_timeout_ms``: see
        :func:`kstore.spark.jobs.rewriting.rewrite`, which also says what is returned and raised.
    """
    return rewrite(spark, path, Target(compression, level), **options)


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_rewriting(parser, codec_required=True)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    target = Target(arguments.compression, arguments.level)
    return run_rewriting(arguments, progress, "recompress", target)


if __name__ == "__main__":
    from kstore.spark.jobs import recompress as job

    raise SystemExit(main("recompress", job.describe, job.run))
