"""Transactions that kstore wrote, read by Kafka's tool, and through its broker by consumers:
Java's, kafka-python's and aiokafka's."""

import shutil

import pytest

import kstore
from interop.dump import dump_log
from interop.node import node as started
from interop.python_clients import aio, kafka_python
from oracle import files
from support.stores import QUIET

COMMITTED = "read_committed"
LEVELS = (COMMITTED, "read_uncommitted")


def write_transactions(store, topic):
    """Committed, aborted, plain and open ones, interleaved over two partitions."""
    one, two = store.transactional_producer("one"), store.transactional_producer("two")
    store[topic][0].append(b"plain")
    for number in range(6):
        one.begin_transaction()
        two.begin_transaction()
        for partition in (0, 1):
            one.send(topic, b"one %d" % number, key=b"k", partition=partition)
            one.flush()
            two.send(topic, b"two %d" % number, partition=partition)
            two.flush()
        one.send_offsets_to_transaction({(topic, 0): number}, "g")
        (one.commit_transaction if number % 2 else one.abort_transaction)()
        store[topic][0].append(b"between %d" % number)
        (two.abort_transaction if number % 3 else two.commit_transaction)()
    for log in store[topic]:
        log.roll()
        log.append(b"after the roll")
    return one


def visible_records(log, isolation):
    return [(record.offset, record.value.decode()) for record in log.view(isolation=isolation)]


@pytest.fixture
def own(tmp_path):
    return tmp_path / "own"


def test_dump_log_segments_reads_states_markers_and_indexes(kafka, own):
    with kstore.open(own, config=QUIET) as store:
        for name in ("t", "__transaction_state", "__consumer_offsets"):
            store.create_topic(name, 2 if name == "t" else 1)
        write_transactions(store, "t")
        expected = [record.offset for record in store["__transaction_state"][0]]
        aborted = [len(log.aborted_transactions(0, log.end_offset)) for log in store["t"]]
    logs = sorted(own.glob("__transaction_state-0/*.log"))
    dump = dump_log(kafka, logs, "--deep-iteration", "--transaction-log-decoder")
    assert dump.complaints == ""
    records = [record for file in dump.files.values() for record in file.records]
    assert [record.offset for record in records] == expected
    assert len(expected) > 50
    printed = " ".join(record.rest for record in records)
    names = (
        ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
        if kafka < "4"
        else [f'"transactionStatus":{number}' for number in range(6)]
    )
    assert all(name in printed for name in names), printed[:2000]
    everything = [
        path
        for folder in ("t-0", "t-1", "__consumer_offsets-0")
        for path in sorted((own / folder).iterdir())
        if path.suffix in (".log", ".txnindex", ".snapshot") and path.stat().st_size
    ]
    # Kafka 4.3 calls a gap what lies before the first offset of any segment but the first.
    later = [path for path in everything if path.suffix == ".log" and int(path.stem)]
    dump = dump_log(kafka, everything, "--deep-iteration")
    printed = {line for line in dump.complaints.splitlines() if "Picked up" not in line}
    gaps = {f"Non-consecutive offsets in {path}" for path in later}
    assert printed <= gaps | {f"  -1 is followed by {int(path.stem)}" for path in later}
    found = [
        sum(
            len(file.lines)
            for name, file in dump.files.items()
            if name.endswith(".txnindex") and f"/t-{partition}/" in name
        )
        for partition in (0, 1)
    ]
    assert found == aborted == [7, 7]


def test_consumers_get_what_our_reader_gives(kafka, tmp_path, own):
    with started(kafka, tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.stop()
        path = broker.log_dir / "t-0" / "partition.metadata"
        known = files.read_partition_metadata(path.read_text())
        with kstore.open(own, config=QUIET) as store:
            store.create_topic("t", 2, topic_id=known)
            producer = write_transactions(store, "t")
            producer.begin_transaction()
            producer.send("t", b"open", partition=1)
            producer.flush()
            store["t"][1].append(b"behind the open one")
            for log in store["t"]:
                log.flush()
            ours = {level: [visible_records(log, level) for log in store["t"]] for level in LEVELS}
            for partition in ("t-0", "t-1"):
                shutil.rmtree(broker.log_dir / partition)
                shutil.copytree(own / partition, broker.log_dir / partition)
        (broker.log_dir / ".kafka_cleanshutdown").unlink()
        broker.start()
        for level in LEVELS:
            count = sum(map(len, ours[level]))
            consumed = broker.consume("t", count, level)
            theirs = [
                [(each.offset, each.value) for each in consumed if each.partition == partition]
                for partition in (0, 1)
            ]
            assert theirs == ours[level], level
            for read in (kafka_python, aio):
                assert read(broker.address, "t", 2, count, level) == ours[level], (read, level)
        assert len(ours[COMMITTED][0]) == len(ours["read_uncommitted"][0]) - 7
        assert ours["read_uncommitted"][1][-1][1] == "behind the open one"
        assert "behind the open one" not in dict(ours[COMMITTED][1]).values()


def test_a_broker_hides_what_was_aborted_though_its_indexes_were_lost(kafka, tmp_path):
    """A broker shows the records of transactions whose index is lost; not so once kstore has
    had the directory open."""
    with started(kafka, tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.stop()
        with kstore.open(broker.log_dir, config=QUIET) as store:
            write_transactions(store, "t").close()
            everything, committed = (
                [
                    (log.partition, *each)
                    for log in store["t"]
                    for each in visible_records(log, level)
                ]
                for level in reversed(LEVELS)
            )
        assert len(everything) > len(committed)

        def consumed():
            broker.start()
            found = broker.consume("t", len(everything), COMMITTED)
            broker.stop()
            return [(each.partition, each.offset, each.value) for each in found]

        def lose():
            lost = sorted(broker.log_dir.glob("t-*/*.txnindex"))
            for path in lost:
                path.unlink()
            return [path.relative_to(broker.log_dir) for path in lost]

        names = lose()
        assert len(names) == 2
        assert set(consumed()) > set(committed)  # the broker alone
        assert not [name for name in names if (broker.log_dir / name).exists()]
        with kstore.open(broker.log_dir, config=QUIET) as store:
            reports = [str(log.recovery) for log in store["t"]]  # a log opens when it is first used
        assert all("rebuilt 1 transaction index:" in each for each in reports)
        assert [name for name in names if (broker.log_dir / name).exists()] == names
        assert consumed() == committed
