"""Kafka takes over what kstore knows of producers: snapshots, aborted and open transactions."""

import re
from pathlib import Path

import pytest

import kstore
from interop.dump import dump_log
from interop.kafka_jars import run
from interop.node import node
from kstore.producer_state import snapshot
from kstore.segment import transaction_index
from support.logs import open_log
from support.producers import NOW, sent

US, THEM, OPEN = 1 << 62, (1 << 62) + 5, (1 << 62) + 9


def fill(log: kstore.Log) -> None:
    """Idempotent batches, a committed, an aborted and an open transaction, over two segments."""
    log.append_as_leader(sent(US, 0, 0, 5))
    log.append_as_leader(sent(THEM, 0, 0, 3, transactional=True, value=b"kept"))
    log.append_end_marker(THEM, 1, commit=True, coordinator_epoch=2)
    log.append_as_leader(sent(THEM, 1, 0, 3, transactional=True, value=b"aborted"))
    log.roll()
    log.append_as_leader(sent(US, 0, 5, 2))
    log.append_end_marker(THEM, 2, commit=False, coordinator_epoch=3)
    log.append_as_leader(sent(OPEN, 4, 0, 2, transactional=True, value=b"open"))


def numbers(line: str) -> list[tuple[str, str]]:
    return re.findall(r"(\w+): (?:Optional\w*\[)?(-?\d+)", line)


def test_its_tool_decodes_them(kafka: str, tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", clock=lambda: NOW)
    fill(log)
    log.close()
    paths = sorted([*Path(log.path).glob("*.snapshot"), *Path(log.path).glob("*.txnindex")])
    assert len(paths) == 3
    dump = dump_log(kafka, paths)
    assert dump.complaints == ""
    for path in paths:
        lines = [numbers(line) for line in dump.files[str(path)].lines if "producerId" in line]
        data = path.read_bytes()
        if path.suffix == ".txnindex":
            assert [[int(number) for _, number in line] for line in lines] == [
                list(entry) for entry in transaction_index.parse(data)
            ]
            continue
        for line, entry in zip(lines, snapshot.parse(data), strict=True):
            fields = {name: int(number) for name, number in line}
            assert fields["producerId"] == entry.producer_id
            assert fields["producerEpoch"] == entry.producer_epoch
            assert fields["coordinatorEpoch"] == entry.coordinator_epoch
            assert fields["lastTimestamp"] == entry.timestamp
            first = entry.current_transaction_first_offset
            assert fields.get("currentTxnFirstOffset", -1) == first
            if entry.last_offset >= 0:
                assert (fields["firstSequence"], fields["lastSequence"]) == (
                    entry.first_sequence,
                    entry.last_sequence,
                )
                assert (fields["lastOffset"], fields["offsetDelta"]) == (
                    entry.last_offset,
                    entry.offset_delta,
                )


def states(version: str, address: str) -> dict[int, list[str]]:
    """What a broker knows of each producer: epoch, coordinator epoch, sequence, open since."""
    arguments = ["--bootstrap-server", address, "describe-producers", "--topic", "t"]
    done = run(version, "org.apache.kafka.tools.TransactionsCommand", *arguments, "--partition", 0)
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    return {int(row[0]): [*row[1:4], row[5]] for row in rows if row and row[0].isdigit()}


def test_a_broker_continues_from_our_state(kafka: str, tmp_path: Path) -> None:
    with node(kafka, tmp_path) as broker:
        broker.create_topic("t")
        broker.stop()
        with kstore.open(broker.log_dir) as store:
            log = store["t"][0]
            now = log._writer.state.now_ms()  # else Kafka forgets producers as idle for years
            for data in (sent(US, 0, 0, 2, timestamp=now), sent(US, 0, 2, timestamp=now)):
                log.append_as_leader(data)
            log.append_as_leader(sent(THEM, 0, 0, 3, transactional=True, timestamp=now))
            log.append_end_marker(THEM, 1, commit=False, coordinator_epoch=3)
            log.append_as_leader(sent(OPEN, 4, 0, 2, transactional=True, timestamp=now))
            end, stable = log.end_offset, log.last_stable_offset
        broker.level = "info"
        broker.start()
        fields = "\n".join(broker.lines())
        assert "recovered for t-0" not in fields
        assert states(kafka, broker.address) == {
            US: ["0", "-1", "2", "None"],
            THEM: ["1", "3", "-1", "None"],
            OPEN: ["4", "-1", "1", str(stable)],
        }
        broker.produce("t", [("k", "theirs")])
        broker.stop()
        with kstore.open(broker.log_dir) as store:
            log = store["t"][0]
            known = {entry.producer_id: entry for entry in log.producers()}
            assert {US, THEM, OPEN} < set(known)
            (own,) = set(known) - {US, THEM, OPEN}
            assert known[own].last_offset == end == log.end_offset - 1
            assert log.last_stable_offset == stable
            assert [entry.producer_id for entry in log.aborted_transactions(0, end)] == [THEM]
            # And our producers continue where they were.
            assert log.append_as_leader(sent(US, 0, 2, timestamp=now)).size == 0
            log.append_as_leader(sent(US, 0, 3, timestamp=now))
            with pytest.raises(kstore.errors.OutOfOrderSequenceError):
                log.append_as_leader(sent(OPEN, 4, 7, transactional=True, timestamp=now))
