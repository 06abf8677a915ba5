"""kstore's tools have the options that the help of Kafka's tools lists, with a value or without."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from interop.kafka_jars import libs
from interop.kafka_tools_process import KafkaToolsProcess, kafka_tools
from interop.tool_cases import TOOLS
from kstore.cli.common import ToolParser

VERSION = "3.9.2"
MAINS = {tool.name: tool.main for tool in TOOLS} | {"dump-log": "kafka.tools.DumpLogSegments"}
ACTIONS = {
    "cluster": ("cluster-id", "unregister"),
    "features": ("describe", "disable", "downgrade", "upgrade"),
    "metadata-quorum": ("describe",),
    "transactions": ("abort", "describe", "describe-producers", "find-hanging", "list"),
}
# Refused: kstore does not ask ZooKeeper, and asks brokers for the quorum.
REFUSED = {
    "acls": {"--authorizer", "--authorizer-properties", "--zk-tls-config-file"},
    "configs": {"--zookeeper", "--zk-tls-config-file"},
    "metadata-quorum": {"--bootstrap-controller"},
}
CASES = [
    (name, action)
    for name in MAINS
    if name != "end-to-end-latency"  # which takes words, without options
    for action in ("", *ACTIONS.get(name, ()))
]


@pytest.fixture(scope="module")
def java() -> Iterator[KafkaToolsProcess]:
    libs(VERSION)
    with kafka_tools(VERSION) as running:
        yield running


def options_of_help(text: str) -> dict[str, bool]:
    """The options in the left column of a help text, and whether each takes a value."""
    found = {}
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.match(r" {0,4}-", line):
            left = re.split(r" {2,}", line.strip())[0]
            # A value is <Type: text> or [Type: text], on the next line after a long name, or VALUE.
            takes_value = re.search(r" [^-]", left) or re.match(r" {0,4}[<\[]", following)
            names = re.findall(r"(?<![\w.-])--?[a-zA-Z][\w.-]*", re.sub(r"<.*", "", left))
            found.update(dict.fromkeys(names, bool(takes_value)))
    return found


def parser_of(name: str, action: str) -> argparse.ArgumentParser:
    parser = ToolParser(prog=name)
    import_module(f"kstore.cli.{name.replace('-', '_')}").describe(parser)
    if not action:
        return parser
    (actions,) = (each for each in parser._actions if isinstance(each.choices, dict))
    assert actions.choices is not None
    chosen: argparse.ArgumentParser = dict(actions.choices)[action]
    return chosen


@pytest.mark.parametrize(("name", "action"), CASES, ids=[" ".join(each).strip() for each in CASES])
def test_every_option_is_known(name: str, action: str, java: KafkaToolsProcess) -> None:
    printed = java.run(MAINS[name], *([action] if action else []), "--help")
    theirs = options_of_help(f"{printed.out}\n{printed.err}")
    assert "--help" in theirs
    ours = {
        option: each.nargs != 0
        for each in parser_of(name, action)._actions
        for option in each.option_strings
    }
    refused = set() if action else REFUSED.get(name, set())
    assert {option for option in theirs if option not in ours} == refused
    differing = {each: takes for each, takes in theirs.items() if ours.get(each, takes) != takes}
    assert differing == {}
