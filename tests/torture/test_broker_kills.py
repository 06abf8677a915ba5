"""Ten kills of a served directory under load; ``make torture`` does 500."""

import os
from pathlib import Path

import pytest

from interop.kstore_node import KstoreNode
from torture import broker_kills

LONG = bool(os.environ.get("KSTORE_TORTURE"))
KILLS = 500 if LONG else 10


@pytest.mark.timeout(7200 if LONG else 300)
@pytest.mark.parametrize("options", [(), ("--acks-durable",)], ids=["written", "durable"])
def test_acknowledged_records_survive_kills(tmp_path: Path, options: tuple[str, ...]) -> None:
    node = KstoreNode(tmp_path)
    node.options += options
    found = broker_kills.kill_often(node, KILLS, 1)
    print(f"broker kills: {KILLS}, records {found}")
    counted = found.pop(f"load-{broker_kills.COUNTER}")
    assert counted > 0  # it waits for each answer: few on a busy machine
    assert min(found.values()) > KILLS, found
