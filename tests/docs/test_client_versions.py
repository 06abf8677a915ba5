"""The guide's index of clients has the versions that the tests need and run."""

import re
import tomllib
from pathlib import Path

import pytest

from interop import kafka_jars, test_kafkajs
from strangers import confluent_python, franz_go, kafka_python, librdkafka

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "guide" / "clients" / "README.md"


def row(page: str) -> list[str]:
    """The cells of the client with this page: name, versions, what runs it."""
    (line,) = [line for line in INDEX.read_text().splitlines() if f"]({page}.md)" in line]
    return line.strip("| ").split(" | ")


def needed(package: str) -> str:
    """The least version of a test dependency."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (found,) = [
        match[1]
        for each in groups["test"]
        if (match := re.fullmatch(rf"{package}(?:\[.*\])?>=([\d.]+)", each))
    ]
    return found


@pytest.mark.parametrize("package", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_the_least_versions_are_those_of_the_test_dependencies(package: str) -> None:
    assert row(package)[1] == f"{needed(package)} and later"


def test_the_other_versions_are_those_that_the_tests_fetch() -> None:
    releases = {each.release for each in kafka_python.SUITES}
    assert f"of {' and '.join(sorted(releases, reverse=True))}" in row("kafka-python")[2]
    confluent = row("confluent-kafka")[2]
    assert f"confluent-kafka-python {confluent_python.VERSION}" in confluent
    assert f"librdkafka's of {librdkafka.VERSION.removeprefix('v')}" in confluent
    assert row("kafkajs")[1] == test_kafkajs.VERSION
    modules = {name: module.rpartition("@v")[2] for name, (module, _) in franz_go._MODULES.items()}
    assert row("franz-go")[1] == ", ".join(f"{name} {modules[name]}" for name in ("kgo", "kadm"))
    assert row("java")[1] == ", ".join(kafka_jars.VERSIONS)
