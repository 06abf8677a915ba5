"""``kstore broker-api-versions``: Kafka's kafka-broker-api-versions."""

import argparse

from kstore.cli.common import ToolParser, open_server
from kstore.cli.server_options import add_server

EPILOG = """\
examples:
  kstore broker-api-versions --bootstrap-server localhost:9092

For each broker the versions of each request that it supports (ApiVersions, KIP-35), and the
highest that kstore knows, too. Requests that only controllers take are omitted where the broker
does not support them, as in Kafka's tool.
"""


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    from kstore.remote.admin import broker_apis

    with open_server(arguments) as store:
        for node in store.cluster.nodes:
            host, port = store.cluster.address(node)
            rack = store.cluster.rack(node) or "null"
            ranges = store.cluster.versions(node)
            keys = sorted(broker_apis() | ranges.keys())
            lines = [f"\t{line_of(key, ranges.get(key))}" for key in keys]
            print(f"{host}:{port} (id: {node} rack: {rack}) -> (", ",\n".join(lines), ")", sep="\n")
    return 0


def line_of(key: int, supported: tuple[int, int] | None) -> str:
    """One request in the format of Kafka's tool."""
    from kstore.remote.admin import api_name, own_versions

    name = f"{api_name(key)}({key})"
    if supported is None:
        return f"{name}: UNSUPPORTED"
    low, high = supported
    shown = f"{name}: {low}" if low == high else f"{name}: {low} to {high}"
    ours = own_versions().get(key)
    if ours is None:
        return f"{shown} [usable: UNKNOWN]"
    if min(high, ours[1]) < max(low, ours[0]):
        return f"{shown} [unusable: node too {'old' if high < ours[0] else 'new'}]"
    return f"{shown} [usable: {min(high, ours[1])}]"
