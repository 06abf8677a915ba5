"""The bytes of subscriptions and assignments of classic members."""

from kstore.coordinator.group.subscription import (
    assignment_of,
    decode_subscription,
    encode_subscription,
)
from kstore.remote.groups import assigned_partitions
from kstore.topic_partition import TopicPartition


def test_subscriptions_and_assignments_have_kafkas_bytes() -> None:
    assert encode_subscription(["t", "a"]).hex() == (
        "0001" "00000002" "000161" "000174" "ffffffff" "00000000"
    )  # fmt: skip
    assert decode_subscription(encode_subscription(["t", "a"])).topics == ["a", "t"]
    assert decode_subscription(encode_subscription(["t"], b"x")).user_data == b"x"
    partitions = [TopicPartition("t", 1), TopicPartition("t", 0)]
    data = assignment_of(partitions)
    assert data.hex() == "000100000001000174000000020000000000000001ffffffff"
    assert assigned_partitions(data) == tuple(sorted(partitions))
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(data[:9]) == ()
