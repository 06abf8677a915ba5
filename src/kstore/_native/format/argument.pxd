"""Arguments of kernels: bytes and columns of numbers, held as long as an object of this lives.

Typed memoryviews would do the same, but cost each module four seconds of a C compiler's time and
each call three times the instructions.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class HeldBytes:
    cdef Py_buffer view
    cdef uint8_t* data
    cdef Py_ssize_t size


cdef class HeldColumn:
    cdef Py_buffer view
    cdef uint8_t* data
    cdef Py_ssize_t count
    cdef Py_ssize_t stride      # bytes from one item to the next


cdef HeldBytes hold_bytes(object source)
cdef HeldBytes hold_writable_bytes(object source)

# One-dimensional, contiguous: data is an array. The strided ones are read by the functions below.
cdef HeldColumn hold_int64s(object source, str name)
cdef HeldColumn hold_int32s(object source, str name)
cdef HeldColumn hold_writable_int64s(object source, str name)
cdef HeldColumn hold_writable_int32s(object source, str name)
cdef HeldColumn hold_strided_int64s(object source, str name)
cdef HeldColumn hold_strided_int32s(object source, str name)


# Not checked: the caller keeps row within 0 and count.

cdef inline int64_t int64_at(HeldColumn column, Py_ssize_t row) noexcept nogil:
    return (<const int64_t*>(column.data + row * column.stride))[0]


cdef inline int32_t int32_at(HeldColumn column, Py_ssize_t row) noexcept nogil:
    return (<const int32_t*>(column.data + row * column.stride))[0]
