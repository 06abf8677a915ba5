"""Fetch 0 to 3: records as messages v0 and v1 for old consumers."""

import pytest

from kstore.broker import down_convert
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.protocol.messages.fetch import FetchRequest
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.reader import read_log
from oracle.writer import batch
from support.client_batches import NOW, rows
from support.handler_tester import HandlerTester

VERSIONS = range(4)
GZIP, ZSTD = 1, 4


@pytest.fixture
def broker(tmp_path):
    with Store(tmp_path) as store, HandlerTester(store, FetchHandlers) as tester:
        tester.create("t", 2)
        yield tester


def fetch(broker, version, offset=0, *, max_bytes=1 << 20, partitions=(0,), **fields):
    wanted = [FetchRequest.Topics.Partitions(n, -1, offset, -1, -1, max_bytes) for n in partitions]
    message = FetchRequest(topics=[FetchRequest.Topics("t", partitions=wanted)], **fields)
    found = broker.ask(message, version).responses[0].partitions
    return found if len(found) > 1 else found[0]


def records_of(answer):
    return [each for found in read_log(bytes(answer.records)).batches for each in found.records]


def offsets(answer):
    return [record.offset for record in records_of(answer)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [0, GZIP])
def test_records_become_messages(broker, version, codec):
    log = broker.store["t"][0]
    log.append_as_leader(batch(rows(5), codec=codec))
    log.append_as_leader(batch(rows(5), codec=codec))
    answer = fetch(broker, version)
    data = bytes(answer.records)
    assert data[16] == (0 if version <= 1 else 1)
    assert offsets(answer) == list(range(10))
    assert [record.value for record in records_of(answer)] == [r.value for r in rows(5)] * 2
    assert (answer.error_code, answer.high_watermark) == (0, 10)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_uncompressed_batch_begins_at_the_offset(broker, version):
    broker.store["t"][0].append_as_leader(batch(rows(5)))
    assert offsets(fetch(broker, version, 3)) == [3, 4]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_gets_behind_control_batches(broker, version):
    log = broker.store["t"][0]
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch(rows(1), transactional=True, **fields))
    log.append_end_marker(7, 0, commit=True)
    log.append(b"last")
    first = len(log.read(1, 1))
    assert offsets(fetch(broker, version, 1, max_bytes=first)) == [2]


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_is_bounded(broker, version, monkeypatch):
    monkeypatch.setattr(down_convert, "BUDGET", 50_000)
    for number in range(2):
        for _ in range(20):
            record = PlainRecord(0, NOW, b"k", bytes(9000))
            broker.store["t"][number].append_as_leader(batch([record]))
    first, second = fetch(broker, version, partitions=(0, 1))
    assert 30_000 < len(first.records) <= 50_000
    assert len(first.records) + len(second.records or b"") <= 60_000
    assert offsets(first) == list(range(len(offsets(first))))


def test_limits_cut_below_version_3(broker):
    broker.store["t"][0].append_as_leader(batch(rows(50)))
    for version in (0, 1, 2):
        assert len(fetch(broker, version, max_bytes=100).records) == 100
    assert offsets(fetch(broker, 3, max_bytes=100)) == list(range(50))


@pytest.mark.parametrize("version", VERSIONS)
def test_zstd_cannot_be_converted(broker, version):
    log = broker.store["t"][0]
    log.append_as_leader(batch(rows(2)))
    log.append_as_leader(batch(rows(2), codec=ZSTD))
    assert fetch(broker, version, 2).error_code == 76
    assert offsets(fetch(broker, version, max_bytes=len(log.read(0, 1)))) == [0, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_conversion_may_be_switched_off(broker, version):
    broker.store["t"][0].append(b"x")
    config = {"message.downconversion.enable": "false"}
    broker.metadata.follow(broker.store, config=config)
    answer = fetch(broker, version)
    assert (answer.error_code, answer.high_watermark, bytes(answer.records)) == (35, -1, b"")
