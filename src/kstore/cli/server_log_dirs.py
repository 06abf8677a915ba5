"""``kstore log-dirs --bootstrap-server``: Kafka's kafka-log-dirs on a server."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from kstore.cli.common import WrongOptionsError, open_server
from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.remote.admin import LogDir


def run(arguments: argparse.Namespace) -> int:
    """Print the partitions of each directory of the brokers, as one line of JSON."""
    from kstore.remote.admin import describe_log_dirs

    if not arguments.describe or arguments.move is not None:
        raise WrongOptionsError(
            'Missing required argument "[describe]"\n'
            "'kstore reassign-partitions' moves partitions of a server"
        )
    wanted = [_broker(each) for each in split(arguments.broker_list)]
    topics = set(split(arguments.topic_list)) or None
    with open_server(arguments) as store:
        nodes = store.cluster.nodes
        unknown = [node for node in wanted if node not in nodes]
        if unknown:
            print(
                "ERROR: The given brokers do not exist from --broker-list: "
                f"{_joined(unknown)}. Current existent brokers: {_joined(nodes)}",
                file=sys.stderr,
            )
            return 1
        chosen = list(dict.fromkeys(wanted)) or nodes
        print("Querying brokers for log directories information")
        brokers = [
            {
                "broker": node,
                "logDirs": [
                    directory(each, topics) for each in describe_log_dirs(store.cluster, node)
                ],
            }
            for node in chosen
        ]
    print(f"Received log directory information from brokers {_joined(chosen)}")
    print(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _broker(text: str) -> int:
    try:
        return parse_whole_number(text, 0, INT32_MAX)
    except InvalidConfigError as error:
        raise WrongOptionsError(
            f'For input string: "{text[:40]}"\n--broker-list takes ids of brokers: {error}'
        ) from None


def directory(found: "LogDir", topics: set[str] | None) -> dict[str, object]:
    """One directory in the format of Kafka's tool."""
    from kstore.remote.answer_errors import error_of, exception_name

    error = None
    if found.error_code:
        error = exception_name(error_of(found.error_code, None, ""))
    return {
        "partitions": [
            {
                "partition": f"{topic.name}-{each.partition_index}",
                "size": each.partition_size,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future_key,
            }
            for topic in found.topics
            if topics is None or topic.name in topics
            for each in topic.partitions
        ],
        "error": error,
        "logDir": found.log_dir,
    }


def split(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _joined(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
