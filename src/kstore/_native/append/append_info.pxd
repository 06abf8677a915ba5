"""Creates the result of an append, a NamedTuple, without a call of its constructor."""

from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int64_t

cdef extern from "Python.h":
    ctypedef struct TypeObject "PyTypeObject":
        PyObject* (*tp_alloc)(TypeObject*, Py_ssize_t)
    void PyTuple_SET_ITEM(PyObject* info, Py_ssize_t slot, PyObject* owned)
    PyObject* PyLong_FromLongLong(long long number) except NULL


cdef inline object new_info(
    object kind, int64_t first, int64_t last, int64_t max_timestamp, int64_t size
):
    """Create an instance of kind, a NamedTuple of four numbers."""
    cdef TypeObject* tuple_type = <TypeObject*>kind
    cdef PyObject* info = tuple_type.tp_alloc(tuple_type, 4)
    if info == NULL:
        raise MemoryError
    out = <object>info
    Py_DECREF(out)          # the cast took a second reference
    PyTuple_SET_ITEM(info, 0, PyLong_FromLongLong(first))
    PyTuple_SET_ITEM(info, 1, PyLong_FromLongLong(last))
    PyTuple_SET_ITEM(info, 2, PyLong_FromLongLong(max_timestamp))
    PyTuple_SET_ITEM(info, 3, PyLong_FromLongLong(size))
    return out
