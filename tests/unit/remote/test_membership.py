"""A member of a group whose coordinator never lets it in."""

from typing import Any

import pytest

from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.find_coordinator import FindCoordinatorResponse
from kstore.protocol.messages.join_group import JoinGroupResponse
from kstore.protocol.messages.sync_group import SyncGroupResponse
from kstore.remote.cluster import Cluster
from kstore.remote.membership import Membership
from support.fake_broker import FakeBroker, fake_brokers


def serve_groups(broker: FakeBroker, join: int, sync: int) -> None:
    """Answer with these error codes."""
    found = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    def joined(_: Any) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=join, member_id="m", generation_id=1, leader="other")

    answers = {
        ApiKey.FIND_COORDINATOR: (2, lambda _: found),
        ApiKey.JOIN_GROUP: (7, joined),
        ApiKey.SYNC_GROUP: (3, lambda _: SyncGroupResponse(error_code=sync)),
    }
    for key, (version, answer) in answers.items():
        broker.highest[key], broker.answers[key] = version, answer


@pytest.mark.parametrize(
    ("join", "sync"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, 0),
        (ErrorCode.MEMBER_ID_REQUIRED, 0),
        (0, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_a_group_that_never_ends_its_rebalances_is_an_error(join: int, sync: int) -> None:
    with fake_brokers(1) as (broker,):
        serve_groups(broker, join, sync)
        with (
            Cluster(broker.address) as cluster,
            pytest.raises(KStoreError, match="group g has no assignment") as error,
        ):
            Membership(cluster, "g", rebalance_timeout_ms=200).join(["t"])
        assert error.value.code == ErrorCode.REBALANCE_IN_PROGRESS
        assert len(broker.of(ApiKey.JOIN_GROUP)) > 1, "it was repeated"
