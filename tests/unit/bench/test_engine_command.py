"""``python -m engine``: the contests of the engine, with the options of ``kstore bench``."""

import json
import os
import subprocess
import sys

import pytest

from engine.__main__ import main
from kstore.cli import main as kstore


def test_it_lists_the_contests_of_the_engine(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for wanted in (
        "engine/checksum: ",
        "read(offset); offset_at(time)",
        "Apache Kafka's DumpLogSegments",
        "Redis Streams, NATS JetStream",
    ):
        assert wanted in out
    assert "disk/sequential: " not in out
    assert main(["disk/commit", "--list"]) == 0  # which `make goals` runs as well
    assert "disk/commit: " in capsys.readouterr().out


def test_it_runs_a_workload_and_compares_two_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")
    given, result = tmp_path / "disk", tmp_path / "result.json"
    given.mkdir()
    words = ["engine/jit", "--quick", "--rounds", "1", "--dir", str(given)]
    assert main([*words, "--json", str(result)]) == 0
    tree = json.loads(result.read_text())
    assert {each["workload"] for each in tree["results"]} == {"engine/jit"}
    assert list(given.iterdir()) == []
    capsys.readouterr()
    assert main(["compare", str(result), str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error():
    """``python -m engine --list | head -1``."""
    command = [sys.executable, "-m", "engine", "--list", "--details"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            command,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_wrong_word_is_an_error(capsys):
    assert main(["engine/cheese"]) == 1
    assert "no workload engine/cheese" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["engine"], ["engine/append", "disk"]])
def test_kstore_bench_says_where_the_contests_of_the_engine_are(capsys, words):
    assert kstore(["bench", *words]) == 1
    said = capsys.readouterr().err
    assert f"PYTHONPATH=benchmarks python -m {words[0].replace('engine', 'engine engine')}" in said
