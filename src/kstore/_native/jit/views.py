"""The bytes of one record in a compiled loop: views without a copy or reference count."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import NDArray

from kstore._native.jit.cache import compiled
from kstore._native.jit.symbols import bytes_array

Bytes = NDArray[np.uint8]


@intrinsic
def _borrowed(typingctx: Any, data: Any, position: Any, length: Any) -> Any:
    """A read-only array over a range of another, without a reference to it."""
    if not bytes_array(data):
        raise TypingError(f"the data must be a contiguous uint8 array, not {data}")
    result = types.Array(types.uint8, 1, "C", readonly=True)
    signature = result(data, types.int64, types.int64)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        part = context.make_array(result)(context, builder)
        one = ir.Constant(ir.IntType(64), 1)
        context.populate_array(
            part,
            data=cgutils.pointer_add(builder, array.data, values[1]),
            shape=[values[2]],
            strides=[one],
            itemsize=one,
            meminfo=None,
        )
        return part._getvalue()

    return signature, code


@compiled
def part(data: Bytes, position: int, length: int) -> Any:
    """``data[position:position + length]`` as a read-only array that borrows ``data``.

    A slice would change a reference count for every record. This view does not, so it must not
    outlive ``data``: use it only in the loop. A length below 0 (null) gives an empty view;
    ``IndexError`` for a range outside ``data``.
    """
    if length <= 0:
        return _borrowed(data, 0, 0)
    if position < 0 or position > data.size - length:
        raise IndexError("a key or value is outside the data")
    return _borrowed(data, position, length)


@compiled
def equals(some: Bytes, wanted: bytes) -> Any:
    """Whether a view has the bytes of a ``bytes`` literal (or another view)."""
    if len(some) != len(wanted):
        return False
    for n in range(len(wanted)):  # noqa: SIM110 - a generator would not compile
        if some[n] != wanted[n]:
            return False
    return True


@compiled
def starts_with(some: Bytes, wanted: bytes) -> Any:
    """Whether a view starts with ``wanted``."""
    if len(some) < len(wanted):
        return False
    for n in range(len(wanted)):  # noqa: SIM110
        if some[n] != wanted[n]:
            return False
    return True


@compiled
def contains(some: Bytes, wanted: bytes) -> Any:
    """Whether a view contains ``wanted``."""
    size = len(wanted)
    if size == 0:
        return True
    for start in range(len(some) - size + 1):
        if some[start] == wanted[0]:
            n = 1
            while n < size and some[start + n] == wanted[n]:
                n += 1
            if n == size:
                return True
    return False
