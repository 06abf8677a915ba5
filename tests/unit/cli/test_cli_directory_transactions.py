"""transactions on a directory: what the tool prints of the server that serves it, and the ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Log, serve
from kstore.cli import main
from kstore.producer_state.producer_ids import LOWEST_PRODUCER_ID
from kstore.record.builder import BatchBuilder
from support.damage import write_damaged
from support.stores import QUIET

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]
TIME = 1_700_000_000_000
HANGING = ("find-hanging", "--max-transaction-timeout", 0)
ABORT = ("abort", "--topic", "orders", "--partition")


def hang(log: Log, producer_id: int, epoch: int = 0) -> None:
    """A transactional record of a producer that has no transaction at a coordinator."""
    builder = BatchBuilder()
    builder.append(b"hangs", timestamp=TIME)
    builder.set_producer(producer_id, epoch, 0)
    log.append_as_leader(builder.build(attributes=0x10))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """orders-0 has an ended transaction of a kstore producer; in orders-1, of two partitions, one
    of a broker's producer hangs from offset 1 on."""
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        orders = store.create_topic("orders", partitions=2)
        with store.transactional_producer("billing") as producer, producer.transaction():
            producer.send("orders", b"v", partition=0)
        orders[1].append(b"before")
        hang(orders[1], 1008, 3)
    return path


@pytest.fixture
def tool(data: Path, capfd: Any) -> Tool:
    def run(*words: object) -> Outcome:
        capfd.readouterr()
        status = main(["transactions", "--log-dir", str(data), *map(str, words)])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def test_a_directory_is_not_opened_for_writing_to_find_nothing(data: Path, tool: Tool) -> None:
    with kstore.open(data, config=QUIET):  # refuses another writer
        status, _, errors = tool(*ABORT, 1, "--start-offset", 0)
    assert status == 1
    assert errors[-1].endswith(
        "Could not find any open transactions starting at offset 0 on partition orders-1"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--duration-filter", 1000),
        ("list", "--duration-filter", 1 << 50),
        ("describe-producers", "--topic", "orders", "--partition", 0),
        ("describe-producers", "--topic", "orders", "--partition", 1, "--broker-id", 0),
        (*HANGING, "--topic", "orders"),
        (*HANGING, "--topic", "orders", "--partition", 0),
        (*HANGING, "--broker-id", 0),
        ("find-hanging", "--topic", "orders", "--max-transaction-timeout", 1 << 30),
        ("describe", "--transactional-id", "nope"),
    ],
)
def test_a_directory_has_the_lines_of_its_server(
    data: Path,
    tool: Tool,
    words: tuple[object, ...],
    capfd: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The 50 logs of the states may take longer to open on a busy machine.
    monkeypatch.setattr("kstore.broker.partitions._LOADING_SECONDS", 60.0)
    with serve(data, port=0) as broker:
        capfd.readouterr()
        server = ["--bootstrap-server", broker.bootstrap_servers]
        status = main(["transactions", *server, *map(str, words)])
        output, errors = capfd.readouterr()
        assert tool(*words) == (status, output.splitlines(), errors.splitlines())
        assert (status, bool(output)) == ((1, False) if "nope" in words else (0, True))


def test_an_open_transaction_beside_its_writer(data: Path, tool: Tool) -> None:
    with kstore.open(data, config=QUIET) as store:
        producer = store.transactional_producer("billing", batch_size=1)
        producer.begin_transaction()
        producer.send("orders", b"open", partition=0, timestamp=TIME)
        row = tool("list")[1][1].split()
        assert row == ["billing", "0", str(producer.producer_id), "Ongoing"]
        _, (header, described), _ = tool("describe", "--transactional-id", "billing")
        found = dict(zip(header.split(), described.split(), strict=True))
        assert (found["ProducerEpoch"], found["TransactionState"]) == ("1", "Ongoing")
        assert (found["CoordinatorId"], found["TopicPartitions"]) == ("0", "orders-0")
        assert int(found["TransactionDurationMs"]) >= 0
        _, lines, _ = tool("describe-producers", "--topic", "orders", "--partition", 0)
        assert lines[1].split()[-1] == str(store["orders"][0].end_offset - 1)
        hanging = [line.split()[:3] for line in tool(*HANGING, "--topic", "orders")[1][1:]]
        assert hanging == [["orders", "1", "1008"]]  # billing's will be ended by its coordinator
        status, lines, (error, *_) = tool(*ABORT, 1, "--start-offset", 1)
        assert (status, lines) == (1, [])
        assert "another process" in error or "this process" in error
        assert store["orders"][1].last_stable_offset == 1
        producer.abort_transaction()


def test_a_hanging_transaction_is_aborted_once(data: Path, tool: Tool) -> None:
    _, (header, row), _ = tool(*HANGING, "--topic", "orders")
    found = dict(zip(header.split(), row.split(), strict=True))
    assert (found["ProducerId"], found["ProducerEpoch"], found["StartOffset"]) == (
        "1008", "3", "1",
    )  # fmt: skip
    assert tool(*ABORT, 1, "--start-offset", 1)[:2] == (0, [])
    with kstore.open(data, "r") as store:
        log = store["orders"][1]
        assert log.last_stable_offset == log.end_offset == 3
        values = [record.value for record in log.view(isolation="read_committed")]
        assert values == [b"before"]
    assert len(tool(*HANGING, "--topic", "orders")[1]) == 1
    status, _, errors = tool(*ABORT, 1, "--start-offset", 1)
    assert status == 1
    assert (
        "Could not find any open transactions starting at offset 1 on partition orders-1"
        in errors[0]
    )


def test_a_producer_is_named_with_its_epochs(data: Path, tool: Tool) -> None:
    producer = ("--producer-id", 1008, "--producer-epoch")
    status, _, errors = tool(*ABORT, 1, *producer, 2, "--coordinator-epoch", -1)
    assert status == 1
    assert "epoch" in errors[0]
    assert tool(*ABORT, 1, *producer, 3, "--coordinator-epoch", -1)[:2] == (0, [])
    assert len(tool(*HANGING, "--topic", "orders")[1]) == 1


def test_a_transaction_that_opening_ends_needs_no_marker_of_the_tool(
    data: Path, tool: Tool
) -> None:
    """Of a producer of kstore whose state a power failure lost."""
    with kstore.open(data, config=QUIET) as store:
        known = store._transactions().coordinator["billing"]
        assert known.producer_id >= LOWEST_PRODUCER_ID
        log = store["orders"][0]
        start, epoch = log.end_offset, known.producer_epoch + 1
        hang(log, known.producer_id, epoch)
    assert tool(*ABORT, 0, "--start-offset", start)[:2] == (0, [])
    with kstore.open(data, "r") as store:
        log = store["orders"][0]
        assert log.last_stable_offset == log.end_offset == start + 2  # one marker


def test_a_failed_abort_is_an_error(
    data: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any) -> None:
        raise kstore.errors.StorageError("the disk is gone")

    monkeypatch.setattr("kstore.log.writable_log.WritableLog.flush", fail)
    status, _, errors = tool(*ABORT, 1, "--start-offset", 1)
    assert status == 1
    assert "the disk is gone" in "".join(errors)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*HANGING, "--broker-id", 5), "--broker-id 5: the directory belongs to broker 0"),
        (("find-hanging",), "requires either --topic or --broker-id"),
        (
            ("describe-producers", "--topic", "order", "--partition", 0),
            "Topic 'order' does not exist as expected; existing topics: __transaction_state, "
            "orders",
        ),
        (
            ("describe-producers", "--topic", "orders", "--partition", 7),
            "topic 'orders' has no partition 7 here; it has 0, 1",
        ),
        (("list", "--bootstrap-server", "x:1"), "and not both"),
        (("list", "--command-config", "x"), "a directory has no connection"),
    ],
)
def test_wrong_questions_about_a_directory(
    tool: Tool, words: tuple[object, ...], text: str
) -> None:
    status, lines, errors = tool(*words)
    assert (status, lines) == (1, [])
    assert text in errors[0]


def test_producers_are_described_beside_damaged_states(data: Path, tool: Tool) -> None:
    (states,) = (path for path in data.glob("__transaction_state-*/*.log") if path.stat().st_size)
    content = bytearray(states.read_bytes())
    content[70] ^= 0xFF
    write_damaged(states, content)
    status, _, errors = tool("list")
    assert status == 1
    assert "__transaction_state" in errors[0]
    status, lines, _ = tool("describe-producers", "--topic", "orders", "--partition", 1)
    assert (status, lines[1].split()[0]) == (0, "1008")


def test_the_directory_stands_before_or_after_the_action(
    data: Path, tool: Tool, capfd: Any
) -> None:
    before = tool("list")
    assert main(["transactions", "list", "--log-dir", str(data)]) == 0
    assert capfd.readouterr().out.splitlines() == before[1]
    assert len(before[1]) == 2


def test_a_directory_without_transactions_has_none(tmp_path: Path, capfd: Any) -> None:
    kstore.open(tmp_path / "data").close()
    assert main(["transactions", "list", "--log-dir", str(tmp_path / "data")]) == 0
    (header,) = capfd.readouterr().out.splitlines()
    assert header.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
