"""``kstore log-dirs``: Kafka's kafka-log-dirs on directories or a server, and moves."""

import argparse
import json
import os
from typing import TYPE_CHECKING

from kstore.arguments import split_names, whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    node_id,
    open_store,
)
from kstore.cli.progress import Progress
from kstore.config import parse_whole_number
from kstore.partition_files import filenames

if TYPE_CHECKING:
    from kstore.partition_files import LogDirInfo
    from kstore.store.store import Store

EPILOG = """\
examples:
  kstore log-dirs --describe --log-dir /disk1/kafka,/disk2/kafka
  kstore log-dirs --describe --topic-list orders,payments --log-dir /disk1/kafka
  kstore log-dirs --move orders-3 --to /disk2/kafka --throttle 50000000 \\
      --log-dir /disk1/kafka,/disk2/kafka
  kstore log-dirs --describe --topic-list orders --bootstrap-server localhost:9092

--describe prints the JSON of kafka-log-dirs: without --topic-list it has every partition, also the
empty ones of internal topics. Of a directory kstore adds four lists for each log directory:
"deleted" (directories that wait for removal), "strays" (renamed by a Kafka broker, never touched),
"strangers" (unrecognized; Kafka does not start beside them) and "uncleanable" (partitions whose
compaction failed and is not retried until its cause is removed, with the error and when it first
failed in ms since 1970). It works beside a running broker or writer.

--move must be the only writer of the directories; stop the broker first. It copies the partition
with everything that belongs to it, then removes the old copy. If interrupted, the partition stays
in its old directory, and the same command continues the move, also one that a broker began. To
cancel a move, call --move with --to the partition's current directory.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--dry-run"] = "--describe shows where each partition is; --move moves one"
    add_log_dir_or_server(parser)
    del parser.hints["--broker-list"]
    parser.add_argument(
        "--describe", action="store_true", help="the partitions of each directory, and their sizes"
    )
    parser.add_argument(
        "--topic-list", metavar="NAME[,NAME...]", help="only these topics (default: all)"
    )
    parser.add_argument(
        "--broker-list", metavar="ID[,ID...]", help="only these brokers of a server (default: all)"
    )
    parser.add_argument(
        "--move", metavar="TOPIC-PARTITION", help="the partition to move, such as orders-3"
    )
    parser.add_argument("--to", metavar="DIR", help="the directory, one of --log-dir, to move to")
    parser.add_argument(
        "--throttle",
        type=whole_number(1),
        metavar="BYTES",
        help="copy at most this many bytes a second",
    )


def run(arguments: argparse.Namespace) -> int:
    if check_directory_or_server(arguments):
        from kstore.cli import server_log_dirs

        return server_log_dirs.run(arguments)
    if arguments.broker_list is not None:
        raise WrongOptionsError("--broker-list goes with --bootstrap-server")
    if arguments.describe == (arguments.move is not None):
        raise WrongOptionsError("Command must include exactly one action: --describe or --move")
    if arguments.describe:
        with open_store(arguments) as store:
            print(json.dumps(_document(store, arguments.topic_list)))
        return 0
    topic, dash, number = arguments.move.rpartition("-")
    if not dash or not number.isdecimal():
        raise WrongOptionsError(f"--move takes a partition such as orders-3, not {arguments.move}")
    if arguments.to is None:
        raise WrongOptionsError("--move needs --to: the directory to move the partition to")
    if os.path.abspath(arguments.to) not in map(os.path.abspath, split_names(arguments.log_dir)):
        raise WrongOptionsError(f"--to {arguments.to} is not one of the directories of --log-dir")
    return _move(arguments, topic, parse_whole_number(number, name="a partition"))


def _move(arguments: argparse.Namespace, topic: str, partition: int) -> int:
    with open_store(arguments, "a") as store, Progress() as bar:
        moved = store.move(
            topic,
            partition,
            arguments.to,
            max_bytes_per_second=arguments.throttle,
            progress=lambda done, total: bar.show(done, total, arguments.move),
        )
    if moved.source == moved.target:
        print(f"{arguments.move} is in {moved.target}.")
    else:
        print(f"Moved {arguments.move} from {moved.source} to {moved.target}.")
    return 0


def _document(store: "Store", topic_list: str | None) -> dict[str, object]:
    topics = None if topic_list is None else {name.strip() for name in topic_list.split(",")}
    found = [_directory(about, topics) for about in store.log_dirs]
    return {"version": 1, "brokers": [{"broker": node_id(store), "logDirs": found}]}


def _directory(about: "LogDirInfo", topics: set[str] | None) -> dict[str, object]:
    partitions = [
        _partition(f"{topic}-{number}", os.path.join(about.path, f"{topic}-{number}"), False)
        for topic, number in about.partitions
        if topics is None or topic in topics
    ]
    for folder in about.futures:
        name = folder.rpartition(".")[0]
        if topics is None or name.rpartition("-")[0] in topics:
            partitions.append(_partition(name, os.path.join(about.path, folder), True))
    return {
        "logDir": about.path,
        "error": None if about.offline is None else str(about.offline),
        "partitions": partitions,
        "deleted": list(about.deleted),
        "strays": list(about.strays),
        "strangers": list(about.strangers),
        "uncleanable": [
            {
                "partition": f"{each.topic}-{each.partition}",
                "error": each.error,
                "sinceMs": each.since_ms,
            }
            for each in about.uncleanable
            if topics is None or each.topic in topics
        ],
    }


def _partition(name: str, path: str, future: bool) -> dict[str, object]:
    """A partition as in kafka-log-dirs; the lag, which only a broker knows, is 0."""
    size = 0
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(f".{filenames.LOG}"):
                size += entry.stat().st_size
    return {"partition": name, "size": size, "offsetLag": 0, "isFuture": future}
