"""kstore storage: the ids and texts of kafka-storage, without its meta.properties."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main

ID = "wl29c-eVQmCyOOzKBLyFwA"
OTHER = "KkfQFslATR-nwp1ii66Mkw"
Format = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Two directories, which do not exist yet."""
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'b'},{tmp_path / 'a'}\n"
    )
    return path


@pytest.fixture
def format_them(properties: Path, capsys: Any) -> Format:
    def run(*words: str, cluster_id: str = ID) -> tuple[int, list[str], str]:
        capsys.readouterr()
        status = main(["storage", "format", "-c", str(properties), "-t", cluster_id, *words])
        output, errors = capsys.readouterr()
        return status, output.splitlines(), errors

    return run


def test_random_ids_are_kafkas(capsys: Any) -> None:
    assert main(["storage", "random-uuid"]) == 0
    assert main(["storage", "random-uuid"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first != second
    assert {len(first), len(second)} == {22}
    assert "-" not in (first[0], second[0])


def test_a_formatted_directory_has_the_cluster_s_id(tmp_path: Path, format_them: Format) -> None:
    assert format_them() == (0, [
        f"Formatting data directory {tmp_path / 'a'} with metadata.version 3.9-IV0.",
        f"Formatting metadata directory {tmp_path / 'b'} with metadata.version 3.9-IV0.",
    ], "")  # fmt: skip
    for name in ("a", "b"):
        assert json.loads((tmp_path / name / "kstore.broker").read_text())["cluster_id"] == ID
        assert not (tmp_path / name / "meta.properties").exists()


def test_the_broker_prints_that_id(tmp_path: Path, format_them: Format, capsys: Any) -> None:
    assert format_them()[0] == 0
    capsys.readouterr()
    with kstore.serve([tmp_path / "a", tmp_path / "b"], port=0) as broker:
        assert main(["cluster", "cluster-id", "--bootstrap-server", broker.bootstrap_servers]) == 0
    assert capsys.readouterr().out == f"Cluster ID: {ID}\n"


def test_formatted_directories_are_refused_or_left_alone(
    tmp_path: Path, format_them: Format
) -> None:
    assert format_them()[0] == 0
    status, lines, errors = format_them()
    assert (status, lines) == (1, [])
    assert errors == (
        f"kstore storage: Log directory {tmp_path / 'b'} is already formatted. Use "
        "--ignore-formatted to ignore this directory and format the others.\n"
    )
    all_done = ["All of the log directories are already formatted."]
    assert format_them("--ignore-formatted") == (0, all_done, "")
    (tmp_path / "a" / "kstore.broker").unlink()
    assert format_them("-g")[:2] == (0, [
        f"Formatting data directory {tmp_path / 'a'} with metadata.version 3.9-IV0.",
    ])  # fmt: skip
    assert format_them("-g") == (0, all_done, "")


def test_another_cluster_s_directory_is_refused(tmp_path: Path, format_them: Format) -> None:
    assert format_them()[0] == 0
    status, lines, errors = format_them("-g", cluster_id=OTHER)
    assert (status, lines) == (1, [])
    assert "Invalid cluster.id in: " in errors
    assert errors.endswith(f"kstore.broker. Expected {OTHER}, but read {ID}\n")


def test_a_directory_that_kafka_formatted_is_formatted(tmp_path: Path, format_them: Format) -> None:
    (tmp_path / "a").mkdir()
    meta = tmp_path / "a" / "meta.properties"
    meta.write_text(f"version=1\ncluster.id={ID}\nnode.id=1\ndirectory.id={OTHER}\n")
    content = meta.read_bytes()
    status, _, errors = format_them()
    assert status == 1
    assert f"Log directory {tmp_path / 'a'} is already formatted" in errors
    status, _, errors = format_them("-g", cluster_id=OTHER)
    assert status == 1
    assert f"a/meta.properties. Expected {OTHER}, but read {ID}" in errors
    status, lines, _ = format_them("-g")
    assert (status, len(lines)) == (0, 1)
    assert meta.read_bytes() == content
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    status, _, errors = format_them("-g")
    assert status == 1
    assert "node.id is 1, but meta.properties" in errors


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--standalone"], "dynamic metadata voter directory"),
        (["-I", "1@localhost:9093:KkfQFslATR-nwp1ii66Mkw"], "dynamic metadata voter directory"),
        (["--no-initial-controllers"], "metadata directory"),
        (["--release-version", "3.7", "--feature", "kraft.version=0"], "metadata directory"),
    ],
)
def test_options_of_a_quorum_change_the_text(
    words: list[str], kind: str, tmp_path: Path, format_them: Format
) -> None:
    version = "3.7-IV4" if "3.7" in words else "3.9-IV0"
    status, lines, _ = format_them(*words)
    assert status == 0
    assert lines[1] == f"Formatting {kind} {tmp_path / 'b'} with metadata.version {version}."


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("process.roles=broker,controller", ""), "appears to be for a legacy cluster. Formatting"),
        (("broker,controller", "controller"), "kstore runs brokers only"),
        (("node.id=1", ""), "You must specify a valid non-negative node ID."),
        (("log.dirs=", "other="), "has no log.dirs"),
        (("node.id=1", "node.id=x"), "node.id"),
    ],
)
def test_a_file_that_is_not_a_broker_s_is_refused(
    change: tuple[str, str], text: str, properties: Path, tmp_path: Path, format_them: Format
) -> None:
    properties.write_text(properties.read_text().replace(*change))
    status, lines, errors = format_them()
    assert (status, lines) == (1, [])
    assert text in errors
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--add-scram", "SCRAM-SHA-256=[name=a,password=b]"], "--entity-type users"),
        (["--release-version", "9.9"], "Version 9.9 is not a valid version"),
        (["--standalone", "-N"], "not allowed with"),
    ],
)
def test_options_that_kstore_cannot_follow(
    words: list[str], text: str, tmp_path: Path, format_them: Format
) -> None:
    status, lines, errors = format_them(*words)
    assert (status, lines) == (1, [])
    assert text in errors
    assert not (tmp_path / "a").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path, format_them: Format) -> None:
    with kstore.open([tmp_path / "a"]):
        status, _, errors = format_them()
    assert status == 1
    assert f"this process has {tmp_path / 'a'} open for writing" in errors
