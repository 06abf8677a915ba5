"""Ten kills of a served directory under transactional copying; ``make torture`` does 2,000."""

import os
from pathlib import Path

import pytest

from interop.kstore_node import KstoreNode
from torture import transaction_kills

KILLS = 2000 if os.environ.get("KSTORE_TORTURE") else 10


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("options", [(), ("--acks-durable",)], ids=["written", "durable"])
def test_each_record_is_copied_exactly_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    node = KstoreNode(tmp_path)
    node.options += options
    found = transaction_kills.kill_often(node, KILLS, 1)
    print(f"transaction kills: {KILLS}, copied {found}")
    assert all(count > KILLS for count in found.values()), found
