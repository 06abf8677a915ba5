"""Real brokers serve what kstore wrote, kstore opens what they wrote, turn by turn."""

import shutil

import kstore
from interop.samples import batch_bytes, sample_records
from interop.tools import Consumed
from kstore.config import CODECS
from kstore.files.filenames import MOVED, cut_name, header_checksums_name, unreadable_name
from oracle import files


def consumed(partition, records):
    """kstore's or the oracle's records as the Java consumer should give them out."""
    return [
        Consumed(
            partition,
            record.offset,
            record.timestamp,
            text(record.key),
            text(record.value),
            tuple((name, text(value)) for name, value in record.headers),
            record.timestamp_type,
        )
        for record in records
    ]


def text(data):
    return None if data is None else data.decode()


def assert_serves(broker, topic, partitions):
    """The broker gives out exactly these records: a list of records for each partition."""
    expected = [one for p, records in enumerate(partitions) for one in consumed(p, records)]
    assert broker.consume(topic, len(expected)) == expected
    ends = {p: records[-1].offset + 1 if records else 0 for p, records in enumerate(partitions)}
    assert broker.end_offsets(topic) == ends


def fill_codecs(log, codec):
    """About 700 records by every way of writing there is, over several segments."""
    start = log.end_offset
    for count in (1, 100, 63):
        records = [r._replace(offset=n) for n, r in enumerate(sample_records(start, count))]
        info = log.append_as_leader(batch_bytes(records, leader_epoch=-1, codec=codec))
        assert info.first_offset == start
        start += count
        log.roll()
    log.extend([b"value-%d" % number for number in range(500)])
    for record in sample_records(0, 30):
        log.append(record.value, key=record.key, headers=record.headers, timestamp=record.timestamp)


def leave_one_of_each(log_dir, topic):
    """Every kind of file of kstore's own, for a broker to start on."""
    (log_dir / f"{topic}-0" / cut_name(0, 0, 0)).write_bytes(b"cut")
    with kstore.open(log_dir) as store:
        store[topic][0].roll()
        store[topic][0].flush()
    with kstore.open(log_dir, "r") as reader, reader.consumer(topic, group="billing") as reads:
        assert reads.poll()
        reads.commit()
    (log_dir / "kstore.listeners").write_bytes(b"left by a killed broker")
    (log_dir / f"{topic}-0" / MOVED).write_bytes(b'{"format":1}')
    (log_dir / f"{topic}-0" / unreadable_name("leader-epoch-checkpoint", 0)).write_bytes(b"0 9")
    # Every partition of which a segment was rolled has a seal: one of them stands for all.
    names = {path.name for path in log_dir.rglob("kstore.*")}
    assert {name for name in names if "seal" not in name} | {header_checksums_name(0)} & names == {
        "kstore.topics",
        "kstore.listeners",
        "kstore.offsets.billing",
        "kstore.offsets-lock.billing",
        cut_name(0, 0, 0),
        header_checksums_name(0),
        MOVED,
        unreadable_name("leader-epoch-checkpoint", 0),
    }


def test_kafka_and_kstore_write_a_directory_in_turns(node, tmp_path):
    """Kafka makes topics; kstore writes; Kafka serves and writes; kstore opens and writes again."""
    node.start()
    node.create_topic("codecs", len(CODECS))
    node.create_topic("shared", 1)
    node.create_topic("handed", 2)
    node.produce("shared", [(f"kafka-{n}", f"first {n}") for n in range(20)], "lz4")
    node.stop()

    written = {}
    with kstore.open(node.log_dir) as store:
        for partition, codec in enumerate(CODECS):
            store.alter_topic("codecs", config={"batch_compression": codec})
            fill_codecs(store["codecs"][partition], codec)
        written["codecs"] = [list(log) for log in store["codecs"]]
        shared = store["shared"][0]
        assert [(r.key, r.value) for r in shared] == [
            (b"kafka-%d" % n, b"first %d" % n) for n in range(20)
        ]
        shared.append(b"from kstore", key=b"k", headers=[("h", b"1")])
        shared.extend([b"bulk %d" % n for n in range(1000)])
        written["shared"] = [list(shared)]
    assert [len(records) for records in written["codecs"]] == [694] * 5
    leave_one_of_each(node.log_dir, "shared")

    # A directory that kstore made from nothing, handed over under the id the broker knows.
    known = files.read_partition_metadata(
        (node.log_dir / "handed-0" / "partition.metadata").read_text()
    )
    with kstore.open(tmp_path / "own") as store:
        own = store.create_topic("handed", 2, topic_id=known)
        for number in range(200):
            own.append(b"value %d" % number, key=b"key %d" % number)
        written["handed"] = [list(log) for log in own]
    assert all(written["handed"])
    for partition in ("handed-0", "handed-1"):
        shutil.rmtree(node.log_dir / partition)
        shutil.copytree(tmp_path / "own" / partition, node.log_dir / partition)

    node.start()
    for topic, partitions in written.items():
        assert_serves(node, topic, partitions)
    for codec in ("none", "zstd"):
        node.produce("shared", [(codec, f"second {n}") for n in range(300)], codec)
    node.stop()
    for offsets in node.log_dir.glob("kstore.offsets*"):
        offsets.unlink()  # the next writer would make a topic of them that the broker knows not
    assert (node.log_dir / "shared-0" / cut_name(0, 0, 0)).read_bytes() == b"cut"
    assert "stray" not in " ".join(path.name for path in node.log_dir.iterdir())

    with kstore.open(node.log_dir) as store:
        shared = store["shared"][0]
        before = written["shared"][0]
        everything = list(shared)
        assert everything[: len(before)] == before
        assert [(r.key, r.value) for r in everything[len(before) :]] == [
            (codec, b"second %d" % n) for codec in (b"none", b"zstd") for n in range(300)
        ]
        assert [record.offset for record in everything] == list(range(1621))
        shared.verify().raise_if_corrupt()
        shared.append(b"third")
        written["shared"] = [list(shared)]
        for log, records in zip(store["codecs"], written["codecs"], strict=True):
            assert list(log) == records
    node.start()
    assert_serves(node, "shared", written["shared"])
    node.stop()


def test_after_a_killed_broker(node):
    """SIGKILL: kstore recovers the directory, keeps what was acknowledged, hands it back."""
    node.start()
    node.create_topic("killed", 1)
    pairs = [(f"key-{n}", f"value {n} " + "x" * (n % 700)) for n in range(2000)]
    node.produce("killed", pairs, "snappy")
    node.kill()
    assert not (node.log_dir / ".kafka_cleanshutdown").exists()
    index = node.log_dir / "killed-0" / f"{0:020}.index"
    assert index.stat().st_size == 10485760  # as the broker preallocated it

    with kstore.open(node.log_dir, mode="r") as store:
        assert [text(record.key) for record in store["killed"][0]] == [key for key, _ in pairs]
    with kstore.open(node.log_dir) as store:
        log = store["killed"][0]
        assert log.recovery is not None
        assert [(text(r.key), text(r.value)) for r in log] == pairs
        log.append(b"after the kill", key=b"kstore")
        log.verify().raise_if_corrupt()
        records = list(log)
    assert index.stat().st_size < 10485760

    node.start()
    assert_serves(node, "killed", [records])
    node.stop()
