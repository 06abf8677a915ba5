"""Functions that all tools share: Kafka-style options, buffered output, opening stores."""

import argparse
import glob
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from kstore.arguments import read_properties, split_names
from kstore.cli.explain_lock import naming_lock_holder
from kstore.cli.progress import Progress
from kstore.errors import (
    GroupConflictError,
    InvalidConfigError,
    KStoreError,
    UnknownPartitionError,
    UnknownTopicOrPartitionError,
)
from kstore.hints.close_names import close_names
from kstore.partition_files import filenames

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from kstore.config import StoreConfig
    from kstore.remote.store import RemoteStore
    from kstore.remote.topic import RemoteTopic
    from kstore.security.client_settings import ClientSecurity
    from kstore.store.store import Store
    from kstore.store.topic import Topic

_NO_SERVER = "there is no server here; --log-dir names a directory instead"
# Options that users try but kstore does not have, with hints. A tool adds its own hints to
# ToolParser.hints; hints for options that a tool has are ignored.
_HINTS = {
    "--bootstrap-server": _NO_SERVER,
    "--bootstrap-controller": _NO_SERVER,
    "--broker-list": _NO_SERVER,
    "--zookeeper": _NO_SERVER,
    "--command-config": "there is no connection to configure; leave it out",
    "--dry-run": "this tool only reads; leave it out",
    "--directory": "the option is --log-dir",
    "--data-dir": "the option is --log-dir",
    "--dir": "the option is --log-dir",
}
_BLOCK = 1 << 18  # bytes per write


class ToolParser(argparse.ArgumentParser):
    """A parser with Kafka's error format: the message, then the usage, exit status 1."""

    has_actions = False  # as in `kstore cluster cluster-id`: Kafka's own has another parser

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )
        self.hints = dict(_HINTS)
        self._words: list[str] = []  # the command line, for error messages
        self.add_argument("-V", "--version", action=PrintVersion, help="show the version and exit")

    def refuse_misplaced(self, words: Sequence[str]) -> None:
        """Raise an error with a hint for an option of Kafka's tools that this tool does not have.

        Runs before parsing, so that the hint comes before "Missing required argument". If the
        first word is a job (``kstore spark JOB``), the job's options are known, too.
        """
        self._words = list(words)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    parser._words = self._words
        known, hints = self._known_options(), dict(self.hints)
        for name in (word.partition("=")[0] for word in words):
            if name in hints and name not in known:
                from kstore.cli.usage_errors import kafka_sentence

                sentence, _ = kafka_sentence("", name, of_actions=self.has_actions)
                self._leave(sentence, f"{name}: {hints[name]}")
        self._refuse_repeated(words)

    def _refuse_repeated(self, words: Sequence[str]) -> None:
        """Raise Kafka's error for an option given twice of which only one value would count."""
        given: set[str] = set()
        for word in takewhile("--".__ne__, words):
            name = word.partition("=")[0]
            action = self._option_string_actions.get(name)
            if isinstance(action, argparse._StoreAction) and action.nargs in (None, "?"):
                if action.dest in given:
                    name = name.lstrip("-")
                    self._leave(
                        f"Found multiple arguments for option {name}, but you asked for only one",
                        "",
                    )
                given.add(action.dest)

    def parse_in_any_order(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse options also between words, as in ``compare --all A B``. Not for a tool with jobs,
        since their options must follow the job."""
        if any(isinstance(action, argparse._SubParsersAction) for action in self._actions):
            return self.parse_args(words)
        return self.parse_intermixed_args(words)

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        """Raises OSError if the help cannot be written, which argparse's method ignores."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        from kstore.cli.usage_errors import kafka_sentence, unknown_option

        unknown = unknown_option(self._words, self._known_options())
        if self.has_actions and "invalid choice" in message:
            unknown = None  # an option of an action that does not exist
        sentence, hint = kafka_sentence(message, unknown, of_actions=self.has_actions)
        if unknown is not None:
            hint = self._similar(unknown)
        self._leave(sentence, hint or self._of_plain_words(message))

    def refuse(self, error: "WrongOptionsError") -> NoReturn:
        """Print an error that the tool found in its options, and the usage; end with status 1."""
        self._leave(str(error), "")

    def _leave(self, sentence: str, hint: str) -> NoReturn:
        """Print Kafka's sentence, a line that helps, and the usage; end with status 1."""
        sys.stderr.write(f"{sentence}\n{hint}\n\n" if hint else f"{sentence}\n\n")
        self.print_usage(sys.stderr)
        sys.stderr.write(f"'{self.prog} --help' explains each option.\n")
        raise SystemExit(1)

    def _known_options(self) -> set[str]:
        """The options of the tool, and of its job or action if the words name one."""
        known = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name in set(self._words) & set(action.choices):
                    known |= set(action.choices[name]._option_string_actions)
        return known

    def _of_plain_words(self, message: str) -> str:
        """A hint for a word without an option: the option that it probably belongs to."""
        if "required: --log-dir" in message:
            paths = [word for word in self._words if os.path.isdir(word)]
            return f"did you mean --log-dir {paths[0]}?" if paths else ""
        word = re.fullmatch(r"unrecognized arguments: ([^-\s]\S*)", message)
        if word and os.path.isdir(word[1]) and "--log-dir" in self._option_string_actions:
            return f"a directory follows its option: --log-dir {word[1]}"
        if word and "--topic" in self._option_string_actions:
            return f"a topic follows its option: --topic {word[1]}"
        return ""

    def _similar(self, name: str) -> str:
        """A hint that names the options most similar to an unknown one, or ""."""
        known = [each for each in self._known_options() if each.startswith("--")]
        close = close_names(name, known, 2, 0.7)
        return f"did you mean {' or '.join(close)}?" if close else ""


class ActionParser(ToolParser):
    """The parser of an action of a tool with actions."""

    has_actions = True


class PrintVersion(argparse.Action):
    """``--version``: prints the line of ``kstore --version``."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(version_line())
        parser.exit()


def version_line() -> str:
    """The output of ``--version``."""
    from kstore import __version__

    return f"kstore {__version__}"


class WrongOptionsError(KStoreError, ValueError):
    """An invalid value of an option, or options that cannot be combined: the usage follows it."""


class WrongFileError(WrongOptionsError):
    """The invalid content of a file that an option names: no usage follows it."""


def exclusive(option: str, other: str) -> WrongOptionsError:
    """Kafka's error for two options that exclude each other; names as of attributes."""
    names = (name.replace("_", "-") for name in (option, other))
    return WrongOptionsError('Option "[{}]" can\'t be used with option "[{}]"'.format(*names))


def add_log_dir(
    parser: argparse.ArgumentParser, *, required: bool = True, default: object = None
) -> None:
    parser.add_argument(
        "--log-dir",
        "--path",
        action="append",
        required=required,
        default=default,
        metavar="DIR[,DIR...]",
        help=f"{'REQUIRED: ' * required}the directory that holds the partitions (Kafka's "
        "log.dirs); several are separated by commas, or the option is repeated",
    )


def add_command_config(
    parser: ToolParser, *aliases: str, default: object = None, dest: str = "command_config"
) -> None:
    """--command-config: the settings of the connection to a server."""
    parser.add_argument(
        "--command-config",
        *aliases,
        dest=dest,
        default=default,
        metavar="FILE",
        help="of a server: a properties file with the client's security.protocol, ssl.* and sasl.*",
    )
    parser.hints.pop("--command-config", None)


def add_log_dir_or_server(
    parser: ToolParser, *, has_client_options: bool = False, after_action: bool = False
) -> None:
    """--log-dir and --bootstrap-server, for tools that work on a directory or a server.

    A tool that ``has_client_options`` adds --command-config with them. Of a tool with actions they
    stand before or after the action.
    """
    default = argparse.SUPPRESS if after_action else None
    add_log_dir(parser, required=False, default=default)
    parser.add_argument(
        "--bootstrap-server",
        default=default,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="or a Kafka broker, or `kstore serve`",
    )
    del parser.hints["--bootstrap-server"]
    for name in ("--broker-list", "--zookeeper"):
        parser.hints[name] = "name the server by --bootstrap-server host:port"
    if not has_client_options:
        add_command_config(parser, default=default)


def add_broker_list(parser: ToolParser, group: "argparse._ActionsContainer | None" = None) -> None:
    """--broker-list, in Kafka 3 an older name of --bootstrap-server, which takes precedence."""
    (group or parser).add_argument(
        "--broker-list",
        action=_BrokerList,
        metavar="HOST:PORT[,HOST:PORT...]",
        help="an older name of --bootstrap-server, without effect if that is given",
    )


class _BrokerList(argparse._StoreAction):
    """Names the server, unless --bootstrap-server does, on whichever side of this option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        if namespace.bootstrap_server is None:  # a later --bootstrap-server replaces it
            namespace.bootstrap_server = values


def check_directory_or_server(
    arguments: argparse.Namespace,
    missing_server: str = 'Missing required argument "[bootstrap-server]"',
) -> bool:
    """Whether a server is given. Raises WrongOptionsError unless exactly a server or a directory
    is; ``missing_server`` is the sentence of Kafka's tool where neither is."""
    is_server = arguments.bootstrap_server is not None
    if is_server and arguments.log_dir:
        raise WrongOptionsError(
            "name a directory by --log-dir or a server by --bootstrap-server, and not both"
        )
    if not is_server and not arguments.log_dir:
        raise WrongOptionsError(
            f"{missing_server}\nname a directory by --log-dir or a server by --bootstrap-server"
        )
    if not is_server and getattr(arguments, "command_config", None) is not None:
        raise WrongOptionsError("--command-config: a directory has no connection to configure")
    return is_server


def open_directory_or_server(
    arguments: argparse.Namespace, mode: str = "r", *, client_id: str = "kstore"
) -> "Store | RemoteStore":
    """Like :func:`open_store`, or connect to the cluster of --bootstrap-server."""
    if check_directory_or_server(arguments):
        return open_server(arguments, client_id=client_id)
    return open_store(arguments, mode)


def open_server(
    arguments: argparse.Namespace, *, client_id: str = "kstore", timeout_ms: int | None = None
) -> "RemoteStore":
    """The cluster of --bootstrap-server; answers are waited for 30 s, or timeout_ms.

    The connection has the settings of --command-config, or what the tool left in
    ``arguments.connection``.
    """
    from kstore.remote.store import RemoteStore

    settings: dict[str, str] | None = getattr(arguments, "connection", None)
    if settings is None:
        settings = read_properties(getattr(arguments, "command_config", None))
    timeout = 30.0 if timeout_ms is None else timeout_ms / 1000
    return RemoteStore(
        arguments.bootstrap_server,
        timeout=timeout,
        client_id=settings.get("client.id", client_id),
        security=connection_security(settings),
    )


def connection_security(settings: Mapping[str, str]) -> "ClientSecurity":
    """The security of a client's settings. Raises WrongOptionsError with what is wrong."""
    from kstore.security.client_settings import client_security

    try:
        return client_security(settings)
    except InvalidConfigError as error:
        raise WrongOptionsError(str(error)) from None


def open_store(arguments: argparse.Namespace, mode: str = "r", *, create: bool = False) -> "Store":
    """Open the store in --log-dir; with ``create``, missing directories are created.

    Opening for writing reports a recovery on standard error.
    """
    from kstore.store.open_store import open as open_directory

    paths = checked_log_dirs(arguments, create=create)
    takes_server = hasattr(arguments, "bootstrap_server")
    with Progress() as bar, naming_lock_holder(takes_server=takes_server):
        store = open_directory(
            paths, mode, progress=lambda done, total: bar.show(done, total, "recovering")
        )
    if store.writable:
        report_recovery(store)
    return store


def open_store_to_serve(
    arguments: argparse.Namespace,
    config: "StoreConfig | None" = None,
    say: "Callable[[str], object] | None" = None,
) -> "Store":
    """Like :func:`open_store` for writing, but recover in a thread, which reports at its end
    through ``say`` (default: standard error)."""
    from kstore.partition_files import open_to_serve

    paths = checked_log_dirs(arguments, create=True)
    report = partial(report_recovery, say=complain if say is None else say)
    with naming_lock_holder():
        return open_to_serve(paths, config=config, on_recovered=report)


def report_recovery(store: "Store", say: "Callable[[str], object] | None" = None) -> None:
    """Report through ``say`` what a recovery did."""
    if store.recovery.unclean:
        (say or complain)(str(store.recovery))


def checked_log_dirs(arguments: argparse.Namespace, *, create: bool) -> list[str]:
    """The directories of --log-dir. Raises KStoreError for a missing one, and for a partition's
    folder."""
    paths = split_names(arguments.log_dir)
    for path in paths:
        if os.path.lexists(path) and not os.path.isdir(path):
            raise KStoreError(
                f"{path} is a file; --log-dir names the directory that holds the partitions"
            )
        if not os.path.isdir(path) and not create:
            raise KStoreError(
                f"there is no directory {path}; --log-dir names one that Kafka or kstore "
                "keeps partitions in"
            )
        if any(glob.iglob(os.path.join(glob.escape(path), f"{'[0-9]' * 20}.{filenames.LOG}"))):
            raise KStoreError(
                f"{path} is the folder of one partition; --log-dir names the one above it: "
                f"{os.path.dirname(os.path.abspath(path))}"
            )
    return paths


@overload
def named_topic(store: "Store", name: str) -> "Topic": ...
@overload
def named_topic(store: "RemoteStore", name: str) -> "RemoteTopic": ...
@overload
def named_topic(store: "Store | RemoteStore", name: str) -> "Topic | RemoteTopic": ...
def named_topic(store: "Store | RemoteStore", name: str) -> "Topic | RemoteTopic":
    """A topic by name. Raises an error that lists the topics."""
    if name in store:
        return store[name]
    known = sorted(store)
    shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
    raise UnknownTopicOrPartitionError(
        f"Topic '{name}' does not exist as expected; existing topics: {shown or 'none'}. "
        "'kstore topics --create' makes one"
    )


def matching_topics(
    store: Iterable[str], pattern: str | None, *, internal: bool = True
) -> list[str]:
    """Names of topics that match a regular expression of Kafka's tools (`,` means `or`), sorted."""
    return names_matching(
        (name for name in store if internal or name not in filenames.INTERNAL_TOPICS), pattern
    )


def names_matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names that match such a pattern, sorted."""
    try:
        wanted = re.compile(
            (".*" if pattern is None else pattern).strip().strip("\"'").replace(",", "|")
        )
    except re.error as error:
        raise WrongOptionsError(f"{pattern} is an invalid regex.\n{error}") from None
    return sorted(name for name in names if wanted.fullmatch(name))


def properties(pairs: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Parse ``name=value`` options. An unknown name raises an error that lists the known ones."""
    found = {}
    names = list(known)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in names:
            raise WrongOptionsError(
                f"cannot use the property {pair!r}; known are name=value with: {', '.join(names)}"
            )
        found[name] = value
    return found


def flag(values: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Parse a boolean property as Java does: anything other than true is false."""
    return values.get(name, str(default)).strip().lower() == "true"


def unescape(text: str) -> str:
    r"""A separator as typed: ``\t``, ``\n`` and ``\\`` stand for what they do in Java."""
    return re.sub(r"\\([tn\\])", lambda found: {"t": "\t", "n": "\n"}.get(found[1], "\\"), text)


class Output:
    """Bytes to standard output, collected and written in blocks."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._to = sys.stdout.buffer
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size >= _BLOCK:
            self.flush()

    def line(self, text: str) -> None:
        self.write(text.encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held = []
        self._size = 0
        if data:
            self._to.write(data)
        self._to.flush()

    def check_reader(self) -> None:
        """Raise BrokenPipeError if the reader of the output ended.

        Otherwise a tool that waits for records would only notice at the next record.
        """
        try:
            number = self._to.fileno()
        except (OSError, ValueError):  # captured, not a file
            return
        poll = select.poll()
        poll.register(number, 0)
        if any(events & select.POLLERR for _, events in poll.poll(0)):
            raise BrokenPipeError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, BrokenPipeError):
            self.flush()


def exception_name(error: KStoreError) -> str:
    """The name that Kafka's tools print for an error."""
    if type(error) is KStoreError:  # the error of a server for which kstore has no class
        from kstore.remote import answer_errors

        return answer_errors.exception_name(error)
    name = type(error).__name__.removesuffix("Error")
    if isinstance(error, GroupConflictError):  # Kafka's tools print another name
        name = "GroupNotEmpty"
    elif isinstance(error, UnknownPartitionError):
        name = "UnknownTopicOrPartition"
    return f"org.apache.kafka.common.errors.{name}Exception"


def read_text_file(path: str) -> str:
    """The text of a file that an option names; Kafka's sentence if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise WrongFileError(f"Unable to read file {path}\n{why}") from error


def node_id(store: "Store") -> int:
    """The id of the broker that the directory belongs to; 0 if none."""
    from kstore.partition_files import DISK, read_meta_properties

    for path in store.paths:
        meta = read_meta_properties(DISK, path)
        number = None if meta is None else meta.node_id
        if number is not None and number >= 0:
            return number
    return 0


def complain(text: str) -> None:
    """Print a line on standard error, after all earlier output."""
    print(text, file=sys.stderr)
