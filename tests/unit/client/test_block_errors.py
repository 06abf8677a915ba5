"""A program gets the error of its ``with`` block, also if closing fails."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.errors import InvalidRecordError

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("accounts", config={"cleanup.policy": "compact"})
        yield opened


def of_a_topic(store: Store) -> tuple[Any, Callable[[], object]]:
    producer = store.producer("accounts")
    return producer, lambda: producer.send(b"no key")


def of_topics(store: Store) -> tuple[Any, Callable[[], object]]:
    producer = store.producer()
    return producer, lambda: producer.send("accounts", b"no key")


def of_a_store(store: Store) -> tuple[Any, Callable[[], object]]:
    producer = store.producer("accounts")
    return store, lambda: producer.send(b"no key")


@pytest.mark.parametrize("kind", [of_a_topic, of_topics, of_a_store])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_error_of_a_block_is_raised_with_that_of_closing_as_a_note(
    store: Store, kind: Callable[[Store], tuple[Any, Callable[[], object]]], is_async: bool
) -> None:
    owner, send = kind(store)

    def run(block: AbstractContextManager[Any]) -> None:
        with block:
            send()
            raise LookupError("of the block")

    async def run_async(block: AbstractAsyncContextManager[Any]) -> None:
        async with block:
            send()
            raise LookupError("of the block")

    with pytest.raises(LookupError, match="of the block") as caught:
        asyncio.run(run_async(owner)) if is_async else run(owner)
    (note,) = caught.value.__notes__
    assert note.startswith("closing failed too: InvalidRecordError: ")
    assert "needs a key" in note


@pytest.mark.parametrize("kind", [of_a_topic, of_topics, of_a_store])
def test_without_an_error_in_the_block_closing_raises(
    store: Store, kind: Callable[[Store], tuple[Any, Callable[[], object]]]
) -> None:
    owner, send = kind(store)
    with pytest.raises(InvalidRecordError, match="needs a key"), owner:
        send()


@pytest.mark.parametrize("ending", [SystemExit(0), GeneratorExit(), asyncio.CancelledError()])
def test_what_is_no_error_does_not_hide_that_of_closing(
    store: Store, ending: BaseException
) -> None:
    """A program that ends with `sys.exit(0)` would end with status 0, its records lost."""
    producer = store.producer("accounts")

    def run() -> None:
        with producer:
            producer.send(b"no key")
            raise ending

    with pytest.raises(InvalidRecordError, match="needs a key"):
        run()


def test_an_error_of_closing_is_logged_where_the_blocks_error_is_caught(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    producer = store.producer("accounts")
    with suppress(LookupError), producer:
        producer.send(b"no key")
        raise LookupError
    assert "closing failed too: InvalidRecordError" in caplog.text
