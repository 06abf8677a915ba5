"""``kstore delete-records``: Kafka's kafka-delete-records on a directory or a server."""

import argparse
import json
from typing import TYPE_CHECKING, TypeGuard, cast

from kstore.cli.common import (
    ToolParser,
    WrongFileError,
    add_log_dir_or_server,
    exception_name,
    open_directory_or_server,
    read_text_file,
)
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.partition_files import checked_log_start
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.remote.store import RemoteStore
    from kstore.store.store import Store

EPILOG = """\
examples:
  echo '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}], "version": 1}' > f
  kstore delete-records --offset-json-file f --log-dir data
  kstore delete-records --offset-json-file f --dry-run --log-dir data
  kstore delete-records --offset-json-file f --bootstrap-server localhost:9092

Deletes the records below the given offsets; offset -1 means all records. The log start offset moves
at once, and segments below it are removed. Topics whose cleanup.policy does not contain 'delete'
are refused. With --log-dir it must be the only writer of the directory; --dry-run works beside one.
The exit status is 1 if a partition was refused (Kafka's tool ends with 0); the others are
processed.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_log_dir_or_server(parser)
    parser.add_argument(
        "--offset-json-file",
        required=True,
        metavar="FILE",
        help="REQUIRED: a JSON file with the offset of each partition, as in the example",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be deleted, and delete nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.answer_errors import kafka_text

    offsets = parse_offsets(read_text_file(arguments.offset_json_file))
    refused = False
    with open_directory_or_server(arguments, "r" if arguments.dry_run else "a") as store:
        print("Executing records delete operation" + " (dry run)" * arguments.dry_run)
        lines = []
        for tp, offset in offsets.items():
            try:
                outcome = f"low_watermark: {delete(store, tp, offset, arguments.dry_run)}"
            except KStoreError as error:
                refused = True
                outcome = f"error: {exception_name(error)}: {kafka_text(error)}"
            lines.append(f"partition: {tp.topic}-{tp.partition}\t{outcome}")
        print("Records delete operation completed:", *lines, sep="\n")
    return 1 if refused else 0


def delete(store: "Store | RemoteStore", tp: TopicPartition, offset: int, dry_run: bool) -> int:
    """Delete a partition's records below an offset; return the new log start offset."""
    log = store[tp.topic][tp.partition]
    if dry_run:
        return max(log.start_offset, checked_log_start(cast("Log", log), offset))
    return log.delete_records(offset)


def parse_offsets(text: bytes | str) -> dict[TopicPartition, int]:
    """The offsets of Kafka's JSON: ``{"partitions": [{"topic", "partition", "offset"}]}``.

    Raises WrongFileError for any other shape, and for a partition that is named twice.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise WrongFileError("The input string is not a valid JSON") from None
    version = tree.get("version", 1) if isinstance(tree, dict) else 1
    if version != 1:
        raise WrongFileError(f"Not supported version field value {str(version)[:40]}")
    entries = tree.get("partitions") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise WrongFileError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    duplicates = []
    for entry in entries:
        tp, offset = _parse_entry(entry)
        if tp in offsets:
            duplicates.append(f"{tp.topic}-{tp.partition}")
        offsets[tp] = offset
    if duplicates:
        names = ",".join(dict.fromkeys(duplicates))
        raise WrongFileError(f"Offset json file contains duplicate topic partitions: {names}")
    return offsets


def _is_number(value: object, low: int, high: int) -> TypeGuard[int]:
    return type(value) is int and low <= value <= high


def _parse_entry(entry: object) -> tuple[TopicPartition, int]:
    topic, partition, offset = (
        (entry.get(name) for name in ("topic", "partition", "offset"))
        if isinstance(entry, dict)
        else (None, None, None)
    )
    if (
        isinstance(topic, str)
        and _is_number(partition, 0, INT32_MAX)
        and _is_number(offset, -1, INT64_MAX)
    ):
        return TopicPartition(topic, partition), offset
    raise WrongFileError(
        f"{_what_is_wrong(entry)}\nAn entry of partitions reads "
        '{"topic": "orders", "partition": 0, "offset": 10} '
        f"(offset -1: the log end), not {json.dumps(entry)[:80]}"
    )


def _what_is_wrong(entry: object) -> str:
    """Kafka's sentence for an entry that is not valid."""
    if not isinstance(entry, dict):
        return f"Expected JSON object, received {json.dumps(entry)[:40]}"
    kinds = {"topic": (str, "String"), "partition": (int, "Integer"), "offset": (int, "Long")}
    for name, (kind, word) in kinds.items():
        if name not in entry:
            return f"No such field exists: `{name}`"
        if type(entry[name]) is not kind:
            return f"Expected `{word}` value, received {json.dumps(entry[name])[:40]}"
    return "A number is out of range"
