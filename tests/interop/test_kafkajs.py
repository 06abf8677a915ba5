"""KafkaJS against a served directory: a producer, and a reader of assigned partitions.

Its consumer always has a group, so partitions are read by the classes below it. The script of its
page in the guide, which consumes with a group, is a suite of ``make strangers``.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kstore
from interop.kafka_jars import unavailable
from interop.kstore_node import KstoreNode, kstore_node

VERSION = "2.2.4"
SCRIPT = Path(__file__).parent / "javascript" / "clients.js"
T0 = 1_700_000_000_000
PARTITIONS = 2


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder of node's modules, which npm fetches once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable("node or npm is missing (Debian: apt-get install nodejs npm)")
    root = Path.home() / ".cache" / "kstore" / f"kafkajs-{VERSION}"
    root.mkdir(parents=True, exist_ok=True)
    found = root / "node_modules"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found / "kafkajs" / "package.json").exists():
            words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(root)]
            fetched = subprocess.run(
                [*words, f"kafkajs@{VERSION}"], capture_output=True, text=True, check=False
            )
            if fetched.returncode:
                unavailable(f"npm cannot fetch kafkajs: {fetched.stderr[-300:]}")
    return found


def ask(modules: Path, action: str, served: KstoreNode, topic: str, **request: Any) -> Any:
    """What the script answers."""
    done = subprocess.run(
        ["node", str(SCRIPT), action, served.address, topic],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NODE_PATH": str(modules)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def sample(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "partition": n % PARTITIONS,
            "timestamp": T0 + n,
            "key": text((None, b"", b"key-%d" % n)[n % 3]),
            "value": text((b"value-%d" % n, None, b"v" * (n % 700))[n % 5 % 3]),
            "headers": [["n", text(b"%d" % n)]][: n % 2],
        }
        for n in range(first, first + count)
    ]


@pytest.mark.all_versions
def test_kafkajs_produces_and_reads_assigned_partitions(modules: Path, tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []
    with kstore_node(tmp_path) as served:
        served.create_topic("js", partitions=PARTITIONS, retention_ms=-1)
        for acks, gzip, idempotent in (
            (-1, False, True),
            (1, True, False),
            (1, False, False),
            (-1, True, True),
        ):
            records = sample(len(sent), 120)
            options = {"acks": acks, "gzip": gzip, "idempotent": idempotent}
            answers = ask(modules, "send", served, "js", records=records, **options)
            assert [each["errorCode"] for each in answers] == [0] * PARTITIONS
            sent += records
        found = ask(modules, "read", served, "js", timestamp=T0 + 100, maxBytes=3000)
        expected = [
            {"partition": partition, "offset": offset, **each}
            for partition in range(PARTITIONS)
            for offset, each in enumerate(e for e in sent if e["partition"] == partition)
        ]
        assert found["records"] == expected
        per_partition = str(len(sent) // PARTITIONS)
        assert sorted((each["partition"], each["high"], each["low"]) for each in found["ends"]) == [
            (partition, per_partition, "0") for partition in range(PARTITIONS)
        ]
        by_time = {each["partition"]: each["offset"] for each in found["byTime"]}
        assert by_time == {0: "50", 1: "50"}
        [entry] = found["described"]["resources"][0]["configEntries"]
        assert (entry["configName"], entry["configValue"]) == ("retention.ms", "-1")
    with kstore.open(served.log_dir, mode="r") as store:
        values = [record.value for record in store["js"][0]]
    assert [text(value) for value in values] == [
        each["value"] for each in sent if each["partition"] == 0
    ]
