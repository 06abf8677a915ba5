"""kafka-scripts: scripts with Kafka's names that run kstore's tools."""

import os
import subprocess
from pathlib import Path

import pytest

import kstore
from kstore.cli import TOOLS, main
from kstore.cli.kafka_scripts import SCRIPTS

SOURCES = Path(kstore.__file__).parents[1]


def test_each_script_runs_a_tool() -> None:
    assert {words.split()[0] for words in SCRIPTS.values()} <= TOOLS.keys()


def test_scripts_run(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    assert main(["kafka-scripts", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.sh" for name in SCRIPTS]
    data = tmp_path / "data"
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(folder / words[0]), *words[1:]],
            capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip

    created = run("kafka-topics.sh", "--create", "--topic", "a b".replace(" ", "-"), "--path", data)
    assert (created.returncode, created.stdout) == (0, "Created topic a-b.\n")
    assert run("kafka-topics.sh", "--list", "--path", data).stdout == "a-b\n"
    assert run("kafka-topics.sh", "--nope").returncode == 1


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
