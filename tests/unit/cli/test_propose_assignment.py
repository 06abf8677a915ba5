"""The proposals of reassign-partitions --generate, and its files."""

from collections import Counter

import pytest

from kstore.cli.common import WrongFileError, WrongOptionsError
from kstore.cli.propose_assignment import as_json, parse_brokers, parse_topics, spread
from kstore.topic_partition import TopicPartition


def test_replicas_go_round_the_brokers() -> None:
    """The table in Kafka's AdminUtils: ten partitions, three replicas, five brokers."""
    found = [spread(index, 3, range(5), 0, 0) for index in range(10)]
    assert found == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1],
        [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip
    assert set(Counter(leader for leader, *_ in found).values()) == {2}
    assert spread(7, 1, [9], 0, 0) == [9]


def test_the_proposal_is_a_file_for_execute() -> None:
    assert as_json({TopicPartition("orders", 1): [2, 3]}) == (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,3],'
        '"log_dirs":["any","any"]}]}'
    )


def test_topics_and_brokers_that_cannot_be() -> None:
    assert parse_topics('{"version":1,"topics":[{"topic":"a"}]}', "f") == ["a"]
    assert parse_brokers("1,2") == [1, 2]
    for text in ("{", '{"topics":[1]}', '{"topics":[{"topic":1}]}', "[]"):
        with pytest.raises(WrongFileError, match="is not a file as"):
            parse_topics(text, "f")
    with pytest.raises(WrongFileError, match="duplicate entries: a"):
        parse_topics('{"topics":[{"topic":"a"},{"topic":"a"}]}', "f")
    with pytest.raises(WrongOptionsError, match="not '1,x'"):
        parse_brokers("1,x")
    with pytest.raises(WrongOptionsError, match="duplicate entries: 1"):
        parse_brokers("1,2,1")
