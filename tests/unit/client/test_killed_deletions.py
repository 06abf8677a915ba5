"""A process is killed after it has deleted a partition, before its transactions are without it."""

from pathlib import Path

import pytest

import kstore
from kstore.errors import InvalidTxnStateError
from kstore.store import topic_deletion
from support.stores import QUIET, copy_as_killed


def test_a_partition_that_is_created_again_gets_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, killed = tmp_path / "live", tmp_path / "killed"
    with kstore.open(live, config=QUIET) as store:
        store.create_topic("t", 2)
        producer = store.transactional_producer("p")
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send("t", b"v", partition=partition)
        producer.flush()
        original = topic_deletion.drop_from_transactions

        def photograph(store: kstore.Store, topic: str, partition: int | None = None) -> None:
            copy_as_killed(live, killed)
            original(store, topic, partition)

        monkeypatch.setattr(topic_deletion, "drop_from_transactions", photograph)
        store.delete_partition("t", 0)
        with pytest.raises(InvalidTxnStateError, match="deleted"):
            producer.commit_transaction()
        producer.abort_transaction()
    with kstore.open(killed, config=QUIET) as store:
        log = store.create_partition("t", 0)
        store.transactional_producer("p")  # aborts what it had begun
        assert log.end_offset == 0
        assert store["t"][1].end_offset == store["t"][1].last_stable_offset == 2
