"""Ten kills of a served directory under load; ``make torture`` does 500."""

import os
from pathlib import Path

import pytest

from interop.kstore_node import KstoreNode
from torture import broker_kills

KILLS = 500 if os.environ.get("KSTORE_TORTURE") else 10


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [(), ("--acks-durable",)], ids=["written", "durable"])
def test_acknowledged_records_survive_kills(tmp_path: Path, options: tuple[str, ...]) -> None:
    node = KstoreNode(tmp_path)
    node.options += options
    found = broker_kills.kill_often(node, KILLS, 1)
    print(f"broker kills: {KILLS}, records {found}")
    assert all(count > KILLS for count in found.values()), found
