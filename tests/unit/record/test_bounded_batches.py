"""Batches fit segment.bytes and max.message.bytes; only a single record is ever refused."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig, Store
from kstore.cli import main
from kstore.errors import KStoreError, MessageTooLargeError, RecordListTooLargeError
from kstore.record import Record
from kstore.record.builder import BatchBuilder
from kstore.record.split import records_of, split_to_fit
from support.stores import QUIET

RANDOM = random.Random(7)
INCOMPRESSIBLE = [RANDOM.randbytes(100) for _ in range(1000)]
LIMITS = [
    {"segment_bytes": 10_000},
    {"max_message_bytes": 5_000},
    {"segment_bytes": 3_000, "max_message_bytes": 2_000},
]
KINDS = [
    {},
    {"compression_type": "gzip"},
    {"batch_compression": "lz4"},
    {"message_format_version": "0.10.0"},
    {"message_format_version": "0.9.0"},
    {"message_format_version": "0.10.0", "compression_type": "gzip"},
    {"message_timestamp_type": "LogAppendTime"},
]


@pytest.fixture(params=[{**limit, **kind} for limit in LIMITS for kind in KINDS], ids=repr)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with kstore.open(tmp_path, config=QUIET) as store:
        yield store.create_topic("t", config=LogConfig(**request.param))[0]


def values_of(log: Log) -> list[bytes | None]:
    return [record.value for record in log]


def test_extend_takes_what_fits_record_by_record(log: Log) -> None:
    assert log.extend(INCOMPRESSIBLE) == range(1000)
    assert log.extend(Record(-1, 1, b"key", value) for value in INCOMPRESSIBLE) == range(1000, 2000)
    assert values_of(log) == INCOMPRESSIBLE * 2
    limit = min(log.config.segment_bytes, log.config.max_message_bytes * 1000)
    assert max(view.size for view in log.segments.views) <= limit
    assert log.verify().ok


def test_a_producer_takes_what_fits_record_by_record(log: Log) -> None:
    store = log._writer.truncator.on_truncated.args[0]
    with store.producer("t", batch_size=1 << 20) as producer:
        deliveries = [producer.send(value) for value in INCOMPRESSIBLE]
        producer.flush()
        assert [each.result().offset for each in deliveries] == list(range(1000))
    assert values_of(log) == INCOMPRESSIBLE
    assert log.verify().ok


def make(tmp_path: Path, **settings: object) -> Store:
    store = kstore.open(tmp_path, config=QUIET)
    store.create_topic("t", config=LogConfig(**settings))
    return store


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"segment_bytes": 10_000}, RecordListTooLargeError, r"segment\.bytes \(10000\)"),
        ({"max_message_bytes": 5_000}, MessageTooLargeError, r"max\.message\.bytes \(5000\)"),
    ],
)
def test_extend_refuses_one_record_by_its_index(
    tmp_path: Path, settings: dict[str, int], error: type[KStoreError], message: str
) -> None:
    large = RANDOM.randbytes(20_000)
    with make(tmp_path, **settings) as store:
        log = store["t"][0]
        source = (large if n == 1234 else b"x" * 100 for n in range(3000))
        with pytest.raises(
            error, match=rf"item 1234 does not fit: .* of 200\d\d bytes .*{message}"
        ) as e:
            log.extend(source)
        assert "the first 1234 items were appended, at offsets 0 to 1233" in str(e.value)
        assert log.end_offset == 1234
        with pytest.raises(error, match=r"item 0 does not fit: .*; nothing was appended"):
            log.extend([large, b"x"])
        assert log.extend([b"x"] * 10) == range(1234, 1244), "the limit is as before"


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("settings", [{"segment_bytes": 3_000}, {"max_message_bytes": 3_000}])
def test_a_producer_refuses_one_record_and_delivers_its_neighbours(
    tmp_path: Path, settings: dict[str, int], idempotent: bool
) -> None:
    sent = [b"%d" % n * 50 for n in range(30)]
    sent[10] = RANDOM.randbytes(3_500)
    with make(tmp_path, **settings) as store:
        log = store["t"][0]
        producer = store.producer("t", enable_idempotence=idempotent, linger_ms=60_000)
        # The limits are lowered while batches are open: they hold more than fits by then.
        producer._batch_size = 1 << 20
        deliveries = [producer.send(value) for value in sent]
        with pytest.raises(KStoreError, match=r"a record takes 35\d\d bytes .*\(3000\)"):
            producer.flush()
        with pytest.raises(KStoreError, match="a record takes"):
            deliveries[10].result()
        fitting = sent[:10] + sent[11:]
        assert values_of(log) == fitting
        offsets = [each.result().offset for each in deliveries[:10] + deliveries[11:]]
        assert offsets == list(range(29))
        last = producer.send(b"on")
        producer.flush()
        assert last.result().offset == 29
        producer.close()
        assert log.verify().ok


def test_a_transaction_splits_its_batches(tmp_path: Path) -> None:
    with make(tmp_path, segment_bytes=3_000, compression_type="gzip") as store:
        with store.transactional_producer("id", batch_size=1 << 20) as producer:
            with producer.transaction():
                for value in INCOMPRESSIBLE:
                    producer.send("t", value)
            found = store["t"][0].view(isolation="read_committed")
            assert [record.value for record in found] == INCOMPRESSIBLE
            with pytest.raises(RecordListTooLargeError, match="a record takes"):  # noqa: SIM117
                with producer.transaction():
                    producer.send("t", RANDOM.randbytes(20_000))
            with producer.transaction():
                producer.send("t", b"on")
        assert [r.value for r in store["t"][0].view(isolation="read_committed")][1000:] == [b"on"]


def test_console_producer_writes_to_a_topic_of_small_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, lines = tmp_path / "data", tmp_path / "lines.txt"
    make(data, segment_bytes=10_000).close()
    lines.write_bytes(b"".join(b"%d\n" % n * 10 for n in range(5000)))
    with lines.open() as source:
        monkeypatch.setattr("sys.stdin", source)
        assert main(["console-producer", "--topic", "t", "--log-dir", str(data)]) == 0
    with kstore.open(data, "r") as store:
        assert store["t"].end_offsets() == {0: 50_000}
    lines.write_bytes(b"before\n" + b"x" * 20_000 + b"\nafter\n")
    with lines.open() as source:
        monkeypatch.setattr("sys.stdin", source)
        assert main(["console-producer", "--topic", "t", "--log-dir", str(data)]) == 1
    message = capsys.readouterr().err
    assert "line 2: a record takes 20" in message
    assert "segment.bytes (10000)" in message
    with kstore.open(data, "r") as store:
        assert b"before" in [r.value for r in store["t"][0].view(50_000)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("base_offset", [None, 77])
def test_split_to_fit_keeps_every_record(compression: str, base_offset: int | None) -> None:
    builder = BatchBuilder(compression=compression, size_limit=1 << 20)
    for n, value in enumerate(INCOMPRESSIBLE[:100]):
        assert builder.append(value, key=b"%d" % n, headers=[("h", None)], timestamp=n)
    batch = builder.build(base_offset or 0)
    parts = list(split_to_fit(batch, 2_000, base_offset=base_offset))
    assert len(parts) > 5
    assert all(len(part) <= 2_000 for part in parts)
    found = [record for part in parts for record in records_of(part)]
    decoded = [(r.key, r.value, r.headers, r.timestamp) for r in found]
    assert decoded == [(r.key, r.value, r.headers, r.timestamp) for r in records_of(batch)]
    if base_offset is not None:
        assert [r.offset for r in found] == list(range(77, 177))
    assert list(split_to_fit(batch, len(batch))) == [batch]
    assert [len(records_of(part)) for part in split_to_fit(batch, 1)] == [1] * 100


def test_a_transaction_names_the_record_that_does_not_fit(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", config=LogConfig(max_message_bytes=1000, batch_size=300))
        producer = store.transactional_producer("x")
        for before in (7, 1):  # the count begins again with each transaction
            producer.begin_transaction()
            for _ in range(before):
                producer.send("t", b"v" * 100)
            producer.flush()
            reason = rf"record {before} of the transaction in t-0 does not fit: .* 2\d+ bytes"
            with pytest.raises(MessageTooLargeError, match=reason):
                producer.send("t", b"v" * 2000)
            producer.abort_transaction()
