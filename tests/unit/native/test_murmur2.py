"""The key hash against the vectors of Kafka's Java tests and two other clients."""

import warnings
from array import array

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from kstore._native.format import murmur2

with warnings.catch_warnings():  # kafka-python reads its schemas by a deprecated call
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

# org.apache.kafka.common.utils.UtilsTest.testMurmur2
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA.items())
def test_hashes_are_javas(key, expected):
    assert murmur2.murmur2(key) == expected
    assert murmur2.partition_for_key(key, 7) == (expected & 0x7FFFFFFF) % 7


@given(st.binary(max_size=70))
def test_agrees_with_other_clients(key):
    assert murmur2.murmur2(key) & 0xFFFFFFFF == kafka_python_murmur2(key) & 0xFFFFFFFF
    assert murmur2.murmur2(key) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF
    assert (
        murmur2.murmur2(bytearray(key)) == murmur2.murmur2(memoryview(key)) == murmur2.murmur2(key)
    )


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=30), st.integers(1, 99))
def test_partitions_for_keys_agrees_with_partition_for_key(column, partitions):
    data = b"--" + b"".join(key or b"" for key in column)
    positions, lengths, at = array("q"), array("i"), 2
    for key in column:
        positions.append(at)
        lengths.append(-1 if key is None else len(key))
        at += len(key or b"")
    chosen = murmur2.partitions_for_keys(data, positions, lengths, partitions)
    assert chosen.tolist() == [
        -1 if key is None else murmur2.partition_for_key(key, partitions) for key in column
    ]
    out = array("i", bytes(4 * len(column)))
    assert murmur2.partitions_for_keys(data, positions, lengths, partitions, out) is out
    assert out.tolist() == chosen.tolist()


@pytest.mark.parametrize(
    ("position", "length"), [(0, 11), (10, 1), (11, 0), (-1, 1), (2**62, 5), (3, 2**31 - 1)]
)
def test_a_key_outside_the_data_is_refused(position, length):
    with pytest.raises(ValueError, match="row 1"):
        murmur2.partitions_for_keys(
            bytes(10), array("q", [10, position]), array("i", [0, length]), 3
        )


def test_invalid_partition_counts_and_offsets_are_errors():
    with pytest.raises(ValueError, match="at least 1"):
        murmur2.partition_for_key(b"a", 0)
    with pytest.raises(ValueError, match="at least 1"):
        murmur2.partitions_for_keys(b"a", array("q"), array("i"), -1)
    with pytest.raises(TypeError):
        murmur2.partition_for_key(None, 3)
    with pytest.raises(ValueError, match="differ in length"):
        murmur2.partitions_for_keys(b"a", array("q", [0]), array("i"), 3)
    with pytest.raises(TypeError, match="positions"):
        murmur2.partitions_for_keys(b"a", array("i", [0]), array("i", [1]), 3)
    with pytest.raises(TypeError, match="lengths"):
        murmur2.partitions_for_keys(b"a", array("q", [0]), array("f", [1]), 3)
