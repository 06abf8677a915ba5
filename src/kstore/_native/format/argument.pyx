"""Buffers that callers pass to kernels: an object of these classes holds one until it is freed."""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport uint8_t


@cython.final
@cython.freelist(8)
cdef class HeldBytes:
    """Contiguous bytes of an object that exports a buffer."""

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


@cython.final
@cython.freelist(8)
cdef class HeldColumn:
    """A one-dimensional array of int64 or int32."""

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef HeldBytes _hold_bytes(object source, int flags):
    cdef HeldBytes held = HeldBytes.__new__(HeldBytes)
    PyObject_GetBuffer(source, &held.view, flags)
    held.data = <uint8_t*>held.view.buf
    held.size = held.view.len
    return held


cdef HeldBytes hold_bytes(object source):
    return _hold_bytes(source, PyBUF_SIMPLE)


cdef HeldBytes hold_writable_bytes(object source):
    return _hold_bytes(source, PyBUF_SIMPLE | PyBUF_WRITABLE)


cdef HeldColumn _hold_column(object source, str name, Py_ssize_t item_size, int flags):
    cdef HeldColumn held = HeldColumn.__new__(HeldColumn)
    cdef const char* form
    PyObject_GetBuffer(source, &held.view, flags | PyBUF_FORMAT)
    form = held.view.format
    if form != NULL and (form[0] == b"=" or form[0] == b"<" or form[0] == b"@"):
        form += 1
    if (
        held.view.ndim != 1 or held.view.itemsize != item_size or form == NULL or form[1] != 0
        or (form[0] != b"q" and form[0] != b"l" and form[0] != b"i")
    ):
        raise TypeError(f"{name} must be a one-dimensional array of int{item_size * 8}")
    held.data = <uint8_t*>held.view.buf
    held.count = held.view.len // item_size
    held.stride = item_size if held.view.strides == NULL else held.view.strides[0]
    return held


cdef HeldColumn hold_int64s(object source, str name):
    return _hold_column(source, name, 8, PyBUF_C_CONTIGUOUS)


cdef HeldColumn hold_int32s(object source, str name):
    return _hold_column(source, name, 4, PyBUF_C_CONTIGUOUS)


cdef HeldColumn hold_writable_int64s(object source, str name):
    return _hold_column(source, name, 8, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)


cdef HeldColumn hold_writable_int32s(object source, str name):
    return _hold_column(source, name, 4, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)


cdef HeldColumn hold_strided_int64s(object source, str name):
    return _hold_column(source, name, 8, PyBUF_STRIDES)


cdef HeldColumn hold_strided_int32s(object source, str name):
    return _hold_column(source, name, 4, PyBUF_STRIDES)
