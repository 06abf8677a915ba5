"""The program of the guide's page about Java, with Kafka's clients.

KafkaJS's is in test_kafkajs.py.
"""

import subprocess
from pathlib import Path

import pytest

import kstore
from interop.client_pages import SETTINGS, check_copied, program
from interop.kafka_jars import libs


@pytest.mark.parametrize(
    "version", ["4.3.0", pytest.param("3.9.2", marks=pytest.mark.all_versions)]
)
def test_the_program_of_javas_page_copies_exactly_once(version: str, tmp_path: Path) -> None:
    source = tmp_path / "Shop.java"
    source.write_text(program("java.md", "java"))
    with kstore.serve(tmp_path / "data", port=0, settings=SETTINGS) as broker:
        done = subprocess.run(
            ["java", "-cp", f"{libs(version)}/*", str(source), broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        check_copied(broker)
