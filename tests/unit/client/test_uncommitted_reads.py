"""The warning about a group's consumer that has read records and committed none."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Consumer, Store, StoreConfig
from kstore.errors import UncommittedReadsWarning

pytestmark = pytest.mark.filterwarnings("error::kstore.errors.UncommittedReadsWarning")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("orders").extend([b"1", b"2", b"3"])
        yield opened


def read(consumer: Consumer) -> None:
    assert [record.value for record in consumer.records()] == [b"1", b"2", b"3"]


def test_a_group_that_is_read_without_a_commit(store: Store) -> None:
    consumer = store.consumer("orders", group="audit", timeout=0)
    read(consumer)
    with pytest.warns(UncommittedReadsWarning, match=r"'audit' has read .* consumer\.commit\("):
        consumer.close()
    consumer.close()  # said once
    with (
        pytest.warns(UncommittedReadsWarning) as caught,
        store.consumer("orders", group="audit") as other,
    ):
        next(other)
    assert [warning.filename for warning in caught] == [__file__]  # not a line of kstore


def test_offsets_that_a_transaction_commits(store: Store) -> None:
    with store.consumer("orders", group="audit", timeout=0) as consumer:
        read(consumer)
        with store.transaction("copy") as transaction:
            transaction.send_offsets_to_transaction({("orders", 0): 3}, "audit")
    other = store.consumer("orders", group="other", timeout=0)
    store.alter_group_offsets("audit", {("orders", 0): 0})
    with store.consumer("orders", group="audit", timeout=0) as consumer:
        read(consumer)
        with store.transaction("copy") as transaction:
            transaction.send_offsets_to_transaction({("orders", 0): 3}, "other")
        with pytest.warns(UncommittedReadsWarning, match="'audit' has read"):
            consumer.close()
    other.close()


def of_batch(consumer: Consumer) -> None:
    with next(consumer):
        pass


@pytest.mark.parametrize(
    "program",
    [
        lambda consumer: None,
        lambda consumer: (read(consumer), consumer.commit()),
        of_batch,
        lambda consumer: (read(consumer), consumer.position("orders", 0)),
        lambda consumer: (read(consumer), consumer.positions()),
    ],
    ids=["reads nothing", "commits", "with batch", "asks for a position", "asks for positions"],
)
def test_programs_that_know_get_no_warning(
    store: Store, program: Callable[[Consumer], Any]
) -> None:
    with store.consumer("orders", group="audit", timeout=0) as consumer:
        program(consumer)


def test_consumers_that_commit_nothing_on_purpose(store: Store) -> None:
    with store.consumer("orders", timeout=0) as without_group:
        read(without_group)
    with store.consumer("orders", group="g", enable_auto_commit=False, timeout=0) as said:
        read(said)


def test_an_error_is_not_hidden_by_it(store: Store) -> None:
    def fail_in_block() -> None:
        with store.consumer("orders", group="audit", timeout=0) as consumer:
            read(consumer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail_in_block()
    assert not hasattr(caught.value, "__notes__")

    async def fail() -> None:
        async with store.consumer("orders", group="audit", timeout=0) as consumer:
            next(consumer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(fail())
    assert not hasattr(caught.value, "__notes__")


def test_a_process_that_ends_says_nothing(tmp_path: Path) -> None:
    program = (
        "import kstore, sys\n"
        "store = kstore.open(sys.argv[1])\n"
        "store.create_topic('orders').append(b'v')\n"
        "consumer = store.consumer('orders', group='audit', timeout=0)\n"
        "print(len(next(consumer)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, "UncommittedReads" in done.stderr) == ("1\n", False)
