"""kafka-scripts: scripts with Kafka's names that run kstore's tools."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore.cli import TOOLS, main
from kstore.cli.kafka_scripts import SCRIPTS

SOURCES = Path(kstore.__file__).parents[1]


def test_each_script_runs_a_tool() -> None:
    assert {words.split()[0] for words in SCRIPTS.values()} <= TOOLS.keys()


Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "it's here"
    assert main(["kafka-scripts", str(path)]) == 0
    return path


@pytest.fixture
def run(folder: Path) -> Script:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}

    def run(name: str, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(folder / name), *map(str, words)],
            capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip

    return run


def test_scripts_run(tmp_path: Path, folder: Path, run: Script) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.sh" for name in SCRIPTS]
    data = tmp_path / "data"
    created = run("kafka-topics.sh", "--create", "--topic", "a b".replace(" ", "-"), "--path", data)
    assert (created.returncode, created.stdout) == (0, "Created topic a-b.\n")
    assert run("kafka-topics.sh", "--list", "--path", data).stdout == "a-b\n"
    assert run("kafka-topics.sh", "--nope").returncode == 1


def test_the_server_s_script_takes_a_file_or_options(tmp_path: Path, run: Script) -> None:
    name = "kafka-server-start.sh"
    version = run(name, "--version")
    assert (version.returncode, version.stdout) == (0, f"kstore {kstore.__version__}\n")
    assert run(name, "--help").stdout.startswith("usage: kstore serve")
    no_file = run(name, tmp_path / "none.properties", "--override", "num.partitions=2")
    assert no_file.returncode == 1
    assert "there is no file" in no_file.stderr
    nothing = run(name)
    assert nothing.returncode == 1
    assert nothing.stdout.endswith(f"{name} server.properties [--override property=value]*\n")
    daemon = run(name, "-daemon", "server.properties")
    assert daemon.returncode == 1
    assert "kstore has no -daemon" in daemon.stderr


def test_what_kstore_did_not_write_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka-scripts", str(tmp_path)]) == 0
    assert main(["kafka-scripts", str(tmp_path)]) == 0  # its own are replaced
    script = tmp_path / "kafka-topics.sh"
    script.write_text("#!/bin/bash\nexec kafka-run-class.sh\n")
    (tmp_path / "kafka-configs.sh").unlink()
    assert main(["kafka-scripts", str(tmp_path)]) == 1
    assert f"{script} was not written by kstore" in capsys.readouterr().err
    assert not (tmp_path / "kafka-configs.sh").exists()
    assert script.read_text().endswith("kafka-run-class.sh\n")
