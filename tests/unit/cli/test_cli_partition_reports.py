"""The reports of `kstore topics --describe`, and the brokers of --replica-assignment."""

import argparse
import re

import pytest

from kstore.cli.partition_reports import REPORTS, is_reported, parse_assignment
from kstore.errors import InvalidConfigError


def asked(*options: str) -> argparse.Namespace:
    return argparse.Namespace(**{each.replace("-", "_"): each in options for each in REPORTS})


@pytest.mark.parametrize(
    ("options", "in_sync", "has_leader", "expected"),
    [
        ((), 3, True, True),
        (("under-replicated-partitions",), 3, True, False),
        (("under-replicated-partitions",), 2, True, True),
        (("unavailable-partitions",), 2, True, False),
        (("unavailable-partitions",), 2, False, True),
        (("under-min-isr-partitions",), 2, True, False),
        (("under-min-isr-partitions",), 1, True, True),
        (("at-min-isr-partitions",), 3, True, False),
        (("at-min-isr-partitions",), 2, True, True),
        (("at-min-isr-partitions", "unavailable-partitions"), 3, False, True),
    ],
)
def test_a_report_has_its_partitions(
    options: tuple[str, ...], in_sync: int, has_leader: bool, expected: bool
) -> None:
    """Of three replicas; min.insync.replicas is 2."""
    found = is_reported(
        asked(*options), replicas=3, in_sync=in_sync, has_leader=has_leader, min_in_sync=2
    )
    assert found is expected


def test_replica_assignments_are_parsed_or_refused() -> None:
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]
    for text, sentence in (
        ("1:1,2", "Partition replica lists may not contain duplicate entries: 1"),
        ("1:2,3", "Partition 1 has different replication factor: [3]"),
        ("1:x", 'For input string: "x"\n--replica-assignment is brokers of partitions as '
         "1:2,2:1, not 1:x"),
    ):  # fmt: skip
        with pytest.raises(InvalidConfigError, match=f"^{re.escape(sentence)}$"):
            parse_assignment(text)
