"""``kstore kafka-scripts``: writes scripts with Kafka's names that run kstore's tools."""

import argparse
import os
import shlex
import stat
import sys

from kstore.cli.common import ToolParser
from kstore.errors import KStoreError

EPILOG = """\
examples:
  kstore kafka-scripts bin
  PATH=$PWD/bin:$PATH kafka-topics.sh --list --bootstrap-server localhost:9092

Writes scripts such as kafka-topics.sh to a directory, so that scripts written for Kafka run with
kstore's tools, on Kafka or on `kstore serve`. A script runs this Python, so it works without an
activated environment. Files that kstore did not write are never replaced. Kafka has more scripts;
those are not written. kafka-server-start.sh serves the directories of a server.properties.
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
    "kafka-leader-election": "leader-election",
    "kafka-log-dirs": "log-dirs",
    "kafka-producer-perf-test": "producer-perf",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-server-start": "serve",  # see _SERVER_START
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable-consumer",
    "kafka-verifiable-producer": "verifiable-producer",
}
_MARK = "# Written by kstore kafka-scripts."
# Kafka's kafka-server-start takes the file first, or --help or --version instead of it.
_SERVER_START = """\
case "${{1-}}" in
'') echo "USAGE: $0 server.properties [--override property=value]*"; exit 1 ;;
-daemon) echo "kstore has no -daemon; 'nohup $0 server.properties &' runs it, or systemd" >&2
  exit 1 ;;
-*) exec {command} "$@" ;;
*) exec {command} --config "$@" ;;
esac
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("directory", metavar="DIR", help="where to write; created if missing")


def run(arguments: argparse.Namespace) -> int:
    folder = arguments.directory
    os.makedirs(folder, exist_ok=True)
    paths = {os.path.join(folder, f"{name}.sh"): words for name, words in SCRIPTS.items()}
    foreign = sorted(path for path in paths if not is_ours(path))
    if foreign:
        raise KStoreError(
            f"{foreign[0]} was not written by kstore and is not replaced; name another directory"
        )
    for path, words in paths.items():
        write(path, words)
    print(f"Wrote {len(paths)} scripts into {folder}.")
    return 0


def is_ours(path: str) -> bool:
    """Whether a file may be written, because it does not exist or kstore wrote it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _MARK in file.read(200)
    except FileNotFoundError:
        return True


def write(path: str, words: str) -> None:
    """Write one script atomically, already executable."""
    python = shlex.quote(sys.executable)
    command = f"{python} -m kstore {words}"
    body = _SERVER_START.format(command=command) if words == "serve" else f'exec {command} "$@"\n'
    text = f"#!/bin/sh\n{_MARK}\n{body}"
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    mode = os.stat(part).st_mode
    os.chmod(part, mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    os.replace(part, path)
