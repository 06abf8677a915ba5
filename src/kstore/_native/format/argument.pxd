"""What callers pass to kernels: keys, values and headers of records, and arrays.

An object of HeldBytes or HeldColumn holds a buffer until it is freed.

Typed memoryviews would do the same, but cost four seconds of compile time in each module, and three
times the instructions in each call.
"""

from cpython.exc cimport PyErr_Clear
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "Python.h":
    PyObject* PyUnicode_AsUTF8String(object text)


cdef class HeldBytes:
    cdef Py_buffer view
    cdef uint8_t* data
    cdef Py_ssize_t size


cdef class HeldColumn:
    cdef Py_buffer view
    cdef uint8_t* data
    cdef Py_ssize_t count
    cdef Py_ssize_t stride      # bytes from one item to the next item


cdef int raise_not_bytes(str what, object value) except -1
cdef int get_data(object source, str what, Py_buffer* view) except -1
cdef bytes data_to_bytes(object source, str what)
cdef object header_items(object headers)
cdef tuple header_pair(object pair)
cdef int raise_not_utf8(object name) except -1


cdef inline bytes encode_header_name(object name):
    """The UTF-8 of a header's name, which is a str; without the cost of a `try`."""
    cdef PyObject* text = PyUnicode_AsUTF8String(name)
    if text == NULL:
        PyErr_Clear()
        raise_not_utf8(name)
    encoded = <bytes>text
    Py_DECREF(encoded)
    return encoded


cdef HeldBytes hold_bytes(object source)
cdef HeldBytes hold_writable_bytes(object source)

# One-dimensional and contiguous: data is an array. Read strided ones with the functions below.
cdef HeldColumn hold_int64s(object source, str name)
cdef HeldColumn hold_int32s(object source, str name)
cdef HeldColumn hold_writable_int64s(object source, str name)
cdef HeldColumn hold_writable_int32s(object source, str name)
cdef HeldColumn hold_strided_int64s(object source, str name)
cdef HeldColumn hold_strided_int32s(object source, str name)


# No bounds check: 0 <= row < count.

cdef inline int64_t int64_at(HeldColumn column, Py_ssize_t row) noexcept nogil:
    return (<const int64_t*>(column.data + row * column.stride))[0]


cdef inline int32_t int32_at(HeldColumn column, Py_ssize_t row) noexcept nogil:
    return (<const int32_t*>(column.data + row * column.stride))[0]
