"""``kstore spark convert``: messages v0 and v1 of a store as record batches v2."""

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
  kstore spark convert --log-dir /data/kafka-logs
  kstore spark convert --compression zstd --roll --topic 'old.*' --log-dir data
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/convert.py --log-dir /mnt/kafka-logs

Sealed segments with messages v0 or v1 are written anew in place as record batches v2, which is all
that Kafka 4 reads; the active one only with --roll, which closes it first. A message becomes a
batch of one record, a compressed set of messages one batch; offsets and timestamps stay (v0 has
none: -1). With --compression every batch gets that codec, those of v2 as well.
Nobody else may write meanwhile. When this program is killed, each segment is the old or the new
one. A damaged segment stays as it is, and is named. What is appended later has the format that
the topic's message.format.version says.
--dry-run shows the tasks. --resume keeps what is done in a file.
Exit status: 0 if all is well, 1 where a segment stayed as it was.
"""


def convert(
    spark: "SparkSession",
    path: Paths,
    *,
    compression: str | None = None,
    level: int | None = None,
    **options: Any,
) -> list[RewrittenPartition]:
    """Write messages v0 and v1 in a store's sealed segments anew as batches v2, on Spark.

    Parameters
    ----------
    compression, level
        A codec for every batch, by Kafka's name; None keeps each batch's.
    options
        ``topic``, ``roll``, ``progress``, ``resume``, ``lock_timeout_ms``: see
        :func:`kstore.spark.jobs.rewriting.rewrite`, which also says what is returned and raised.
    """
    return rewrite(spark, path, Target(compression, level, magic=2), **options)


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_rewriting(parser, codec_required=False)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    target = Target(arguments.compression, arguments.level, magic=2)
    return run_rewriting(arguments, progress, "convert", target)


if __name__ == "__main__":
    from kstore.spark.jobs import convert as job

    raise SystemExit(main("convert", job.describe, job.run))
