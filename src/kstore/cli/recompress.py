"""``kstore recompress``: rewrites the batches of a directory with another codec."""

import argparse

from kstore.arguments import add_rewriting
from kstore.cli import partition_tool
from kstore.cli.common import ToolParser

EPILOG = """\
examples:
  kstore recompress --compression zstd --log-dir data
  kstore recompress --compression zstd --dry-run --topic 'orders.*' --log-dir data
  kstore recompress --compression none --roll --topic orders --partitions 0,1 --log-dir data

Rewrites the batches of all segments but the active ones; with --roll those too. Records keep
offset, timestamp and headers, batches their producer fields, transaction and message format;
control batches do not change. zstd needs record batches v2 ('kstore convert' first). A batch that
the codec would enlarge stays as it is, unless --force, or --compression none. --merge merges small
batches, which hardly shrink on their own. Later appends use the topic's own codec.

Segments are replaced one by one, as a compaction does it: readers continue, and a kill leaves the
old or the new one. No other process may write meanwhile. A segment with damage stays as it is and
is reported. 'kstore spark recompress' does the same on all cores of a cluster.

exit status: 0 done; 1 an error, or a segment with damage
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    partition_tool.add_options(parser)
    add_rewriting(parser, codec_required=True)
    parser.add_argument(
        "--merge",
        action="store_true",
        help="merge neighbouring batches up to max.message.bytes: only those without gap, producer "
        "id or transaction, of one leader epoch and timestamp type",
    )


def run(arguments: argparse.Namespace) -> int:
    from kstore.partition_files import RewriteTarget

    codec, level, force, roll = (
        arguments.compression, arguments.level, arguments.force, arguments.roll
    )  # fmt: skip
    tool = partition_tool.rewriting(
        RewriteTarget(codec, level, force=force, merge=arguments.merge),
        lambda log, progress: log.recompress(
            codec, level=level, force=force, merge=arguments.merge, roll=roll, progress=progress
        ),
        roll=roll,
    )
    return partition_tool.run(arguments, tool)
