"""Answers of an append: a NamedTuple made in native code, without a call of its constructor."""

from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int64_t

cdef extern from "Python.h":
    ctypedef struct TypeObject "PyTypeObject":
        PyObject* (*tp_alloc)(TypeObject*, Py_ssize_t)
    void PyTuple_SET_ITEM(PyObject* made, Py_ssize_t slot, PyObject* owned)
    PyObject* PyLong_FromLongLong(long long number) except NULL


cdef inline object new_info(
    object kind, int64_t first, int64_t last, int64_t max_timestamp, int64_t size
):
    """A tuple of the given kind, which is a NamedTuple of four numbers."""
    cdef TypeObject* made_of = <TypeObject*>kind
    cdef PyObject* made = made_of.tp_alloc(made_of, 4)
    if made == NULL:
        raise MemoryError
    out = <object>made
    Py_DECREF(out)          # out holds one reference of its own; tp_alloc's goes
    PyTuple_SET_ITEM(made, 0, PyLong_FromLongLong(first))
    PyTuple_SET_ITEM(made, 1, PyLong_FromLongLong(last))
    PyTuple_SET_ITEM(made, 2, PyLong_FromLongLong(max_timestamp))
    PyTuple_SET_ITEM(made, 3, PyLong_FromLongLong(size))
    return out
