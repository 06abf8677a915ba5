"""``kstore serve``: serves a log directory as a Kafka broker."""

import argparse
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os.path import join
from typing import TYPE_CHECKING

from kstore.arguments import read_properties, split_names, whole_number
from kstore.cli.common import (
    ToolParser,
    WrongOptionsError,
    add_log_dir,
    complain,
    open_store,
    open_store_to_serve,
)
from kstore.cli.log_format import FORMATS, configure_log
from kstore.cli.service_manager import ServiceManager
from kstore.errors import KStoreError
from kstore.integers import INT32_MAX
from kstore.partition_files import DISK, count_of, filenames
from kstore.signals import StopRequest

if TYPE_CHECKING:
    from kstore.broker.broker import Broker
    from kstore.store.store import Store

EPILOG = """\
examples:
  kstore serve --log-dir data
  kstore serve --log-dir data --port 0
  kstore serve --log-dir /disk1/logs --log-dir /disk2/logs --override num.partitions=6
  kstore serve --log-dir data --listen 0.0.0.0 --advertised kafka.example.org
  kstore serve --log-dir data --adopt data --dry-run
  kstore serve --config server.properties

Serves the topics of log directories to Kafka clients of any version, from 0.8.2 to 4.x, as one node
in one process. It creates directories that do not exist, and serves those of a stopped Kafka broker
with the node id and cluster id of their meta.properties. Once clients can connect, it prints a line
with the address to standard output:

  kstore serves data on 127.0.0.1:9092

Without security settings, every program that can reach the port may read, write and delete. It
therefore listens on this machine only (127.0.0.1), unless --listen gives another address. Kafka's
settings, such as --override listeners=..., configure several listeners, TLS and authentication.
--advertised is the address at which clients reach the broker, if it differs from the listening
address: behind a port mapping, or if --listen is 0.0.0.0. If its port differs, the line names both:

  kstore serves data on kafka.example.org:9092, listening on port 40123

--config takes Kafka's server.properties: log.dirs, node.id, listeners and the settings that the
guide's page about the file lists. Keys without effect are reported once on standard error; a key
whose function the broker cannot do without is an error. Options and --override override the file.
An existing topic keeps its records: a broker's defaults do not apply retention to it.
--adopt puts existing topics under the broker's settings, and lets clients delete them. Their
settings come from SOURCE: a directory with a KRaft broker's __cluster_metadata-0, or a JSON file:

  {"orders": {"retention.ms": "604800000"}, "audit": {"cleanup.policy": "compact"}, "other": {}}

Settings that neither SOURCE nor kstore has get the broker's default: 7 days of retention, unless
--override changes it. With --dry-run nothing is served or changed; lines on standard output show
the settings of each topic and what retention would delete. A topic is adopted only once, so later
changes are kept.
SIGTERM or Ctrl-C completes waiting requests, closes the directory cleanly and exits with status 0;
the same signal again stops immediately, and the next start recovers. Warnings and errors are lines
on standard error.
"""
_LOCAL, _PORT = "127.0.0.1", 9092
_LOGGER = logging.getLogger(__name__)
_STATUS_SECONDS = 1.0  # between two reports of a recovery's progress
_SWITCH_SECONDS = 0.0005
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
_LISTENERS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
# Settings of Kafka's server.properties that are options here.
_OPTIONS = {
    "node.id": "--node-id",
    "broker.id": "--node-id",
    "log.dir": "--log-dir",
    "log.dirs": "--log-dir",
    "port": "--port",
    "host.name": "--listen",
    "advertised.host.name": "--advertised",
    "advertised.port": "--advertised",
}


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.hints["--bootstrap-server"] = "this is the server; --listen and --port set its address"
    parser.hints["--host"] = "the option is --listen"
    add_log_dir(parser, required=False)
    parser.add_argument("--config", metavar="FILE",
        help="Kafka's server.properties; see below")  # fmt: skip
    parser.add_argument("--port", type=whole_number(0, 65_535), metavar="PORT",
        help="the port to listen on; 0: a free port, which the first line of output shows "
        "(default: 9092)",
    )  # fmt: skip
    parser.add_argument("--listen", metavar="HOST",
        help="the address to listen on: 127.0.0.1, the default, is reached from this machine "
        "only; 0.0.0.0 from everywhere, without authentication",
    )  # fmt: skip
    parser.add_argument("--advertised", metavar="HOST[:PORT]",
        help="the address advertised to clients (Kafka's advertised.listeners)",
    )  # fmt: skip
    parser.add_argument("--node-id", type=whole_number(0, INT32_MAX), metavar="ID",
        help="Kafka's node.id (default: that of meta.properties, else 0)",
    )  # fmt: skip
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE",
        help="a broker setting by Kafka's name, such as auto.create.topics.enable=false; may be "
        "repeated",
    )  # fmt: skip
    parser.add_argument("--acks-durable", action="store_true",
        help="acknowledge records only once they are on disk; Kafka does so once written",
    )  # fmt: skip
    parser.add_argument("--adopt", metavar="SOURCE",
        help="put existing topics under the broker's settings, with the settings "
        "of a KRaft metadata log (its directory) or of a JSON file",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true",
        help="with --adopt: only show what would change and what retention would delete",
    )  # fmt: skip
    parser.add_argument("--metrics-port", type=whole_number(0, 65_535), metavar="PORT",
        help="show metrics for Prometheus and the broker's health at this port, "
        "http://HOST:PORT/metrics and /health; 0: a free one (default: off)",
    )  # fmt: skip
    parser.add_argument("--metrics-listen", metavar="HOST",
        help="the address of --metrics-port (default: 127.0.0.1); without authentication",
    )  # fmt: skip
    parser.add_argument("--log-format", choices=FORMATS, default="text",
        help="format of the log on standard error: text, or one JSON object per line",
    )  # fmt: skip
    parser.add_argument("--verbose", action="store_true",
        help="also report starts, stops and connections on standard error",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    configure_log(arguments.log_format, logging.DEBUG if arguments.verbose else logging.WARNING)
    try:
        return _run(arguments)
    except (KStoreError, OSError) as error:
        if arguments.log_format != "json":
            raise
        _LOGGER.critical("%s", error)  # in the log's format, like every other line
        return 1


def _run(arguments: argparse.Namespace) -> int:
    settings = {**file_settings(arguments), **broker_settings(arguments)}
    if not arguments.log_dir:
        raise WrongOptionsError(
            "name a directory by --log-dir, or a server.properties with log.dirs by --config"
        )
    if arguments.dry_run:
        return _report_adoption(arguments, settings)
    with (
        StopRequest() as stop,
        _short_turns_of_threads(),
        _uncollected_start() as started,
    ):
        return _serve(arguments, settings, stop, started)


@contextmanager
def _short_turns_of_threads() -> Iterator[None]:
    """Let the broker's loop wait 0.5 ms at most for a thread that computes, not Python's 5 ms.

    Compaction, recovery and disk workers run Python between their native calls, and keep the
    interpreter for a complete switch interval while the loop waits for it. This process is the
    broker's: an embedding program keeps its own interval.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _uncollected_start() -> Iterator[Callable[[], None]]:
    """Keep the garbage collector from traversing what the start of a broker creates.

    The imported modules have 70,000 objects, of which none is garbage: collections take a tenth of
    a start, and each full one later would stop the broker's loop for 20 ms. Yields a function to
    be called once the broker has started. A collector that was disabled before stays so.

    A broker then has thousands of objects for requests that wait, hardly any of them garbage: a
    collection for every 700 new ones took a twentieth of the loop's time.
    """
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()

    def end() -> None:
        if was_enabled:
            gc.enable()

    def started() -> None:
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *thresholds[1:])
        end()

    gc.disable()
    try:
        yield started
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        end()


def _report_adoption(arguments: argparse.Namespace, settings: dict[str, str]) -> int:
    from kstore.cluster.adoption import read_source
    from kstore.cluster.adoption_report import report_adoption
    from kstore.cluster.settings.broker_settings import BROKER_SETTINGS

    if arguments.adopt is None:
        raise WrongOptionsError("--dry-run needs --adopt SOURCE")
    source = read_source(arguments.adopt)
    known = {name: value for name, value in settings.items() if name in BROKER_SETTINGS}
    with open_store(arguments, "r") as store:
        for line in report_adoption(store, source, known):
            print(line)
    return 0


def _serve(
    arguments: argparse.Namespace,
    settings: dict[str, str],
    stop: StopRequest,
    started: Callable[[], None],
) -> int:
    from kstore.broker.broker import Broker
    from kstore.cluster.store_settings import with_store_settings

    config = with_store_settings(None, settings)
    with open_store_to_serve(arguments, config, partial(_say, arguments)) as store:
        broker = Broker(
            store,
            host=arguments.listen or _LOCAL,
            port=_PORT if arguments.port is None else arguments.port,
            advertised=arguments.advertised,
            node_id=arguments.node_id,
            settings=settings,
            adopt=arguments.adopt,
        )
        with broker:
            started()
            stop.defer()
            directories = ", ".join(split_names(arguments.log_dir))
            print(f"kstore serves {directories} on {_address(broker)}", flush=True)
            if broker.metrics_address is not None:
                print(f"metrics are on http://{broker.metrics_address}/metrics", flush=True)
            manager = ServiceManager()
            manager.ready(f"serving {directories} on {_address(broker)}")
            _wait(stop, store, manager)
            manager.stopping()
    _name_handover(arguments)
    return 0


def _name_handover(arguments: argparse.Namespace) -> None:
    """Name the tool to use before the start of the KRaft broker whose directory this is."""
    paths = split_names(arguments.log_dir)
    if any(DISK.kind(join(path, filenames.CLUSTER_METADATA)) is not None for path in paths):
        names = ",".join(paths)
        _say(
            arguments,
            "before Kafka serves the directory again, see what it would not know or would delete: "
            f"kstore handover --log-dir {names} --to {names}",
        )


def _address(broker: "Broker") -> str:
    """The address that clients are given; also the port of the socket, if that is another."""
    shown = broker.bootstrap_servers
    if shown.rpartition(":")[2] == str(broker.port):
        return shown
    return f"{shown}, listening on port {broker.port}" if shown else f"port {broker.port}"


def _wait(stop: StopRequest, store: "Store", manager: ServiceManager) -> None:
    """Wait for a stop signal; report the progress of a recovery meanwhile."""
    before = 0
    while True:
        left = store._manager.recoveries.waiting_count
        if left != before:
            manager.status(f"recovering, {count_of(left, 'partition')} left" if left else "serving")
            before = left
        if stop.wait(_STATUS_SECONDS if left else None):
            return


def _say(arguments: argparse.Namespace, text: str) -> None:
    if arguments.log_format == "json":
        _LOGGER.warning("%s", text)
    else:
        complain(text)


def file_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --config; its directories and node id become options that are not given."""
    from kstore.broker.server_properties import read_server_properties

    if arguments.config is None:
        return {}
    found = read_server_properties(read_properties(arguments.config))
    if found.ignored:
        _say(arguments, f"{arguments.config}: without effect: {', '.join(found.ignored)}")
    arguments.log_dir = arguments.log_dir or list(found.log_dirs)
    if arguments.node_id is None:
        arguments.node_id = found.node_id
    settings = dict(found.settings)
    if (arguments.listen, arguments.port, arguments.advertised) != (None, None, None):
        for name in _LISTENERS:  # the options determine the listener
            settings.pop(name, None)
    return settings


def broker_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of ``--override`` and of the options that stand for one.

    A key is handled as in the file of --config. An unknown one stays: the broker refuses it, with
    the names that are close.
    """
    from kstore.broker.server_properties import read_server_properties
    from kstore.cluster.settings.broker_settings import BROKER_SETTINGS

    overrides: dict[str, str] = {}
    for pair in arguments.override:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise WrongOptionsError(f"--override takes key=value, not {pair!r}")
        if name.strip() in _OPTIONS:
            raise WrongOptionsError(
                f"--override {name.strip()} has no effect; the option is {_OPTIONS[name.strip()]}"
            )
        overrides[name.strip()] = value
    read = read_server_properties(overrides)
    unknown = {name: overrides[name] for name in read.ignored if name not in BROKER_SETTINGS}
    ignored = [name for name in read.ignored if name not in unknown]
    if ignored:
        _say(arguments, f"--override: without effect: {', '.join(ignored)}")
    found = {**read.settings, **unknown}
    if arguments.acks_durable:
        found["kstore.acks.durable"] = "true"
    if arguments.metrics_port is not None:
        found["kstore.metrics.port"] = str(arguments.metrics_port)
    if arguments.metrics_listen is not None:
        found["kstore.metrics.host"] = arguments.metrics_listen
    return found
