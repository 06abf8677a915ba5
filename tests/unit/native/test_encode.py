"""BatchBuffer: what it writes other clients read, and an error leaves it as it was."""

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from kstore._native.append.encode import BatchBuffer
from kstore.errors import InvalidTimestampError, MessageTooLargeError

T = 1_700_000_000_000
small = st.one_of(st.none(), st.binary(max_size=200))
records = st.lists(
    st.tuples(
        small,
        small,
        st.lists(st.tuples(st.text(max_size=20), small), max_size=4),
        st.integers(min_value=0, max_value=2**62),
    ),
    min_size=1,
    max_size=30,
)


def encode(rows, base_offset=0):
    batch = BatchBuffer(256)
    for value, key, headers, timestamp in rows:
        batch.put(value, key, headers, timestamp)
    return batch.to_bytes(base_offset)


@pytest.mark.parametrize("reader", [AiokafkaBatch, KafkaPythonBatch])
@given(rows=records, base_offset=st.integers(0, 2**40))
def test_other_clients_read_what_we_write(reader, rows, base_offset):
    data = encode(rows, base_offset)
    batch = reader(data)
    assert batch.validate_crc()
    assert batch.max_timestamp == max(row[3] for row in rows)
    read = [(r.value, r.key, list(r.headers), r.timestamp, r.offset) for r in batch]
    assert read == [(*row, base_offset + n) for n, row in enumerate(rows)]


def test_bytes_equal_another_encoder():
    values = [b"x" * size for size in range(0, 300, 7)]
    batch = BatchBuffer()
    assert batch.put_values(values, 0, T, 1 << 30) == len(values)
    builder = AiokafkaBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for n, value in enumerate(values):
        builder.append(n, T, None, value, [])
    theirs = bytes(builder.build())
    ours = batch.to_bytes()
    assert ours[61:] == theirs[61:]
    assert ours[16:] == theirs[16:]


def test_values_stop_at_the_limit():
    values = [bytes(100)] * 50
    batch = BatchBuffer()
    taken = batch.put_values(values, 0, T, 61 + 10 * 109)
    assert taken == 10
    assert batch.byte_size == 61 + 10 * 109
    assert batch.put_values(values, taken, T, 61 + 10 * 109) == 0
    batch.reset()
    assert (
        batch.put_values(values, taken, T, 62) == 1
    )  # an empty batch takes one, whatever its size
    assert batch.put_values(values, 50, T, 1 << 20) == 0


def test_values_of_any_buffer_and_none():
    values = [b"a", None, bytearray(b"b"), memoryview(b"c"), np.frombuffer(b"d", np.uint8)]
    batch = BatchBuffer()
    assert batch.put_values(values, 0, T, 1 << 20) == 5
    assert [r.value for r in AiokafkaBatch(batch.to_bytes())] == [b"a", None, b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("text", None, None, T), TypeError),
        ((b"v", "text", None, T), TypeError),
        ((b"v", 3, None, T), TypeError),
        ((b"v", None, [("h", "text")], T), TypeError),
        ((b"v", None, [("h",)], T), TypeError),
        ((b"v", None, [b"hv"], T), TypeError),
        ((b"v", None, "hv", T), TypeError),
        ((b"v", None, [(3, b"v")], T), TypeError),
        ((b"v", None, [("\ud800", b"v")], T), UnicodeEncodeError),
        ((b"v", None, None, -2), InvalidTimestampError),
        ((b"v", None, None, 2**63), OverflowError),
        ((b"v", None, None, None), TypeError),
        ((memoryview(b"abcd")[::2], None, None, T), BufferError),
    ],
)
def test_an_error_leaves_the_batch_as_it_was(arguments, error):
    batch = BatchBuffer()
    batch.put(b"first", b"key", [("h", None)], T)
    before = batch.to_bytes()
    with pytest.raises(error):
        batch.put(*arguments)
    assert batch.to_bytes() == before
    batch.put(b"second", None, None, T - 5)
    assert [r.value for r in AiokafkaBatch(batch.to_bytes())] == [b"first", b"second"]


def test_text_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match="encode"):
        BatchBuffer().put_values(["text"], 0, T, 1 << 20)


def test_values_before_an_invalid_one_are_in_the_batch():
    batch = BatchBuffer()
    with pytest.raises(TypeError):
        batch.put_values([b"a", b"b", 3, b"c"], 0, T, 1 << 20)
    assert len(batch) == 2


def test_header_names_may_be_bytes():
    data = encode([(b"v", None, [("ключ", b"1"), (b"raw", None)], T)])
    assert next(iter(AiokafkaBatch(data))).headers == [("ключ", b"1"), ("raw", None)]


def test_a_value_list_changed_during_encoding_is_safe():
    values = [b"a"]

    class Sneaky:
        def __index__(self):
            return 0

    values.append(Sneaky())
    with pytest.raises(TypeError):
        BatchBuffer().put_values(values, 0, T, 1 << 20)


def test_headers_that_write_into_the_same_batch():
    batch = BatchBuffer()

    def headers():
        batch.put(b"inner", None, None, T)
        yield ("h", b"1")

    batch.put(b"outer", None, headers(), T)
    read = [(r.offset, r.value) for r in AiokafkaBatch(batch.to_bytes())]
    assert read == [(0, b"inner"), (1, b"outer")]


def test_producer_fields_and_attributes():
    batch = BatchBuffer()
    batch.set_producer(4000, 1, 17)
    batch.put(b"b", b"a", None, T)
    read = AiokafkaBatch(batch.to_bytes(11, 3, 0x10))
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (4000, 1, 17)
    assert read.is_transactional
    assert read.base_offset == 11


def test_a_worked_example_of_the_format():
    batch = BatchBuffer()
    batch.put(b"hello", b"k", [("h", b"1")], T)
    batch.put(b"world", None, None, T + 5)
    assert batch.to_bytes(8, 3).hex() == (
        "00000000000000080000004e00000003022f44a1c1000000000001"
        "0000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff00000002"
        "2000000002" + "6b0a68656c6c6f02026802311600" + "0a02010a776f726c6400"
    )


def test_views_pin_the_memory():
    batch = BatchBuffer(256)
    batch.put(b"v", None, None, T)
    view = batch.records
    with pytest.raises(BufferError):
        batch.put(bytes(5000), None, None, T)
    assert bytes(view) == batch.to_bytes()[61:]
    view.release()
    batch.put(bytes(5000), None, None, T)
    assert len(batch) == 2


def test_replaced_records_get_a_header_that_fits():
    batch = BatchBuffer()
    batch.put(b"v" * 100, None, None, T)
    batch.replace_records(b"compressed")
    data = batch.to_bytes(attributes=4)
    assert data[61:] == b"compressed"
    assert AiokafkaBatch(data).validate_crc()
    with pytest.raises(ValueError):
        batch.put(b"v", None, None, T)
    with pytest.raises(ValueError):
        batch.put_values([b"v"], 0, T, 1 << 20)
    batch.reset()
    batch.put(b"v", None, None, T)
    assert [r.value for r in AiokafkaBatch(batch.to_bytes())] == [b"v"]


def test_empty_batch_is_one_of_compaction():
    data = BatchBuffer().to_bytes(20)
    assert len(data) == 61
    assert AiokafkaBatch(data).validate_crc()


@pytest.mark.slow
def test_a_record_beyond_two_gib_is_refused():
    batch = BatchBuffer()
    batch.put(b"first", None, None, T)
    before = batch.to_bytes()
    with pytest.raises(MessageTooLargeError):
        batch.put(bytes(2**31), None, None, T)
    assert batch.to_bytes() == before


def test_a_batch_beyond_two_gib_is_refused_before_memory_is_asked():
    view = memoryview(bytes(1 << 20))
    rows = 2100
    batch = BatchBuffer()
    with pytest.raises(MessageTooLargeError):
        batch.put(None, None, [(b"h", view[:1])] + [(b"h", bytes(1 << 20))] * rows, T)
    assert len(batch) == 0


def test_a_sealed_batch_is_not_copied():
    batch = BatchBuffer(256)
    batch.put(b"v", None, None, T)
    with batch.finish(5, 1) as view:
        assert view == batch.to_bytes(5, 1)
        with pytest.raises(BufferError):
            batch.put_values([bytes(5000)], 0, T, 1 << 20)
    assert batch.put_values([bytes(5000)], 0, T, 1 << 20) == 1
