"""``kstore dump-log``: Kafka's DumpLogSegments."""

import argparse
import os
import re
from pathlib import PurePath

from kstore.arguments import whole_number
from kstore.cli import dump_decoders, dump_index
from kstore.cli.common import Output, ToolParser, complain
from kstore.cli.dump_errors import DumpErrors, base_offset
from kstore.errors import CorruptFileError, KStoreError
from kstore.integers import INT32_MAX
from kstore.partition_files import DISK, LineDumper, filenames, publish_barrier

_CHUNK = 16 << 20  # bytes of a log per read
_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_DECODERS = (
    ("offsets-decoder", "offsets", "records of __consumer_offsets as JSON"),
    ("transaction-log-decoder", "transactions", "records of __transaction_state as JSON"),
    ("cluster-metadata-decoder", "cluster_metadata", "records of __cluster_metadata as JSON"),
    ("remote-log-metadata-decoder", "remote_log_metadata", "records of __remote_log_metadata"),
    ("share-group-state-decoder", "share_group_state", "records of __share_group_state as JSON"),
)
_DECODER_CLASSES = (("key", "keys"), ("value", "payloads"))

EPILOG = """\
examples:
  kstore dump-log --files data/orders-0/00000000000000000000.log
  kstore dump-log --deep-iteration --print-data-log --files data/orders-0/*.log | head
  kstore dump-log --index-sanity-check --files data/orders-0/00000000000000000000.index

Reads the files as they are on disk, also beside a running broker or writer, and changes nothing.
At the end, stderr reports inconsistencies, as Kafka does, and where an unfinished publication of
the Spark sink begins: readers return nothing from there on. The exit status is 1 if bytes are
corrupt, or a file is of no known kind.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    for name in ("--log-dir", "--path", "--file"):
        parser.hints[name] = f"{parser.prog} takes files: --files data/orders-0/*.log"
    parser.add_argument(
        "--files",
        required=True,
        action="append",
        nargs="+",
        metavar="FILE",
        help="REQUIRED: the files to dump, separated by commas or blanks: .log, .checkpoint, "
        ".index, .timeindex, .txnindex, .snapshot in any mix",
    )
    parser.add_argument(
        "--deep-iteration", action="store_true", help="a line for every record, not only batches"
    )
    parser.add_argument(
        "--print-data-log",
        action="store_true",
        help="keys and payloads of the records too (implies --deep-iteration)",
    )
    parser.add_argument(
        "--skip-record-metadata",
        action="store_true",
        help="print only key and payload of records; control records are skipped",
    )
    parser.add_argument(
        "--verify-index-only",
        action="store_true",
        help="compare indexes with their logs without printing their entries",
    )
    parser.add_argument(
        "--index-sanity-check",
        action="store_true",
        help="only the check that a broker makes at start to see if it has to rebuild an index",
    )
    for name, _, text in _DECODERS:
        parser.add_argument(
            f"--{name}", action="store_true", help=f"{text} (implies --print-data-log)"
        )
    parser.add_argument(
        "--max-message-size",
        type=whole_number(0, INT32_MAX),
        default=5 << 20,
        metavar="BYTES",
        help="report index entries with larger batches as mismatches (default: 5242880)",
    )
    parser.add_argument(
        "--max-bytes",
        type=whole_number(0, INT32_MAX),
        default=INT32_MAX,
        metavar="BYTES",
        help="read only so much of each log (default: 2147483647)",
    )
    for name, shown in _DECODER_CLASSES:
        parser.add_argument(
            f"--{name}-decoder-class",
            nargs="?",
            const=dump_decoders.STRING,
            metavar="CLASS",
            help=f"how {shown} are shown (implies --print-data-log): {dump_decoders.PACKAGE}."
            "StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder, which is hexadecimal",
        )


def run(arguments: argparse.Namespace) -> int:
    for each in (arguments.key_decoder_class, arguments.value_decoder_class):
        dump_decoders.chosen_decoder(each or dump_decoders.STRING)  # an error before any output
    errors = DumpErrors()
    files = [name for group in arguments.files for text in group for name in text.split(",")]
    with Output() as output:
        for name in filter(None, files):
            if not os.path.exists(name):
                raise KStoreError(f"there is no file {name}")
            output.line(f"Dumping {name}")
            kind = PurePath(name).suffix.removeprefix(".")
            try:
                if kind in (filenames.LOG, filenames.KRAFT_SNAPSHOT):
                    dump_log(name, arguments, output, errors)
                elif kind == filenames.INDEX:
                    dump_index.dump_offset_index(name, arguments, output, errors)
                elif kind == filenames.TIME_INDEX:
                    dump_index.dump_time_index(name, arguments, output, errors)
                elif kind == filenames.TRANSACTION_INDEX:
                    dump_index.dump_transaction_index(name, output)
                elif kind == filenames.SNAPSHOT:
                    dump_index.dump_snapshot(name, output)
                else:
                    output.flush()
                    hint = "; it is a directory: name the files in it" * os.path.isdir(name)
                    complain(f"Ignoring unknown file {name}{hint}")
                    errors.unknown += 1
            except CorruptFileError as error:
                errors.damage.append(str(error))
    errors.print()
    return 1 if errors.damage or errors.unknown else 0


def dump_log(name: str, arguments: argparse.Namespace, output: Output, errors: DumpErrors) -> None:
    """Dump the batches of a log or KRaft snapshot, and optionally their records."""
    dumper = make_dumper(arguments, output)
    output.line(first_line(name))
    fd = DISK.open(name)
    try:
        file_size = DISK.size(fd)
        size = min(file_size, arguments.max_bytes)
        position, wanted = 0, _CHUNK
        while position < size:
            dumper.feed(DISK.pread(fd, min(wanted, size - position), position), position)
            while (lines := dumper.next_lines()) is not None:
                output.write(lines)
            if dumper.stop is not None or dumper.position + dumper.wanted > size:
                break
            if dumper.position == position and wanted >= size - position:
                break
            wanted = max(_CHUNK, dumper.wanted, 2 * wanted if dumper.position == position else 0)
            position = dumper.position
    finally:
        dumper.close()
        DISK.close(fd)
    rest = size - dumper.position
    if rest > 0 and file_size <= arguments.max_bytes:
        output.line(f"Found {rest} invalid bytes at the end of {PurePath(name).name}")
    if dumper.stop is not None:
        errors.damage.append(
            f"No valid batch at position {dumper.position} of {name}: {dumper.stop}"
        )
    for at, offset, reason in dumper.damaged:
        errors.damage.append(
            f"The records of the batch with offset {offset} at position {at} of {name} cannot be "
            f"read: {reason}"
        )
    if dumper.gaps:
        errors.gaps[name] = dumper.gaps
    report_unpublished(name, file_size, errors)


def report_unpublished(name: str, size: int, errors: DumpErrors) -> None:
    """Report from which position a log is not published; the dump shows these batches, too."""
    folder, file_name = os.path.split(os.path.abspath(name))
    barrier = publish_barrier.read_barrier(DISK, folder)
    if barrier is None or PurePath(name).suffix != f".{filenames.LOG}":
        return
    base = base_offset(file_name)
    start = barrier.position if base == barrier.segment else 0
    if base >= barrier.segment and start < size:
        errors.unpublished.append(
            f"Not published from position {start} of {name} on: the publication of "
            f"{barrier.manifest} is in progress or was interrupted, and the next writer "
            "continues or undoes it"
        )


def first_line(name: str) -> str:
    """The first line of a dump, from the file's name."""
    file_name = PurePath(name).name
    if file_name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    if snapshot := _SNAPSHOT_NAME.fullmatch(file_name):
        return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"
    return f"Log starting offset: {base_offset(name)}"


def make_dumper(arguments: argparse.Namespace, output: Output) -> LineDumper:
    from kstore.cli import dump_records, dump_remote_metadata
    from kstore.record.codec import decompress

    chosen = [name for name, _, _ in _DECODERS if getattr(arguments, name.replace("-", "_"))]
    classes = (arguments.key_decoder_class, arguments.value_decoder_class)
    contents = arguments.print_data_log or bool(chosen) or any(each is not None for each in classes)
    render: dump_decoders.Render | None
    if chosen:
        function = next(function for name, function, _ in _DECODERS if name == chosen[0])
        is_remote = function == "remote_log_metadata"
        render = getattr(dump_remote_metadata if is_remote else dump_records, function)
    else:
        value, key = (
            dump_decoders.chosen_decoder(name or dump_decoders.STRING) for name in classes[::-1]
        )
        for _, deprecation in (value, key):  # Kafka loads the classes in this order
            if deprecation:
                output.line(deprecation)
        render = dump_decoders.renderer(key[0], value[0])
    return LineDumper(
        deep=arguments.deep_iteration or contents,
        contents=contents,
        metadata=not arguments.skip_record_metadata,
        decompress=decompress,
        render=render,
        render_control=dump_records.control,
    )
