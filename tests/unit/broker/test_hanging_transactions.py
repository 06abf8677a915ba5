"""Transactions that hang are warned of once, counted, and forgotten when they end."""

import logging
from pathlib import Path

import pytest

import kstore
from kstore.broker.hanging_transactions import HangingTransactions
from support.handler_tester import HandlerTester

MAX_MS, BUFFER_MS = 1000, 300_000


def look(tester: HandlerTester, hanging: HangingTransactions) -> int:
    hanging.look()
    hanging.look()  # one at a time
    tester.run_until(lambda: tester.workers.is_idle)
    return hanging.partition_count


def test_a_hanging_transaction_is_reported_until_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    now = [10_000_000]
    with (
        kstore.open(tmp_path) as store,
        HandlerTester(store, transaction_max_timeout_ms=MAX_MS) as tester,
    ):
        log = store.create_topic("orders", partitions=2)[1]
        log.append(b"before")
        hanging = HangingTransactions(tester.services, lambda: now[0])
        producer = store.transactional_producer("billing", batch_size=1)
        producer.begin_transaction()
        producer.send("orders", b"open", partition=1, timestamp=now[0])
        assert log.last_stable_offset == 1
        assert look(tester, hanging) == 0
        now[0] += MAX_MS + BUFFER_MS
        assert look(tester, hanging) == 0
        now[0] += 1
        for _ in range(3):
            assert look(tester, hanging) == 1
        [warning] = [each.getMessage() for each in caplog.records]
        assert warning.startswith("orders-1: a transaction hangs: producer id ")
        assert "transactions --bootstrap-server HOST:PORT abort --topic orders" in warning
        assert warning.endswith("--partition 1 --start-offset 1` ends it")
        producer.abort_transaction()
        assert look(tester, hanging) == 0
        assert hanging._seen == {}
        producer.close()


def test_a_record_from_the_future_hides_no_transaction(tmp_path: Path) -> None:
    now = [10_000_000]
    with (
        kstore.open(tmp_path) as store,
        HandlerTester(store, transaction_max_timeout_ms=MAX_MS) as tester,
    ):
        store.create_topic("orders")
        hanging = HangingTransactions(tester.services, lambda: now[0])
        producer = store.transactional_producer("billing", batch_size=1)
        producer.begin_transaction()
        producer.send("orders", b"open", timestamp=1 << 45)
        assert look(tester, hanging) == 0
        now[0] += MAX_MS + BUFFER_MS + 1
        assert look(tester, hanging) == 1
        producer.abort_transaction()
        producer.close()
