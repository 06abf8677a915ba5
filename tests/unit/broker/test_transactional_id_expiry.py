"""``transactional.id.expiration.ms``: a broker forgets idle transactional ids, in its log too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kstore
from kstore.broker import transaction_service
from kstore.coordinator.transaction.transaction_state_records import encode_key
from kstore.coordinator.transaction.transaction_state_store import read_all_states
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.list_transactions import ListTransactionsRequest
from support.raw_client import RawClient
from support.waiting import until
from unit.broker.test_transaction_requests import TransactionClient

EXPIRATION_MS = 3_600_000
SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "transactional.id.expiration.ms": EXPIRATION_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 10,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3_600_000,
}


class Clock:
    """The time at which the service looks for expired ids; counts these looks."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        return self.now_ms

    def wait_for_looks(self) -> None:
        before = self.looks
        until(lambda: self.looks >= before + 2)  # the first may have begun before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transaction_service, "now_ms", clock)
    return clock


@contextmanager
def served(store: kstore.Store) -> Iterator[TransactionClient]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        yield TransactionClient(raw)


def ids(client: TransactionClient) -> set[str]:
    answer = client.retried(lambda: client.raw.ask(ListTransactionsRequest(), 1))
    return {each.transactional_id for each in answer.transaction_states}


def test_an_idle_id_expires_and_stays_away_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t")
        with served(store) as client:
            idle = client.producer("idle")
            assert client.add(client.producer("open"), name="open") == [0]
            latest = max(each.last_update_ms for each in read_all_states(store))
            [known] = [each for each in read_all_states(store) if each.transactional_id == "idle"]
            clock.now_ms = known.last_update_ms + EXPIRATION_MS - 1
            clock.wait_for_looks()
            assert ids(client) == {"idle", "open"}
            clock.now_ms = latest + EXPIRATION_MS
            until(lambda: ids(client) == {"open"})
            assert client.state("idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            last = list(store["__transaction_state"][0].view())[-1]
            assert (last.key, last.value) == (encode_key("idle"), None)
            clock.wait_for_looks()
            assert client.state("open").transaction_state == "Ongoing"
        with served(store) as client:
            assert ids(client) == {"open"}
            again = client.producer("idle")
            assert again[0] != idle[0]  # a new producer id: the old one is unknown
            assert again[1] == 0
