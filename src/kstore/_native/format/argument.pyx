"""What callers pass to kernels: keys, values and headers of records, and arrays.

An object of HeldBytes or HeldColumn holds a buffer until it is freed.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE,
    PyBuffer_FillInfo, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_CheckExact, PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from libc.stdint cimport INT32_MAX, uint8_t

from kstore._native.format.status cimport raise_named


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


# --- keys, values and headers of records ------------------------------------------------------


cdef int raise_not_bytes(str what, object value) except -1:
    """Raise the TypeError for a key, value or header (`what`) that is not bytes, with advice."""
    cdef str kind = type(value).__name__
    cdef str name = what.split()[-1]
    cdef str wanted = "str or bytes" if name == "name" else "bytes"
    advice = ""
    if isinstance(value, str):
        kind, advice = "str", f": encode it first, {name}.encode()"
    elif isinstance(value, int) and not isinstance(value, bool):
        advice = f": encode it first, b'%d' % {name}"
    elif hasattr(value, "tobytes"):         # an array, or a number of NumPy
        if getattr(value, "ndim", 1) == 0:
            advice = f": encode it first, str({name}).encode()"
        advice += f"{', or' if advice else ':'} pass its memory, {name}.tobytes()"
    elif isinstance(value, (bool, float)):
        advice = f": encode it first, str({name}).encode()"
    elif kind == "Record":
        advice = "; a Record or several: extend([record])"
    elif isinstance(value, tuple):
        advice = "; a pair (key, value): append(value, key=key), or several: extend(pairs)"
    elif isinstance(value, (dict, list)):
        advice = f": encode it first, json.dumps({name}).encode()"
    elif PyObject_CheckBuffer(value):
        advice = f": pass bytes({name})"
    raise TypeError(f"a {what} is {wanted}, not {kind}{advice}")


cdef bint _are_bytes(object source, const Py_buffer* view):
    """Whether a buffer is a row of bytes: no number or array, whose memory would be stored."""
    cdef const char* form = view.format
    if form != NULL and (form[0] == b"<" or form[0] == b"@" or form[0] == b"="):
        form += 1
    if view.ndim != 1 or view.itemsize != 1:
        return False
    if form != NULL and (form[1] != 0 or form[0] != b"B" and form[0] != b"b" and form[0] != b"c"):
        return False
    # NumPy's times are scalars, whose buffers look like rows of bytes.
    return isinstance(source, (bytearray, memoryview)) or getattr(source, "ndim", 1) == 1


cdef int get_data(object source, str what, Py_buffer* view) except -1:
    """Get the bytes of a bytes-like object; raises TypeError, with advice, for all others."""
    if PyBytes_Check(source):               # of a subclass too, whatever buffer that has
        PyBuffer_FillInfo(view, source, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source), 1,
                          PyBUF_SIMPLE)
    elif isinstance(source, str) or not PyObject_CheckBuffer(source):
        raise_not_bytes(what, source)
    else:
        try:
            PyObject_GetBuffer(source, view, PyBUF_ND | PyBUF_FORMAT)
        except BufferError as error:
            raise BufferError(f"{error}: pass bytes({what.split()[-1]})") from None
        except ValueError:                  # NumPy's arrays of times
            raise_not_bytes(what, source)
        if not _are_bytes(source, view):
            PyBuffer_Release(view)
            raise_not_bytes(what, source)
    if view.len > INT32_MAX:
        size = view.len
        PyBuffer_Release(view)
        raise_named("MessageTooLargeError", f"a {what} of {size} bytes is beyond 2147483647")
    return 0


cdef bytes data_to_bytes(object source, str what):
    cdef Py_buffer view
    if PyBytes_CheckExact(source):
        return <bytes>source
    get_data(source, what, &view)
    try:
        return PyBytes_FromStringAndSize(<char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef object header_items(object headers):
    """What to iterate over for the pairs of headers."""
    if isinstance(headers, (str, bytes)):
        raise TypeError("headers are a dict, or a sequence of (name, value) pairs")
    if not isinstance(headers, (tuple, list)) and hasattr(headers, "items"):
        return headers.items()
    try:
        return iter(headers)
    except TypeError:
        raise TypeError(
            "headers are a dict, or a sequence of (name, value) pairs, not "
            f"{type(headers).__name__}"
        ) from None


cdef tuple header_pair(object pair):
    """The name and the value of a header, which a row of Arrow's or Spark's has as a dict."""
    if isinstance(pair, dict) and pair.keys() == {"key", "value"}:
        return pair["key"], pair["value"]
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"a header is a pair (name, value), not {pair!r}")
    return tuple(pair)


cdef int raise_not_utf8(object name) except -1:
    """Raise the UnicodeEncodeError for the name of a header, which is a str."""
    try:
        (<str>name).encode()
    except UnicodeEncodeError as error:
        raise UnicodeEncodeError(
            error.encoding, error.object, error.start, error.end,
            f"{error.reason}, and a header's name is stored as UTF-8: pass text "
            "without them, or bytes"
        ) from None
    return 0
