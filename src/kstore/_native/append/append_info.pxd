"""Creates the result of an append, a NamedTuple, without a call of its constructor."""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from kstore._native.format.subclass_tuple cimport new_subclass_tuple

cdef extern from "Python.h":
    void PyTuple_SET_ITEM(object info, Py_ssize_t slot, PyObject* owned)
    PyObject* PyLong_FromLongLong(long long number) except NULL


cdef inline object new_info(
    object kind, int64_t first, int64_t last, int64_t max_timestamp, int64_t size
):
    """Create an instance of kind, a NamedTuple of four numbers."""
    out = new_subclass_tuple(kind, 4)
    PyTuple_SET_ITEM(out, 0, PyLong_FromLongLong(first))
    PyTuple_SET_ITEM(out, 1, PyLong_FromLongLong(last))
    PyTuple_SET_ITEM(out, 2, PyLong_FromLongLong(max_timestamp))
    PyTuple_SET_ITEM(out, 3, PyLong_FromLongLong(size))
    return out
