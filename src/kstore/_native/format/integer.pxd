"""Bounds checks of integer arguments."""

from libc.stdint cimport int64_t

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) noexcept


cdef inline int64_t integer_of(
    str name, value, int64_t low, int64_t high
) except? -1:
    """As kstore.integers.check_integer, which raises for values out of bounds and non-integers."""
    cdef int overflow = 0
    cdef int64_t number
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and low <= number <= high:
            return number
    from kstore.integers import check_integer
    return check_integer(name, value, low, high)


cdef inline int64_t int64_of(value) except? -1:
    """The value of an int; TypeError for other types, OverflowError beyond 64 bits."""
    if type(value) is not int:
        raise TypeError("not an int")
    return value
