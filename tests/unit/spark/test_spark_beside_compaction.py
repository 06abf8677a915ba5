"""A task reads a planned file while the cleaner replaces it."""

from pathlib import Path

import pytest

import kstore
from kstore.log.transaction_outcomes import TransactionOutcomes
from kstore.spark import plan
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.once_before import once_before
from support.ranges import run
from support.stores import QUIET

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")


def test_the_outcomes_of_a_file_that_was_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, searched: list[tuple[int, int]]
) -> None:
    """The log shows nothing of the aborted transaction by then; the open file has its record."""
    config = {"cleanup.policy": "compact", "delete.retention.ms": 0}
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        log.append(b"first", key=b"first")
        for sequence, commit in enumerate((False, True)):
            row = PlainRecord(0, log.offset_at(0), b"k%d" % commit, b"%d" % commit, ())
            log.append_as_leader(
                batch(
                    [row], producer_id=1, producer_epoch=0, base_sequence=sequence,
                    transactional=True,
                )
            )  # fmt: skip
            log.append_end_marker(1, 0, commit=commit)
        log.append(b"last", key=b"last")
        found = plan(tmp_path, topics="t")

        def change() -> None:
            for _ in range(3):
                log.compact(roll=True)

        called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
        rows = run(tmp_path, found, isolation="read_committed")
        assert [value for _, value in rows] == [b"first", b"1", b"last"]
        assert called
        assert searched
