"""``kstore reassign-partitions``: Kafka's kafka-reassign-partitions, for moves between log dirs."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kstore.arguments import whole_number
from kstore.cli.common import (
    ToolParser,
    WrongFileError,
    WrongOptionsError,
    open_server,
    read_text_file,
)
from kstore.cli.reassign_throttles import clear_throttles, set_throttles
from kstore.cli.server_options import add_server
from kstore.errors import KStoreError
from kstore.integers import INT64_MAX, INT64_MIN
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.admin import Reassignment
    from kstore.remote.store import RemoteStore

ACTIONS = ("generate", "list", "verify", "execute", "cancel")
EPILOG = """\
examples:
  kstore reassign-partitions --list --bootstrap-server localhost:9092
  kstore reassign-partitions --execute --reassignment-json-file moves.json \\
      --bootstrap-server localhost:9092
  kstore reassign-partitions --verify --reassignment-json-file moves.json \\
      --bootstrap-server localhost:9092

Moves partitions between the log directories of a broker. The file is Kafka's:

  {"version": 1, "partitions": [
    {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": ["/disk2/kafka"]}]}

--generate prints such a file for the topics of --topics-to-move-json-file, {"version": 1,
"topics": [{"topic": "orders"}]}, on the brokers of --broker-list; it changes nothing.
--cancel ends the moves in the file that are not complete: the partitions stay where they are.
"any" in log_dirs leaves a replica where it is. --execute takes only the replicas that a partition
has: to move them between brokers of a Kafka cluster, use Kafka's own tool. --verify says whether
the moves ended, and removes the throttles once they have.

--replica-alter-log-dirs-throttle limits the moves of a broker. --throttle limits what brokers of a
Kafka cluster copy from each other, and has nothing to limit on one broker. To change a throttle,
repeat --execute with --additional.
"""
_ANY = "any"
_OF_GENERATE = ("topics-to-move-json-file", "broker-list")
_THROTTLES = ("throttle", "replica-alter-log-dirs-throttle")
# What an action may have besides what it must have.
_PERMITTED: Mapping[str, tuple[str, ...]] = {
    "generate": ("disable-rack-aware",),
    "list": (),
    "verify": ("preserve-throttles",),
    "execute": ("additional", *_THROTTLES, "timeout"),
    "cancel": ("preserve-throttles", "timeout"),
}
_OPTIONS = (
    "reassignment-json-file", *_OF_GENERATE, "disable-rack-aware", "preserve-throttles",
    "additional", *_THROTTLES, "timeout",
)  # fmt: skip


Running = Mapping[TopicPartition, "Reassignment"]


class Move(NamedTuple):
    """A partition in the file, its brokers, and a directory or "any" for each."""

    tp: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser)
    del parser.hints["--broker-list"]
    parser.add_argument("--generate", action="store_true", help="propose brokers for topics")
    parser.add_argument("--topics-to-move-json-file", metavar="FILE",
        help="--generate: the topics; see below")  # fmt: skip
    parser.add_argument("--broker-list", metavar="ID[,ID...]", help="--generate: the brokers")
    parser.add_argument("--disable-rack-aware", action="store_true",
        help="--generate: propose brokers without regard to their racks")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the reassignments in progress")
    parser.add_argument("--verify", action="store_true", help="say whether the moves ended")
    parser.add_argument("--execute", action="store_true", help="begin the moves")
    parser.add_argument("--cancel", action="store_true", help="end moves that are not complete")
    parser.add_argument("--reassignment-json-file", metavar="FILE", help="the moves; see below")
    parser.add_argument("--timeout", type=whole_number(0, INT64_MAX), metavar="MS",
        help="without effect: a move begins at once")  # fmt: skip
    parser.add_argument("--preserve-throttles", action="store_true",
        help="do not remove the throttles of the brokers and topics")  # fmt: skip
    rate = whole_number(INT64_MIN, INT64_MAX)
    parser.add_argument("--throttle", type=rate, metavar="BYTES",
        help="--execute: bytes a second between brokers; below 0: as it is")  # fmt: skip
    parser.add_argument("--replica-alter-log-dirs-throttle", type=rate, metavar="BYTES",
        help="--execute: bytes a second between the log directories of a broker; "
        "below 0: as it is")  # fmt: skip
    parser.add_argument("--additional", action="store_true",
        help="--execute: also while reassignments are in progress")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    chosen = [name for name in ACTIONS if getattr(arguments, name)]
    if len(chosen) != 1:
        raise WrongOptionsError(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    (action,) = chosen
    check(arguments, action)
    if action == "generate":
        return generate(arguments)
    if action == "list":
        with open_server(arguments) as store:
            print_reassignments(store)
        return 0
    path = arguments.reassignment_json_file
    moves = parse_moves(read_text_file(path), path)
    from kstore.remote.admin import list_reassignments

    with open_server(arguments) as store:
        running = list_reassignments(store.cluster)
        if action == "execute" and running and not arguments.additional:
            raise KStoreError(
                "Cannot execute because there is an existing partition assignment.  Use "
                "--additional to override this and create a new partition assignment in addition "
                "to the existing one. The --additional flag can also be used to change the "
                "throttle by resubmitting the current reassignment."
            )
        if action == "execute":
            unknown = {each for move in moves for each in move.replicas} - {*store.cluster.nodes}
            if unknown:
                print(f"Error: Unknown broker id {min(unknown)}")
                return 1
            check_replicas(store, moves)
        return _RUN[action](store, arguments, moves, running)


def check(arguments: argparse.Namespace, action: str) -> None:
    """Check the options of an action by Kafka's rules."""
    required: dict[str, tuple[str, ...]] = {"list": (), "generate": _OF_GENERATE}
    needed = required.get(action, ("reassignment-json-file",))
    permitted = (*needed, *_PERMITTED[action])
    values = {name: getattr(arguments, name.replace("-", "_")) for name in _OPTIONS}
    given = [name for name, value in values.items() if value is not None and value is not False]
    for name in needed:
        if name not in given:
            raise WrongOptionsError(f'Missing required argument "[{name}]"')
    for name in given:
        if name not in permitted:
            raise WrongOptionsError(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def generate(arguments: argparse.Namespace) -> int:
    """Print a proposal for the topics of the file."""
    from kstore.cli.propose_assignment import parse_brokers, parse_topics, propose

    path = arguments.topics_to_move_json_file
    topics = parse_topics(read_text_file(path), path)
    brokers = parse_brokers(arguments.broker_list)
    with open_server(arguments) as store:
        propose(store, topics, brokers, uses_racks=not arguments.disable_rack_aware)
    return 0


def parse_moves(text: str, path: str) -> list[Move]:
    """The moves in a file. Raises WrongFileError for an invalid file and for duplicates."""
    try:
        entries: list[Any] = json.loads(text)["partitions"]
        moves = [parse_move(each) for each in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise WrongFileError(
            f'{path} is not a file as {{"version": 1, "partitions": [{{"topic": "orders", '
            '"partition": 0, "replicas": [0], "log_dirs": ["/disk2/kafka"]}]}'
        ) from None
    if not moves:
        raise WrongFileError(f"Partition reassignment list cannot be empty ({path})")
    repeated = sorted({each.tp for each in moves if [m.tp for m in moves].count(each.tp) > 1})
    if repeated:
        names = ",".join(f"{tp.topic}-{tp.partition}" for tp in repeated)
        raise WrongFileError(f"Partition reassignment contains duplicate topic partitions: {names}")
    return moves


def parse_move(entry: Any) -> Move:
    replicas = tuple(entry["replicas"])
    log_dirs = tuple(entry.get("log_dirs") or (_ANY,) * len(replicas))
    topic, partition = entry["topic"], entry["partition"]
    numbers = (partition, *replicas)
    if (
        not isinstance(topic, str)
        or not all(type(each) is int and each >= 0 for each in numbers)
        or not all(isinstance(each, str) for each in log_dirs)
        or len(replicas) != len(log_dirs)
        or not replicas
    ):
        raise TypeError
    return Move(TopicPartition(topic, partition), replicas, log_dirs)


def check_replicas(store: "RemoteStore", moves: list[Move]) -> None:
    """Raise an error if the file moves replicas to other brokers."""
    for move in moves:
        entry = store[move.tp.topic].entries.get(move.tp.partition)
        name = f"{move.tp.topic}-{move.tp.partition}"
        if entry is None:
            raise KStoreError(f"{name} does not exist")
        if sorted(entry.replica_nodes) != sorted(move.replicas):
            raise KStoreError(
                f"{name} has replicas on {sorted(entry.replica_nodes)}, the file names "
                f"{sorted(move.replicas)}: kstore moves partitions between the log directories "
                "of a broker only"
            )


def wanted_dirs(moves: list[Move]) -> dict[int, dict[TopicPartition, str]]:
    """The target directories, by broker and partition."""
    found: dict[int, dict[TopicPartition, str]] = {}
    for move in moves:
        for broker, path in zip(move.replicas, move.log_dirs, strict=True):
            if path != _ANY:
                found.setdefault(broker, {})[move.tp] = path
    return found


def print_reassignments(store: "RemoteStore") -> None:
    from kstore.remote.admin import list_reassignments

    found = list_reassignments(store.cluster)
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for tp, each in sorted(found.items()):
        line = f"{tp.topic}-{tp.partition}: replicas: {','.join(map(str, each.replicas))}."
        if each.adding_replicas:
            line += f" adding: {','.join(map(str, each.adding_replicas))}."
        if each.removing_replicas:
            line += f" removing: {','.join(map(str, each.removing_replicas))}."
        print(line)


def execute(
    store: "RemoteStore", arguments: argparse.Namespace, moves: list[Move], running: Running
) -> int:
    """Set the throttles, then begin the moves of all replicas whose directory is named."""
    print_current(store, moves)
    replicas = {move.tp: move.replicas for move in moves}
    set_throttles(store, arguments, replicas, wanted_dirs(moves), running)
    names = sorted(move.tp for move in moves)
    print(f"Successfully started partition reassignment{_s(names)} for {_joined(names)}")
    begin(store, wanted_dirs(moves))
    return 0


def print_current(store: "RemoteStore", moves: list[Move]) -> None:
    """Print the current replicas of the partitions, in the format of a file for a rollback."""
    entries = []
    for tp in sorted(move.tp for move in moves):
        replicas = store[tp.topic].entries[tp.partition].replica_nodes
        dirs = [_ANY] * len(replicas)
        entry = {"topic": tp.topic, "partition": tp.partition}
        entries.append({**entry, "replicas": list(replicas), "log_dirs": dirs})
    text = json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))
    print(f"Current partition replica assignment\n\n{text}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")


def begin(store: "RemoteStore", wanted: dict[int, dict[TopicPartition, str]]) -> None:
    """Start to move each broker's partitions to these directories. Raises KStoreError."""
    from kstore.remote.admin import move_log_dirs

    failed = []
    for broker, dirs in sorted(wanted.items()):
        for tp, error in sorted(move_log_dirs(store.cluster, broker, dirs).items()):
            name = f"{tp.topic}-{tp.partition}"
            if error is None:
                print(
                    f"Successfully started moving log directory to {dirs[tp]} for replica {name} "
                    f"with broker {broker} "
                )
            else:
                failed.append(f"{name}-{broker}: {error.reason}")
    if failed:
        raise KStoreError(f"Failed to start log directory moves: {'; '.join(failed)}")


def verify(
    store: "RemoteStore", arguments: argparse.Namespace, moves: list[Move], running: Running
) -> int:
    """Print whether each partition's move has ended; as in Kafka, return 0 in any case.

    The throttles are removed once these moves, and all reassignments of the cluster, have ended.
    """
    print("Status of partition reassignment:")
    for move in sorted(moves):
        print(state_of_replicas(store, move, is_moving=move.tp in running))
    is_moving = bool(running)
    if not wanted_dirs(moves):
        print()
    for broker, dirs in sorted(wanted_dirs(moves).items()):
        current, future = located(store, broker)
        for tp, path in sorted(dirs.items()):
            print(state_of(tp, broker, path, current.get(tp), future.get(tp)))
            is_moving = is_moving or tp in future
    if not is_moving and not arguments.preserve_throttles:
        clear_throttles(store, {move.tp: move.replicas for move in moves})
    return 0


def state_of_replicas(store: "RemoteStore", move: Move, *, is_moving: bool) -> str:
    """Whether a partition is on the brokers of the file, in the format of Kafka's tool."""
    tp = move.tp
    name = f"{tp.topic}-{tp.partition}"
    if is_moving:
        return f"Reassignment of partition {name} is still in progress."
    entry = store[tp.topic].entries.get(tp.partition) if tp.topic in store else None
    current = () if entry is None else tuple(entry.replica_nodes)
    if current == move.replicas:
        return f"Reassignment of partition {name} is completed."
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{_comma(current)} rather than {_comma(move.replicas)}."
    )


def cancel(
    store: "RemoteStore", arguments: argparse.Namespace, moves: list[Move], running: Running
) -> int:
    """End the moves between log directories that are not complete.

    Raises KStoreError if a partition of the file moves between brokers.
    """
    between = sorted(move.tp for move in moves if move.tp in running)
    if between:
        raise KStoreError(
            f"kstore does not cancel moves between brokers, as of {_joined(between)}: use Kafka's "
            "own tool"
        )
    print("None of the specified partition reassignments are active.")
    back: dict[int, dict[TopicPartition, str]] = {}
    for broker, dirs in wanted_dirs(moves).items():
        current, future = located(store, broker)
        for tp in dirs:
            if tp in future and tp in current:
                back.setdefault(broker, {})[tp] = current[tp]
    if back:
        begin(store, back)  # moving a partition to its current directory cancels its move
    else:
        print("None of the specified partition moves are active.", end="")
    if not arguments.preserve_throttles:
        clear_throttles(store, {move.tp: move.replicas for move in moves})
    return 0


def located(
    store: "RemoteStore", broker: int
) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
    """The directories of a broker's partitions, and those that partitions move to."""
    from kstore.remote.admin import describe_log_dirs

    current: dict[TopicPartition, str] = {}
    future: dict[TopicPartition, str] = {}
    for directory in describe_log_dirs(store.cluster, broker):
        for topic in directory.topics:
            for each in topic.partitions:
                found = future if each.is_future_key else current
                found[TopicPartition(topic.name, each.partition_index)] = directory.log_dir
    return current, future


def _s(things: Sequence[object]) -> str:
    return "s" if len(things) > 1 else ""


def _comma(things: Iterable[object]) -> str:
    return ",".join(map(str, things))


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return _comma(f"{tp.topic}-{tp.partition}" for tp in partitions)


def state_of(
    tp: TopicPartition, broker: int, target: str, current: str | None, future: str | None
) -> str:
    """The state of a move in the format of Kafka's tool."""
    name, where = f"{tp.topic}-{tp.partition}", f"on broker {broker}"
    if future == target:
        return f"Reassignment of replica {name}-{broker} is still in progress."
    if future is not None:
        return f"Partition {name} {where} is being moved to log dir {future} instead of {target}."
    if current == target:
        return f"Reassignment of replica {name}-{broker} completed successfully."
    if current is None:
        return (
            f"Partition {name} is not found in any live log dir {where}. There is likely an "
            "offline log directory on the broker."
        )
    return f"Partition {name} {where} is not being moved from log dir {current} to {target}."


_RUN = {"execute": execute, "verify": verify, "cancel": cancel}
