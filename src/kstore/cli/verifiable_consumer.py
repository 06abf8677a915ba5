"""``kstore verifiable-consumer``: Kafka's kafka-verifiable-consumer."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kstore.arguments import whole_number
from kstore.cli.client_properties import client_properties
from kstore.cli.common import ToolParser, WrongOptionsError, open_server
from kstore.cli.console_consumer import CONSUMER_PROPERTIES, ISOLATION_LEVELS
from kstore.cli.event_lines import EventLines, shown_partitions, shown_text
from kstore.cli.group_settings import GROUP_SETTINGS, member_options
from kstore.cli.server_options import add_either_server
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.record import Record
    from kstore.remote.consumer import RemoteBatch
    from kstore.remote.group_consumer import GroupConsumer

EPILOG = """\
examples:
  kstore verifiable-consumer --topic orders --group-id billing --max-messages 1000 \\
      --bootstrap-server localhost:9092

Reads a topic as a member of a group and prints a JSON object for each event, as Kafka's tool does:
startup_complete, partitions_assigned, records_consumed, offsets_committed after each of these,
partitions_revoked, shutdown_complete, and with --verbose record_data for each record. Ctrl-C and
SIGTERM leave the group. Assignors are Kafka's Range-, RoundRobin-, Sticky- and
CooperativeStickyAssignor, with or without the package.
"""
_IDLE = 0.2  # seconds to wait for records before the next check that the output has a reader
_POLLED = 500  # records in an event and a commit, Kafka's max.poll.records


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    add_either_server(parser, "--consumer.config")
    parser.add_argument("--topic", required=True, metavar="NAME", help="REQUIRED: the topic")
    parser.add_argument("--group-id", required=True, metavar="ID", help="REQUIRED: the group")
    parser.add_argument("--group-instance-id", metavar="ID", help="makes it a static member")
    parser.add_argument("--group-protocol", type=str.lower, choices=("classic", "consumer"),
        default="classic", help="the group's protocol; consumer is that of KIP-848, without "
        "effect of --session-timeout and --assignment-strategy (default: classic)")  # fmt: skip
    parser.add_argument("--group-remote-assignor", metavar="NAME",
        help="the server's assignor, such as uniform or range, in the protocol consumer "
        "(default: the server decides)")  # fmt: skip
    parser.add_argument("--max-messages", type=whole_number(-1, INT32_MAX), default=-1,
        metavar="N", help="how many records (default: -1, until a signal)")  # fmt: skip
    parser.add_argument("--session-timeout", type=whole_number(1, INT32_MAX), default=30_000,
        metavar="MS", help="of the member (default: 30000)")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="print an event for each record")
    parser.add_argument("--enable-autocommit", action="store_true",
        help="commit every five seconds and at the end, without events")  # fmt: skip
    parser.add_argument("--reset-policy", choices=("earliest", "latest", "none"),
        default="earliest",
        help="where to begin where the group has no offset (default: earliest)")  # fmt: skip
    parser.add_argument("--assignment-strategy", default="RangeAssignor",
        metavar="CLASS[,CLASS...]",
        help="the assignors, of which the group uses one that all members have "
        "(default: RangeAssignor)")  # fmt: skip


def member_settings(arguments: argparse.Namespace, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the member by Kafka's names: the file's, which options replace as in
    Kafka's tool."""
    settings = {name: given[name] for name in GROUP_SETTINGS if name in given}
    settings["group.protocol"] = arguments.group_protocol
    if arguments.group_protocol == "consumer":
        if arguments.group_remote_assignor is not None:
            settings["group.remote.assignor"] = arguments.group_remote_assignor
    else:
        settings["partition.assignment.strategy"] = arguments.assignment_strategy
        settings["session.timeout.ms"] = str(arguments.session_timeout)
    if arguments.group_instance_id is not None:
        settings["group.instance.id"] = arguments.group_instance_id
    return settings


def run(arguments: argparse.Namespace) -> int:
    arguments.connection = {}
    given = client_properties(
        (),
        arguments.command_config,
        (*CONSUMER_PROPERTIES, *GROUP_SETTINGS),
        arguments.connection,
    )
    member = member_options(member_settings(arguments, given))
    isolation = given.get("isolation.level", ISOLATION_LEVELS[0])
    if isolation not in ISOLATION_LEVELS:
        raise WrongOptionsError(
            f"isolation.level is one of {', '.join(ISOLATION_LEVELS)}, not {isolation[:40]!r}"
        )
    with open_server(arguments) as store, EventLines() as lines:
        lines.event("startup_complete")
        lines.flush()
        try:
            if arguments.max_messages:
                events = ReadEvents(lines, arguments)
                with store.group_consumer(
                    arguments.group_id,
                    lambda: [arguments.topic],
                    auto_offset_reset=arguments.reset_policy,
                    isolation_level=isolation,
                    **member,
                    on_assigned=events.assigned,
                    on_revoked=events.revoked,
                ) as consumer:
                    consume(consumer, events, lines)
        finally:
            lines.event("shutdown_complete")
    return 0


def consume(consumer: "GroupConsumer", events: "ReadEvents", lines: EventLines) -> None:
    """Read until --max-messages records were read."""
    while not events.is_finished:
        for batch in consumer.batches(_IDLE):
            for records in polls(batch):
                events.consumed(consumer, batch, records)
                if events.is_finished:
                    return
        lines.check_reader()


def polls(batch: "RemoteBatch") -> Iterator[Sequence["Record"]]:
    """The records of a batch, at most as many at once as Kafka's consumer returns."""
    for first in range(0, len(batch.records), _POLLED):
        yield batch.records[first : first + _POLLED]


class ReadEvents:
    """Prints the events of a member, and commits what was read."""

    def __init__(self, lines: EventLines, arguments: argparse.Namespace) -> None:
        self._lines = lines
        self._left: int = arguments.max_messages  # negative: no limit
        self._is_verbose: bool = arguments.verbose
        self._commits_later: bool = arguments.enable_autocommit

    @property
    def is_finished(self) -> bool:
        return self._left == 0

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._print("partitions_assigned", partitions=shown_partitions(partitions))

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._print("partitions_revoked", partitions=shown_partitions(partitions))

    def _print(self, name: str, **fields: object) -> None:
        self._lines.event(name, **fields)
        self._lines.flush()

    def consumed(
        self, consumer: "GroupConsumer", batch: "RemoteBatch", polled: Sequence["Record"]
    ) -> None:
        """Print the records, at most as many as are left, and commit."""
        records = polled if self._left < 0 else polled[: self._left]
        where: dict[str, object] = {"topic": batch.topic, "partition": batch.partition}
        if self._is_verbose:
            for record in records:
                self._lines.event(
                    "record_data", key=shown_text(record.key), value=shown_text(record.value),
                    **where, offset=record.offset,
                )  # fmt: skip
        last = records[-1].offset
        summary = {
            **where, "count": len(records), "minOffset": records[0].offset, "maxOffset": last,
        }  # fmt: skip
        self._print("records_consumed", count=len(polled), partitions=[summary])
        if self._left > 0:
            self._left -= len(records)
        if self._commits_later:
            consumer.commit({(batch.topic, batch.partition): last + 1})
        else:
            self._commit(consumer, where, last + 1)

    def _commit(self, consumer: "GroupConsumer", where: dict[str, object], offset: int) -> None:
        tp = (str(where["topic"]), int(str(where["partition"])))
        problem: str | None = None
        try:
            if not consumer.commit_sync({tp: offset}):
                problem = "the group has rebalanced; the records are read again"
        except KStoreError as error:
            problem = error.reason
        failed = {} if problem is None else {"error": problem}
        offsets = [{**where, "offset": offset}]
        self._print("offsets_committed", offsets=offsets, **failed, success=problem is None)
