"""The transaction service executes each effect of the coordinator."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.transaction_service import TransactionService, transaction_service
from kstore.coordinator.transaction.transaction_events import (
    Effect,
    StoreTransaction,
    TransactionAnswer,
)
from kstore.protocol.error_codes import ErrorCode
from support.waiting import on_loop


class Coordinator:
    """Has these effects; answers a state that is stored, or could not be."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.answered: list[ErrorCode] = []

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def stored(self, effect: StoreTransaction, error: ErrorCode) -> None:
        self.effects.append(self.answer(error))

    def answer(self, error: ErrorCode) -> TransactionAnswer:
        return TransactionAnswer(
            reply=lambda answer: self.answered.append(answer.error), error=error
        )


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def service(tmp_path: Path, coordinator: Any) -> Iterator[TransactionService]:
    with kstore.open(tmp_path / "data") as store, kstore.Broker(store, port=0) as broker:
        service = transaction_service(broker._services)
        service.coordinator = coordinator
        yield service


def test_an_effect_that_fails_holds_up_no_other(
    service: TransactionService, coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(answer: TransactionAnswer) -> None:
        raise ValueError("injected")

    coordinator.effects += [TransactionAnswer(reply=fail), coordinator.answer(ErrorCode.NONE)]
    on_loop(service._services.loop, service.carry_out)
    assert coordinator.answered == [ErrorCode.NONE]
    assert "injected" in caplog.text


def test_a_state_whose_topic_is_gone_after_the_sync_is_answered(
    service: TransactionService, coordinator: Coordinator
) -> None:
    effect = StoreTransaction(transactional_id="x", metadata=None, ticket=None)
    on_loop(service._services.loop, partial(service._records_synced, effect, None))
    assert coordinator.answered == [ErrorCode.NOT_COORDINATOR]
