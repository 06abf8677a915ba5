"""What kstore's broker does with pending offsets of a deleted group, Kafka's does, too."""

import pytest

from interop.node import Node
from support.raw_client import RawClient
from unit.broker.test_pending_offsets import check_deletion, delete_group, delete_offset
from unit.broker.test_transaction_requests import TransactionClient


@pytest.mark.parametrize("had_offset", [True, False])
@pytest.mark.parametrize("delete", [delete_group, delete_offset])
def test_a_transaction_brings_no_deleted_offset_back(node: Node, delete, had_offset) -> None:
    node.start()
    node.create_topic("t")
    with RawClient(node._port) as raw:
        raw.find_coordinators("g")
        check_deletion(TransactionClient(raw), delete, had_offset=had_offset)
