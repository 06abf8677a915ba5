"""``kstore leader-election``: Kafka's kafka-leader-election."""

import argparse
import json
from typing import Any

from kstore.arguments import whole_number
from kstore.cli.common import (
    ToolParser,
    WrongFileError,
    WrongOptionsError,
    open_server,
    read_text_file,
)
from kstore.cli.server_options import add_server
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX
from kstore.topic_partition import TopicPartition

EPILOG = """\
examples:
  kstore leader-election --election-type preferred --all-topic-partitions \\
      --bootstrap-server localhost:9092
  kstore leader-election --election-type unclean --topic orders --partition 0 \\
      --bootstrap-server localhost:9092

--path-to-json-file names a file as {"partitions": [{"topic": "orders", "partition": 0}]}. A broker
of `kstore serve` leads every partition, so there is nothing to elect, and the answer says so.
"""
_TYPES = {"preferred": 0, "unclean": 1}
_NOT_NEEDED = 84


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser, "--admin.config")
    parser.add_argument("--election-type", required=True, type=str.lower, choices=_TYPES,
        metavar="TYPE", help="REQUIRED: preferred, or unclean where no replica is in sync",
    )  # fmt: skip
    parser.add_argument("--topic", metavar="NAME", help="the topic, with --partition")
    parser.add_argument("--partition", type=whole_number(0, INT32_MAX), metavar="N",
        help="the partition, with --topic")  # fmt: skip
    parser.add_argument("--all-topic-partitions", action="store_true", help="all partitions")
    parser.add_argument("--path-to-json-file", metavar="FILE", help="the partitions of a file")


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.admin import elect_leaders
    from kstore.remote.answer_errors import exception_name

    partitions = wanted(arguments)
    kind = arguments.election_type
    with open_server(arguments) as store:
        results = elect_leaders(store.cluster, _TYPES[kind], partitions)
    done = [tp for tp, error in results.items() if error is None]
    needless = [tp for tp, error in results.items() if error and error.code == _NOT_NEEDED]
    failed = {tp: error for tp, error in results.items() if error and error.code != _NOT_NEEDED}
    if done:
        print(
            f"Successfully completed leader election ({kind.upper()}) for partitions {named(done)}"
        )
    if needless:
        print(f"Valid replica already elected for partitions {named(needless)}")
    for tp, error in failed.items():
        print(
            f"Error completing leader election ({kind.upper()}) for partition: {named([tp])}: "
            f"{exception_name(error)}: {error.reason}"
        )
    if failed:
        raise KStoreError(f"{len(failed)} replica(s) could not be elected")
    return 0


def named(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))


def wanted(arguments: argparse.Namespace) -> list[TopicPartition] | None:
    """The partitions of the options; None: all."""
    chosen = [
        arguments.topic is not None,
        arguments.all_topic_partitions,
        arguments.path_to_json_file is not None,
    ]
    if sum(chosen) != 1:
        raise WrongOptionsError(
            "One and only one of the following options is required: topic, all-topic-partitions, "
            "path-to-json-file"
        )
    if (arguments.topic is None) != (arguments.partition is None):
        missing = "topic" if arguments.topic is None else "partition"
        raise WrongOptionsError(f"Missing required option(s): {missing}")
    if arguments.topic is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    if arguments.all_topic_partitions:
        return None
    path = arguments.path_to_json_file
    return partitions_of_json(read_text_file(path), path)


def partitions_of_json(text: str, path: str) -> list[TopicPartition]:
    """The partitions in a file. Raises WrongFileError for an invalid file and for duplicates."""
    try:
        entries: list[Any] = json.loads(text)["partitions"]
        found = [TopicPartition(each["topic"], each["partition"]) for each in entries]
        if not all(isinstance(tp.topic, str) and type(tp.partition) is int for tp in found):
            raise TypeError
    except (ValueError, TypeError, KeyError):
        raise WrongFileError(
            f'Replica election data is missing "partitions" field\n{path} is not as '
            f'{{"partitions": [{{"topic": "orders", "partition": 0}}]}}'
        ) from None
    repeated = sorted({tp for tp in found if found.count(tp) > 1})
    if repeated:
        raise WrongFileError(
            f"Replica election data contains duplicate partitions: [{named(repeated)}]"
        )
    return found
