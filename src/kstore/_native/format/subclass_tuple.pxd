"""Allocates a tuple of a subclass, whose items the caller fills in, without a call of the class."""

cdef extern from *:
    """
    static inline PyObject *kstore_new_subclass_tuple(PyObject *type, Py_ssize_t count) {
        PyObject *made = PyType_GenericAlloc((PyTypeObject *)type, count);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made != NULL)
            ((PyTupleObject *)made)->ob_hash = -1;  /* cached since 3.14; 0 is a hash */
    #endif
        return made;
    }
    """
    object new_subclass_tuple "kstore_new_subclass_tuple"(object type, Py_ssize_t count)
