"""``kstore convert``: rewrites messages v0 and v1 of a directory as record batches v2."""

import argparse

from kstore.arguments import add_rewriting
from kstore.cli import partition_tool
from kstore.cli.common import ToolParser

EPILOG = """\
examples:
  kstore convert --log-dir data
  kstore convert --dry-run --topic 'old.*' --log-dir data
  kstore convert --compression zstd --roll --topic old --log-dir data

Rewrites messages v0 and v1 in all segments but the active ones as record batches v2; with --roll
those too. A message becomes a batch of one record, a compressed set of messages one batch; offsets
and timestamps stay (v0 has none: -1). With --compression every batch gets that codec, those of v2
too. Later appends have the format that the topic's message.format.version says.

Segments are replaced one by one, as a compaction does it: readers continue, and a kill leaves the
old or the new one. No other process may write meanwhile. A segment with damage stays as it is and
is reported. 'kstore spark convert' does the same on all cores of a cluster.

exit status: 0 done; 1 an error, or a segment with damage
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    partition_tool.add_options(parser)
    add_rewriting(parser, codec_required=False)
    parser.add_argument(
        "--message-format-version",
        default="3.0",
        metavar="VERSION",
        help="a Kafka version that writes record batches v2, 0.11.0 or later (default: 3.0); lower "
        "ones cannot hold headers, producer ids and transactions, and are refused",
    )


def run(arguments: argparse.Namespace) -> int:
    from kstore.partition_files import conversion

    version, codec, level, force, roll = (
        arguments.message_format_version, arguments.compression, arguments.level, arguments.force,
        arguments.roll,
    )  # fmt: skip
    tool = partition_tool.rewriting(
        conversion(version, codec, level, force=force),
        lambda log, progress: log.convert(
            version, compression=codec, level=level, force=force, roll=roll, progress=progress
        ),
        roll=roll,
    )
    return partition_tool.run(arguments, tool)
