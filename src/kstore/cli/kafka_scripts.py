"""``kstore kafka-scripts``: writes scripts with Kafka's names that run kstore's tools."""

import argparse
import os
import shlex
import stat
import sys
from collections.abc import Iterator

from kstore.cli.common import ToolParser
from kstore.errors import KStoreError

EPILOG = """\
examples:
  kstore kafka-scripts bin
  PATH=$PWD/bin:$PATH kafka-topics.sh --list --bootstrap-server localhost:9092

Writes scripts such as kafka-topics.sh to a directory, so that scripts written for Kafka run with
kstore's tools, on Kafka or on `kstore serve`. A script runs this Python, so it works without an
activated environment. Files that kstore did not write are never replaced. Kafka has more scripts;
those are not written. kafka-server-start.sh serves the directories of a server.properties;
kafka-server-stop.sh stops the servers that the kafka-server-start.sh of its directory started.
"""
# Kafka's script without .sh, and the equivalent kstore command.
SCRIPTS = {
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "broker-api-versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console-consumer",
    "kafka-console-producer": "console-producer",
    "kafka-consumer-groups": "consumer-groups",
    "kafka-consumer-perf-test": "consumer-perf",
    "kafka-delete-records": "delete-records",
    "kafka-dump-log": "dump-log",
    "kafka-e2e-latency": "end-to-end-latency",
    "kafka-features": "features",
    "kafka-get-offsets": "get-offsets",
    "kafka-groups": "groups",
    "kafka-leader-election": "leader-election",
    "kafka-log-dirs": "log-dirs",
    "kafka-metadata-quorum": "metadata-quorum",
    "kafka-producer-perf-test": "producer-perf",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-server-start": "serve",  # see _SERVER_START
    "kafka-storage": "storage",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable-consumer",
    "kafka-verifiable-producer": "verifiable-producer",
}
_MARK = "# Written by kstore kafka-scripts."
SERVER_STOP = "kafka-server-stop"
# Kafka's kafka-server-start takes the file first, or --help or --version instead of it. Output of a
# daemon goes where kafka-run-class has it. The variable is for kafka-server-stop: other brokers of
# this machine, such as those of tests, are not the script's to stop.
_SERVER_START = """\
daemon=
if [ "${{1-}}" = -daemon ]; then daemon=yes; shift; fi
case "${{1-}}" in
'') echo "USAGE: $0 [-daemon] server.properties [--override property=value]*"; exit 1 ;;
-*) ;;
*) set -- --config "$@" ;;
esac
{mark}
export KSTORE_SCRIPTS
if [ -z "$daemon" ]; then exec {command} "$@"; fi
LOG_DIR=${{LOG_DIR:-$(dirname "$0")/../logs}}
mkdir -p "$LOG_DIR" || exit 1
nohup {command} "$@" > "$LOG_DIR/kafkaServer.out" 2>&1 < /dev/null &
"""
_SERVER_STOP = """\
if [ $# -ne 0 ]; then
  echo "$0 takes no options: it stops the servers that kafka-server-start.sh beside it started" >&2
  exit 1
fi
{mark}
pids=
for pid in $(grep -lzsxF "KSTORE_SCRIPTS=$KSTORE_SCRIPTS" /proc/[0-9]*/environ | cut -d/ -f3); do
  case "$({{ tr '\\0' ' ' < "/proc/$pid/cmdline"; }} 2>/dev/null)" in
  *" -m kstore serve "*) pids="$pids $pid" ;;
  esac
done
if [ -z "$pids" ]; then
  echo "No kafka server to stop"
  exit 1
fi
kill -s "${{SIGNAL:-TERM}}" $pids
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("directory", metavar="DIR", help="where to write; created if missing")


def run(arguments: argparse.Namespace) -> int:
    folder = arguments.directory
    os.makedirs(folder, exist_ok=True)
    bodies = {os.path.join(folder, f"{name}.sh"): body for name, body in script_bodies(folder)}
    foreign = sorted(path for path in bodies if not is_ours(path))
    if foreign:
        raise KStoreError(
            f"{foreign[0]} was not written by kstore and is not replaced; name another directory"
        )
    for path, body in bodies.items():
        write(path, body)
    print(f"Wrote {len(bodies)} scripts into {folder}.")
    return 0


def script_bodies(folder: str) -> Iterator[tuple[str, str]]:
    """The name of each script without .sh, and what it runs."""
    python = shlex.quote(sys.executable)
    mark = f"KSTORE_SCRIPTS={shlex.quote(os.path.abspath(folder))}"
    for name, words in SCRIPTS.items():
        command = f"{python} -m kstore {words}"
        if words == "serve":
            yield name, _SERVER_START.format(command=command, mark=mark)
        else:
            yield name, f'exec {command} "$@"\n'
    yield SERVER_STOP, _SERVER_STOP.format(mark=mark)


def is_ours(path: str) -> bool:
    """Whether a file may be written, because it does not exist or kstore wrote it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _MARK in file.read(200)
    except FileNotFoundError:
        return True


def write(path: str, body: str) -> None:
    """Write one script atomically, already executable."""
    text = f"#!/bin/sh\n{_MARK}\n{body}"
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    mode = os.stat(part).st_mode
    os.chmod(part, mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    os.replace(part, path)
