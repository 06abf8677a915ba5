"""The partition of a key: hash and rule of Kafka's Java client."""

from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, get_data, hold_bytes, hold_int32s, hold_int64s, hold_writable_int32s,
)

cdef enum:
    MULTIPLIER = 0x5bd1e995
    SEED = 0x9747b28c


cdef int32_t _murmur2(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t mixed, value = <uint32_t>SEED ^ <uint32_t>size
    cdef const uint8_t* end = data + (size & ~<Py_ssize_t>3)
    while data < end:
        memcpy(&mixed, data, 4)
        mixed *= <uint32_t>MULTIPLIER
        mixed ^= mixed >> 24
        mixed *= <uint32_t>MULTIPLIER
        value = (value * <uint32_t>MULTIPLIER) ^ mixed
        data += 4
    size &= 3
    if size == 3:
        value ^= <uint32_t>data[2] << 16
    if size >= 2:
        value ^= <uint32_t>data[1] << 8
    if size >= 1:
        value ^= data[0]
        value *= <uint32_t>MULTIPLIER
    value ^= value >> 13
    value *= <uint32_t>MULTIPLIER
    value ^= value >> 15
    return <int32_t>value


cdef int32_t murmur2(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    return _murmur2(data, size)


cdef int32_t _hash_buffer(object buffer) except? -1:
    cdef Py_buffer view
    cdef int32_t value
    if PyBytes_CheckExact(buffer):
        return _murmur2(<const uint8_t*>PyBytes_AS_STRING(buffer), PyBytes_GET_SIZE(buffer))
    get_data(buffer, "key", &view)
    value = _murmur2(<const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def _murmur2_of(key, /):
    """MurmurHash2 of a key's bytes as a signed 32-bit number, as Kafka's ``Utils.murmur2``."""
    return _hash_buffer(key)


# murmur2 is the C function, for cimport; define the Python function of that name.
_murmur2_of.__name__ = _murmur2_of.__qualname__ = "murmur2"
globals()["murmur2"] = _murmur2_of


def partition_for_key(key, int partitions, /):
    """The partition that Kafka's Java client chooses: ``(murmur2(key) & 0x7fffffff) % partitions``.

    Raises ``ValueError`` unless ``partitions`` is at least 1. An empty key is a key; a null key
    has no partition, and passing None is a ``TypeError``.
    """
    if partitions < 1:
        raise ValueError(f"partitions must be at least 1, not {partitions}")
    return (_hash_buffer(key) & 0x7FFFFFFF) % partitions


cdef Py_ssize_t _hash_many(
    const uint8_t* data, Py_ssize_t data_size, const int64_t* positions, const int32_t* lengths,
    Py_ssize_t count, int32_t partitions, int32_t* out,
) noexcept nogil:
    """Returns the first row whose key is outside the data, or count."""
    cdef Py_ssize_t row
    for row in range(count):
        if lengths[row] < 0:
            out[row] = -1
            continue
        if positions[row] < 0 or positions[row] > data_size - lengths[row]:
            return row
        out[row] = (_murmur2(data + positions[row], lengths[row]) & 0x7FFFFFFF) % partitions
    return count


def partitions_for_keys(data, positions, lengths, int partitions, out=None):
    """``partition_for_key`` of every ``data[position:position + length]``, without the GIL.

    Parameters
    ----------
    data
        The bytes that contain the keys.
    positions, lengths
        One-dimensional contiguous int64 and int32, as a ``Ragged`` column has them. A length
        below 0 is a null key, whose partition is -1.
    out
        A writable buffer of as many int32. None: allocate one, as a memoryview.

    Raises ``ValueError`` for a key outside the data.
    """
    cdef HeldBytes keys = hold_bytes(data)
    cdef HeldColumn starts = hold_int64s(positions, "positions")
    cdef HeldColumn sizes = hold_int32s(lengths, "lengths")
    cdef HeldColumn hashes
    cdef Py_ssize_t stopped
    if partitions < 1:
        raise ValueError(f"partitions must be at least 1, not {partitions}")
    if out is None:
        out = memoryview(bytearray(4 * sizes.count)).cast("i")
    hashes = hold_writable_int32s(out, "out")
    if starts.count != sizes.count or hashes.count != sizes.count:
        raise ValueError("positions, lengths and out differ in length")
    with nogil:
        stopped = _hash_many(
            keys.data, keys.size, <const int64_t*>starts.data, <const int32_t*>sizes.data,
            sizes.count, partitions, <int32_t*>hashes.data,
        )
    if stopped < sizes.count:
        raise ValueError(f"the key of row {stopped} is outside the data")
    return out
