"""``kstore transactions``: Kafka's kafka-transactions on a directory or a server."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.common import (
    ActionParser,
    PrintVersion,
    ToolParser,
    WrongOptionsError,
    add_log_dir_or_server,
    check_directory_or_server,
    open_server,
    open_store,
)
from kstore.cli.server_options import pretty_table
from kstore.clock import now_ms
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX, INT64_MAX
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.cli.directory_transactions import DirectoryTransactions
    from kstore.cli.server_transactions import ServerTransactions
    from kstore.remote.transactions import ProducerDescription

    Transactions = ServerTransactions | DirectoryTransactions

EPILOG = """\
examples:
  kstore transactions --bootstrap-server localhost:9092 list
  kstore transactions --bootstrap-server localhost:9092 describe --transactional-id billing-1
  kstore transactions --bootstrap-server localhost:9092 describe-producers --topic orders \\
      --partition 0
  kstore transactions --bootstrap-server localhost:9092 find-hanging --topic orders
  kstore transactions --bootstrap-server localhost:9092 abort --topic orders --partition 0 \\
      --start-offset 1234
  kstore transactions --log-dir data list
  kstore transactions --log-dir data abort --topic orders --partition 0 --start-offset 1234

A transaction hangs if its coordinator does not, or no longer, know it: read_committed consumers
wait for its end forever. find-hanging searches for open transactions that are older than
--max-transaction-timeout (minutes) and that no coordinator will end; abort ends one.

Of a directory all but abort work beside a running broker or writer; abort must be its only writer.
"""
_MINUTE = 60_000


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    parser.add_argument("-v", action=PrintVersion, help="the same as --version")
    add_log_dir_or_server(parser)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    partition = whole_number(0, INT32_MAX)

    def action(name: str, text: str) -> ToolParser:
        found: ToolParser = actions.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        add_log_dir_or_server(found, after_action=True)
        return found

    every = action("list", "list transactional ids with their coordinator, producer id and state")
    every.add_argument("--duration-filter", type=whole_number(-INT64_MAX, INT64_MAX), default=-1,
        metavar="MS", help="only those whose transaction has been open for longer (default: -1, "
        "all)")  # fmt: skip
    one = action("describe", "describe the state of a transactional id")
    one.add_argument("--transactional-id", required=True, metavar="ID", help="REQUIRED: the id")
    producers = action("describe-producers", "describe the active producers of a partition")
    producers.add_argument("--broker-id", type=partition, metavar="ID",
        help="ask this broker (default: the partition's leader)")  # fmt: skip
    producers.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    producers.add_argument("--partition", type=partition, required=True, metavar="N",
        help="REQUIRED: the partition")  # fmt: skip
    hanging = action("find-hanging", "find transactions that no coordinator will end")
    hanging.add_argument("--broker-id", type=partition, metavar="ID",
        help="search the partitions of a broker")  # fmt: skip
    hanging.add_argument("--max-transaction-timeout", type=partition, default=15,
        metavar="MINUTES", help="only older transactions (default: 15)")  # fmt: skip
    hanging.add_argument("--topic", metavar="NAME", help="search a topic")
    hanging.add_argument("--partition", type=partition, metavar="N", help="and only a partition")
    abort = action("abort", "end a hanging transaction")
    abort.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    abort.add_argument("--partition", type=partition, required=True, metavar="N",
        help="REQUIRED: the partition")  # fmt: skip
    abort.add_argument("--start-offset", type=whole_number(0, INT64_MAX), metavar="N",
        help="where the transaction begins, as find-hanging shows it")  # fmt: skip
    abort.add_argument("--producer-id", type=whole_number(0, INT64_MAX), metavar="ID",
        help="or, for brokers before 3.0, the producer with the two epochs")  # fmt: skip
    abort.add_argument("--producer-epoch", type=whole_number(0, 32_767), metavar="N",
        help="its epoch")  # fmt: skip
    abort.add_argument("--coordinator-epoch", type=whole_number(-1, INT32_MAX), metavar="N",
        help="and that of its coordinator")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    is_server = check_directory_or_server(arguments)
    check(arguments)
    if is_server:
        from kstore.cli.server_transactions import ServerTransactions

        with open_server(arguments) as server:
            _RUN[arguments.action](ServerTransactions(server), arguments)
        return 0
    from kstore.cli.directory_transactions import DirectoryTransactions

    if arguments.action == "abort":
        abort_in_directory(arguments)
        return 0
    with open_store(arguments) as store:
        _RUN[arguments.action](DirectoryTransactions(store), arguments)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check the options by Kafka's rules."""
    if arguments.action == "find-hanging":
        if arguments.topic is None and arguments.broker_id is None:
            raise WrongOptionsError(
                "The `find-hanging` command requires either --topic or --broker-id to limit the "
                "scope of the search"
            )
        if arguments.partition is not None and arguments.topic is None:
            raise WrongOptionsError("The --partition argument requires --topic to be provided")
    elif arguments.action == "abort" and arguments.start_offset is None:
        if arguments.producer_id is None:
            raise WrongOptionsError(
                "The transaction to abort must be identified either with --start-offset (for "
                "brokers on 3.0 or above) or with --producer-id, --producer-epoch, and "
                "--coordinator-epoch (for older brokers)"
            )
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(arguments, name) is None:
                raise WrongOptionsError(f"Missing required argument --{name.replace('_', '-')}")


def list_all(transactions: "Transactions", arguments: argparse.Namespace) -> None:
    header = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    longer_than = None if arguments.duration_filter < 0 else arguments.duration_filter
    pretty_table(header, sorted(transactions.listed(longer_than_ms=longer_than)))


def describe_one(transactions: "Transactions", arguments: argparse.Namespace) -> None:
    name = arguments.transactional_id
    try:
        found = transactions.describe(name)
    except KStoreError as error:
        raise KStoreError(
            f"Failed to describe transaction state of transactional-id `{name}`: {error.reason}"
        ) from error
    start, duration = "None", "None"
    if found.start_time_ms is not None:
        start = str(found.start_time_ms)
        duration = str(now_ms() - found.start_time_ms)
    header = (
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
        "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs",
        "TopicPartitions",
    )  # fmt: skip
    partitions = ",".join(f"{tp.topic}-{tp.partition}" for tp in sorted(found.partitions))
    row = (
        found.coordinator, name, found.producer_id, found.producer_epoch, found.state,
        found.timeout_ms, start, duration, partitions,
    )  # fmt: skip
    pretty_table(header, [row])


def describe_producers(transactions: "Transactions", arguments: argparse.Namespace) -> None:
    tp = TopicPartition(arguments.topic, arguments.partition)
    found = transactions.producers([tp], broker=arguments.broker_id)
    header = (
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset",
    )  # fmt: skip
    rows = [
        (
            each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence,
            each.last_timestamp, "None" if each.start_offset is None else each.start_offset,
        )
        for each in found.get(tp, ())
    ]  # fmt: skip
    pretty_table(header, rows)


def find_hanging(transactions: "Transactions", arguments: argparse.Namespace) -> None:
    oldest = now_ms() - arguments.max_transaction_timeout * _MINUTE
    described = transactions.producers(
        partitions_to_search(transactions, arguments), broker=arguments.broker_id
    )
    candidates = [
        (tp, each)
        for tp, producers in described.items()
        for each in producers
        if each.start_offset is not None and each.last_timestamp < oldest
    ]
    header = (
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset",
        "LastTimestamp", "Duration(min)",
    )  # fmt: skip
    rows = [
        (
            tp.topic, tp.partition, each.producer_id, each.producer_epoch,
            each.coordinator_epoch, each.start_offset, each.last_timestamp,
            (now_ms() - each.last_timestamp) // _MINUTE,
        )
        for tp, each in without_coordinator(transactions, candidates)
    ]  # fmt: skip
    pretty_table(header, rows)


def without_coordinator(
    transactions: "Transactions", candidates: "Sequence[tuple[TopicPartition, ProducerDescription]]"
) -> "list[tuple[TopicPartition, ProducerDescription]]":
    """The open transactions that no coordinator knows, and that none will therefore end."""
    if not candidates:
        return []
    producer_ids = {each.producer_id for _, each in candidates}
    listed = transactions.listed(producer_ids)
    expected: set[tuple[int, TopicPartition]] = set()
    for entry in listed:
        found = transactions.find(entry.transactional_id)
        if found is not None:
            expected |= {(entry.producer_id, tp) for tp in found.partitions}
    return [(tp, each) for tp, each in candidates if (each.producer_id, tp) not in expected]


def partitions_to_search(
    transactions: "Transactions", arguments: argparse.Namespace
) -> list[TopicPartition]:
    """The partitions of --topic, or all; with --broker-id those with a replica on that broker."""
    if arguments.partition is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    return transactions.partitions(arguments.topic, arguments.broker_id)


def abort(transactions: "Transactions", arguments: argparse.Namespace) -> None:
    tp = TopicPartition(arguments.topic, arguments.partition)
    producer = arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch
    if arguments.start_offset is not None:
        found = open_producer(transactions, arguments)
        if found is None:
            raise _none_open(arguments)
        producer = found.producer_id, found.producer_epoch, found.coordinator_epoch
    producer_id, producer_epoch, coordinator_epoch = producer
    # -1: no coordinator has ended a transaction of this producer; 0 is not above any epoch.
    transactions.abort(tp, producer_id, producer_epoch, max(0, coordinator_epoch))


def _none_open(arguments: argparse.Namespace) -> KStoreError:
    return KStoreError(
        "Could not find any open transactions starting at offset "
        f"{arguments.start_offset} on partition {arguments.topic}-{arguments.partition}"
    )


def open_producer(
    transactions: "Transactions", arguments: argparse.Namespace
) -> "ProducerDescription | None":
    """The producer whose open transaction begins at --start-offset."""
    tp = TopicPartition(arguments.topic, arguments.partition)
    for each in transactions.producers([tp]).get(tp, []):
        if each.start_offset == arguments.start_offset:
            return each
    return None


def abort_in_directory(arguments: argparse.Namespace) -> None:
    """Abort as the only writer of the directory.

    Opening it for writing ends transactions of embedded producers that have no state or are too
    old: one that was open before and is not open afterwards needs no marker.
    """
    from kstore.cli.directory_transactions import DirectoryTransactions

    before = None
    if arguments.start_offset is not None:
        with open_store(arguments) as store:
            before = open_producer(DirectoryTransactions(store), arguments)
        if before is None:
            raise _none_open(arguments)
    with open_store(arguments, "a") as store:
        transactions = DirectoryTransactions(store)
        if before is None or open_producer(transactions, arguments) is not None:
            abort(transactions, arguments)


_RUN = {
    "list": list_all,
    "describe": describe_one,
    "describe-producers": describe_producers,
    "find-hanging": find_hanging,
    "abort": abort,
}
