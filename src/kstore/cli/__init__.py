"""The command line: ``kstore TOOL ...``, Kafka's tools on a directory, some on a server, too.

Flags and output are Kafka's. A tool's module is imported only when it is chosen. Each has
``describe(parser)`` and ``run(arguments) -> int``, the exit status.
"""

import errno
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kstore.cli.standard_streams import forget_output, open_closed_streams

TOOLS = {
    "topics": "create, list, describe, alter and delete topics",
    "configs": "show and change the settings of topics",
    "console-producer": "append lines of standard input to a topic",
    "console-consumer": "print records of a topic, and follow it",
    "log-dirs": "list the contents of each directory, and move partitions between them",
    "consumer-groups": "list, describe, reset and delete committed offsets of groups",
    "groups": "list the groups of all types of a server",
    "get-offsets": "print the offsets of partitions: latest, earliest, or by time",
    "delete-records": "delete the records of partitions up to an offset",
    "dump-log": "print log segments, indexes and snapshots, byte by byte",
    "verify": "check every checksum, offset and index entry",
    "compact": "keep the latest record of every key, in topics with cleanup.policy=compact",
    "recompress": "rewrite batches with another codec",
    "convert": "rewrite messages v0 and v1 as record batches v2",
    "reindex": "rebuild indexes and producer state from the logs",
    "handover": "hand partitions over to a stopped Kafka broker, or take its directory over",
    "mirror": "copy a topic of a live Kafka cluster, byte for byte",
    "transactions": "list, describe and find transactions of a server, and end hanging ones",
    "acls": "list, add and remove access control lists of a server",
    "reassign-partitions": "move partitions of a server between its log directories",
    "leader-election": "elect leaders of partitions of a server",
    "broker-api-versions": "print the requests that each broker of a server supports",
    "cluster": "print the id and the brokers of a cluster",
    "features": "describe the features of a cluster",
    "metadata-quorum": "describe the controllers of a cluster",
    "storage": "print a random id, and give new directories the id of their cluster",
    "producer-perf": "send records to a server as fast as possible, and print the throughput",
    "consumer-perf": "read records of a server as fast as possible, and print the throughput",
    "end-to-end-latency": "send records to a server and read each, and print how long that took",
    "verifiable-producer": "send numbers to a server, and print an event for each as JSON",
    "verifiable-consumer": "read records of a server in a group, and print the events as JSON",
    "kafka-scripts": "write scripts such as kafka-topics.sh that run kstore's tools",
    "serve": "serve a log directory to Kafka clients, as a one-node broker",
    "spark": "jobs over complete stores on Apache Spark: verify, stats, export, restore and more",
    "repair": "save everything valid in a damaged directory into a new one",
    "bench": "measure what this machine offers a log: disk, memory, page cache, sockets",
}

PIPE_CLOSED = 141  # a shell's status for a program ended by SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one tool; return its exit status.

    0: done. 1: not done, with the reason on stderr. 130, 143, 129: ended by Ctrl-C, SIGTERM or
    SIGHUP, after closing everything. 141: the reader of the output ended (``kstore dump-log ... |
    head``). Output to a closed standard stream is discarded.
    """
    from kstore.errors import KStoreError
    from kstore.signals import status_of

    words = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams(may_lose_output=words[:1] == ["serve"])  # a server has nothing to print
    name = f"kstore {words[0]}" if words and words[0] in TOOLS else "kstore"
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output(sys.stdout)
        return PIPE_CLOSED
    except KeyboardInterrupt as interrupt:
        return status_of(interrupt)
    except KStoreError as error:
        _complain(name, str(error))
        return 1
    except OSError as error:
        _complain(name, _sentence(error))
        return 1
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        _complain(name, str(error))  # a library of an extra, and the extra's name
        return 1
    return status


def _run(words: list[str]) -> int:
    from kstore.cli.common import ToolParser, WrongFileError, WrongOptionsError, version_line
    from kstore.signals import raising_terminated

    if not words or words[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 1
    if words[0] in ("-V", "--version"):
        print(version_line())
        return 0
    name = words[0]
    if name not in TOOLS:
        print(f"kstore has no tool {name!r}{_similar(name)}\n\n{usage()}", file=sys.stderr)
        return 1
    tool = import_module(f"kstore.cli.{name.replace('-', '_')}")
    about = TOOLS[name]
    parser = ToolParser(prog=f"kstore {name}", description=f"{about[0].upper()}{about[1:]}.")
    tool.describe(parser)
    try:
        parser.refuse_misplaced(words[1:])
        arguments = parser.parse_in_any_order(words[1:])
        with raising_terminated(), warnings.catch_warnings():
            warnings.showwarning = _warning_printer(f"kstore {name}")
            try:
                status: int = tool.run(arguments)
            except WrongFileError:
                raise
            except WrongOptionsError as error:
                sys.stdout.flush()
                parser.refuse(error)
            return status
    except SystemExit as leave:  # raised by argparse for --help and wrong options
        return int(leave.code or 0)


# Verbs that users type as the name of a tool; in Kafka's tools they are options.
_VERBS = {
    **{verb: f"topics --{verb}" for verb in ("alter", "create", "delete", "describe", "list")},
    "ls": "topics --list",
    "rm": "topics --delete",
    **dict.fromkeys(("append", "produce", "producer", "send", "write"), "console-producer"),
    **dict.fromkeys(("cat", "consume", "consumer", "head", "read", "tail"), "console-consumer"),
    **dict.fromkeys(("du", "size", "sizes"), "log-dirs --describe"),
    **dict.fromkeys(("check", "fsck", "validate"), "verify"),
    **dict.fromkeys(("broker", "run", "server", "start"), "serve"),
    **dict.fromkeys(("dump", "dump-log-segments"), "dump-log"),
    "lag": "consumer-groups --describe --all-groups",
    "reset-offsets": "consumer-groups --reset-offsets",
    "replica-verification": "verify",
    "delete-topic": "topics --delete",
    "create-topic": "topics --create",
}


def _similar(name: str) -> str:
    """A hint about the intended tool, to append to an error message."""
    from kstore.hints.close_names import close_names

    if name.startswith("-"):
        return "; the tool comes first, as in: kstore topics --list --log-dir data"
    if name in _VERBS:
        return f"; did you mean kstore {_VERBS[name]}?"
    plain = name.lower().removeprefix("kafka-").removesuffix(".sh").replace("_", "-")
    close = [tool for tool in TOOLS if plain in tool] or close_names(plain, TOOLS, 2)
    return f"; did you mean {' or '.join(close[:2])}?" if close and plain else "."


def usage() -> str:
    """The list of tools."""
    width = max(map(len, TOOLS))
    lines = [f"  {name:<{width}}  {text}" for name, text in TOOLS.items()]
    return "\n".join(
        [
            "usage: kstore TOOL [options]",
            "",
            "Kafka's command-line tools on a log directory; `kstore serve` is a broker over it.",
            "",
            *lines,
            "",
            "'kstore TOOL --help' lists a tool's options, 'kstore --version' the version. "
            "An example:",
            "  kstore topics --create --topic orders --partitions 4 --log-dir data",
        ]
    )


def _sentence(error: OSError) -> str:
    """The system's error as a sentence that names the file."""
    if error.filename is None and error.errno == errno.EBADF:
        return "standard output is closed"
    if error.filename is None:
        return error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return f"there is no file {error.filename}"
    if isinstance(error, IsADirectoryError):
        return f"{error.filename} is a directory, not a file"
    return f"{error.strerror or error} ({error.filename})"


def _complain(name: str, text: str) -> None:
    """Print a line on standard error, after the output; discard it if that fails."""
    try:
        sys.stdout.flush()
    except OSError:  # the disk is full, or the reader ended
        forget_output(sys.stdout)
    try:
        print(f"{name}: {text}", file=sys.stderr)
    except OSError:
        forget_output(sys.stderr)


def _warning_printer(name: str) -> Any:
    """A function that prints user warnings as the tool's messages, others as Python does."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, UserWarning):
            _complain(name, str(message))
        else:
            usual(message, category, *where)

    return show
