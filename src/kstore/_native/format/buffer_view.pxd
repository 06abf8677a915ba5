"""Exports a column of native memory through the buffer protocol."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE


cdef inline void fill_view(
    Py_buffer* view,
    int flags,
    object owner,
    void* data,
    Py_ssize_t item_size,
    const char* form,
    Py_ssize_t count,
    Py_ssize_t* shape,
    Py_ssize_t* strides,
    Py_ssize_t stride,
) except *:
    """Fill view with a read-only column. The owner has its shape and strides."""
    if flags & PyBUF_WRITABLE:
        raise BufferError("this buffer is read-only")
    if stride != item_size and flags & PyBUF_STRIDES != PyBUF_STRIDES:
        raise BufferError("this buffer is strided: request strides")
    shape[0] = count
    strides[0] = stride
    view.buf = data if data != NULL else <void*>shape
    view.obj = owner
    view.len = count * item_size
    view.itemsize = item_size
    view.readonly = 1
    view.ndim = 1
    view.format = <char*>form if flags & PyBUF_FORMAT else NULL
    view.shape = shape if flags & PyBUF_ND else NULL
    view.strides = strides if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
    view.suboffsets = NULL
    view.internal = NULL
