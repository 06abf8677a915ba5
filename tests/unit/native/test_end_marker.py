"""Which control records end a transaction: for a writer's producer table and a reader alike."""

import struct

import pytest

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.aborted_transactions import TransactionWalk
from oracle.plain import ABORT, COMMIT, PlainRecord
from oracle.writer import batch

T = 1_700_000_000_000
OPEN = batch(
    [PlainRecord(0, T, None, b"paid")],
    producer_id=7, producer_epoch=0, base_sequence=0, transactional=True,
)  # fmt: skip


def control(key: bytes | None, value: bytes | None) -> bytes:
    record = PlainRecord(1, T, key, value)
    return batch([record], producer_id=7, producer_epoch=0, transactional=True, control=True)


def is_ended(marker: bytes) -> bool:
    """Whether the transaction of producer 7 ended; both kernels have to agree."""
    table, walk = ProducerTable(), TransactionWalk(0)
    table.begin_segment(0)
    table.replay(OPEN + marker)
    walk.walk(OPEN + marker, 0, 100)
    assert (table.first_open == -1) == (7 not in walk.open)
    return table.first_open == -1


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
@pytest.mark.parametrize("longer", [b"", b"of a newer version"])
def test_a_commit_or_abort_marker_ends_a_transaction(kind, longer):
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3)
    assert is_ended(control(key, value))
    assert is_ended(control(key + longer, value + longer))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 3)),  # a type of KRaft's
        (struct.pack(">hh", -1, COMMIT), struct.pack(">hi", 0, 3)),
        (struct.pack(">hh", 0, COMMIT), struct.pack(">hi", -1, 3)),
        (struct.pack(">hh", 0, COMMIT), struct.pack(">hh", 0, 3)),
        (struct.pack(">hh", 0, COMMIT), None),
        (b"\0\0\0", struct.pack(">hi", 0, 3)),
        (None, struct.pack(">hi", 0, 3)),
    ],
)
def test_any_other_control_record_leaves_the_transaction_open(key, value):
    """Kafka's ControlRecordType and EndTransactionMarker refuse these."""
    assert not is_ended(control(key, value))
