"""CRC-32C (record batch v2) and CRC-32 (message v0 and v1), by the fastest path for this CPU.

The import chooses a path; ``KSTORE_CPU=table|sse42|pclmul|avx2|avx512`` forces one.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport getenv

cdef extern from "format/crc.h" nogil:
    ctypedef uint32_t (*crc_function)(uint32_t seed, const uint8_t* data, size_t size) noexcept
    enum:
        CRC_TABLE
        CRC_PATHS
    void crc_fill() noexcept
    bint crc_supported(int path) noexcept
    crc_function crc32c_of(int path) noexcept
    crc_function crc32_of(int path) noexcept

# From this size, a call takes long enough (about a microsecond on the fastest path) to justify the
# cost of releasing and reacquiring the GIL (about 40 ns).
cdef enum:
    RELEASE_GIL_FROM = 131072

cdef tuple _NAMES = ("table", "sse42", "pclmul", "avx2", "avx512")
cdef int _path
cdef crc_function _crc32c
cdef crc_function _crc32


cdef int _path_number(object name) except -1:
    """The number of a path by name; ValueError if it is unknown or unsupported."""
    if name not in _NAMES:
        raise ValueError(f"unknown path {name!r}; known are: {', '.join(_NAMES)}")
    cdef int number = _NAMES.index(name)
    if not crc_supported(number):
        raise ValueError(
            f"this CPU has no path {name!r}; it has: {', '.join(supported_paths())}"
        )
    return number


def supported_paths():
    return tuple([_NAMES[n] for n in range(CRC_PATHS) if crc_supported(n)])


cdef int _choose() except -1:
    cdef int number
    cdef const char* forced = getenv("KSTORE_CPU")
    if forced != NULL and forced[0] != 0:
        try:
            return _path_number(forced.decode("utf-8", "replace"))
        except ValueError as error:
            raise ImportError(f"environment variable KSTORE_CPU: {error}") from None
    for number in range(CRC_PATHS - 1, CRC_TABLE, -1):
        if crc_supported(number):
            return number
    return CRC_TABLE


crc_fill()
_path = _choose()
_crc32c = crc32c_of(_path)
_crc32 = crc32_of(_path)


cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return _crc32c(seed, data, size)


cdef uint32_t crc32(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return _crc32(seed, data, size)


cdef object _of_buffer(crc_function function, object buffer, uint32_t seed):
    cdef Py_buffer view
    cdef uint32_t value
    if PyBytes_CheckExact(buffer) and PyBytes_GET_SIZE(buffer) < RELEASE_GIL_FROM:
        return function(
            seed, <const uint8_t*>PyBytes_AS_STRING(buffer), PyBytes_GET_SIZE(buffer)
        )
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    if view.len < RELEASE_GIL_FROM:
        value = function(seed, <const uint8_t*>view.buf, view.len)
    else:
        with nogil:
            value = function(seed, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def _python_crc32c(object buffer, uint32_t seed=0):
    return _of_buffer(_crc32c, buffer, seed)


def _python_crc32(object buffer, uint32_t seed=0):
    return _of_buffer(_crc32, buffer, seed)


def crc32c_by(object path, object buffer, uint32_t seed=0):
    return _of_buffer(crc32c_of(_path_number(path)), buffer, seed)


def crc32_by(object path, object buffer, uint32_t seed=0):
    return _of_buffer(crc32_of(_path_number(path)), buffer, seed)


def cpu_path():
    return _NAMES[_path]


# The cdef functions have the public names, for cimport; define the Python functions of that name.
for _name, _function in (("crc32c", _python_crc32c), ("crc32", _python_crc32)):
    _function.__name__ = _function.__qualname__ = _name
    globals()[_name] = _function
del _name, _function
