"""``kstore metadata-quorum``: Kafka's kafka-metadata-quorum, which describes the controllers."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstore.cli.common import ActionParser, ToolParser, WrongOptionsError, open_server
from kstore.cli.server_options import add_server, check_server, pretty_table
from kstore.clock import now_ms
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.remote.quorum import Quorum, Replica

EPILOG = """\
examples:
  kstore metadata-quorum --bootstrap-server localhost:9092 describe --status
  kstore metadata-quorum --bootstrap-server localhost:9092 describe --replication --human-readable

The controllers of a cluster, and how far their copies of the metadata log are. `kstore serve` is
its own controller, and has no such log: offsets count the changes of its metadata. Controllers are
added and removed with Kafka's own kafka-metadata-quorum.sh.
"""
_HEADER = (
    "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp",
    "Status",
)  # fmt: skip
_NO_DIRECTORY = "A" * 22  # Kafka's zero id


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.has_actions = True
    add_server(parser, before_action=True)
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", title="actions", parser_class=ActionParser
    )
    text = "describe the metadata quorum"
    found = actions.add_parser("describe", help=text, description=f"{text.capitalize()}.")
    add_server(found, after_action=True)
    for name, text in (
        ("status", "a summary of the quorum"),
        ("replication", "each copy of the metadata log"),
        ("human-readable", "with --replication: times as milliseconds ago"),
    ):
        found.add_argument(f"--{name}", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.quorum import describe_quorum

    check_server(arguments)
    if arguments.status and arguments.replication:
        raise WrongOptionsError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not arguments.status and not arguments.replication:
        raise WrongOptionsError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if arguments.status and arguments.human_readable:
        raise WrongOptionsError(
            "The option --human-readable is only supported along with --replication"
        )
    with open_server(arguments) as store:
        quorum = describe_quorum(store.cluster)
        if arguments.replication:
            pretty_table(_HEADER, replication_rows(quorum, human=arguments.human_readable))
        else:
            print("\n".join(status_lines(quorum, store.cluster.cluster_id)))
    return 0


def _leader(quorum: "Quorum") -> "Replica":
    for each in quorum.voters:
        if each.node_id == quorum.leader_id:
            return each
    raise KStoreError(f"the leader of the quorum, node {quorum.leader_id}, is no voter")


def status_lines(quorum: "Quorum", cluster_id: str | None) -> list[str]:
    """The lines of --status."""
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    lag_ms = -1
    if last is leader:
        lag_ms = 0
    elif min(leader.last_caught_up, last.last_caught_up) >= 0:
        lag_ms = leader.last_caught_up - last.last_caught_up
    values = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - last.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _nodes(quorum, quorum.voters),
        "CurrentObservers": _nodes(quorum, quorum.observers),
    }
    return [f"{name + ':':<23} {value}" for name, value in values.items()]


def _nodes(quorum: "Quorum", replicas: Sequence["Replica"]) -> str:
    """Kafka's text of several nodes, which is JSON."""
    texts = []
    for each in replicas:
        directory = "null" if each.directory_id is None else f'"{each.directory_id}"'
        text = f'"id": {each.node_id}, "directoryId": {directory}'
        if endpoints := quorum.endpoints.get(each.node_id):
            text += ', "endpoints": [{}]'.format(", ".join(f'"{found}"' for found in endpoints))
        texts.append(f"{{{text}}}")
    return f"[{', '.join(texts)}]"


def replication_rows(quorum: "Quorum", *, human: bool) -> list[tuple[object, ...]]:
    """The rows of --replication: the leader, its followers, the observers."""
    leader = _leader(quorum)
    now = now_ms()
    rows = [(leader, "Leader")]
    rows += [(each, "Follower") for each in quorum.voters if each is not leader]
    rows += [(each, "Observer") for each in quorum.observers]
    return [
        (
            each.node_id,
            each.directory_id or _NO_DIRECTORY,
            each.log_end_offset,
            leader.log_end_offset - each.log_end_offset,
            _time(each.last_fetch, now, human=human),
            _time(each.last_caught_up, now, human=human),
            status,
        )
        for each, status in rows
    ]


def _time(when: int, now: int, *, human: bool) -> str:
    """A time, or how long ago it was; the server's clock may differ from this one."""
    return f"{max(now - when, 0)} ms ago" if human and when >= 0 else str(when)
