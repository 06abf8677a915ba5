"""Lets compiled code call the Cython kernels by symbol.

Numba cannot cache a function that contains an address; a symbol is resolved when cached code is
loaded. The import of this module registers the symbols; every caller imports it.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kstore._native.jit.kernel_addresses import addresses

for _name, _address in addresses().items():
    binding.add_symbol(_name, _address)

INT64 = ir.IntType(64)


def bytes_array(kind: types.Type) -> bool:
    """Whether a Numba type is a contiguous one-dimensional uint8 array."""
    return (
        isinstance(kind, types.Array)
        and kind.ndim == 1
        and kind.layout == "C"
        and kind.dtype == types.uint8
    )


def _declared(symbol: str, arguments: int, outputs: int) -> Callable[..., Any]:
    """Numba signature and code of one symbol; see ``kernel``."""
    width = outputs + 1

    def type_call(data: types.Type, *numbers: types.Type) -> Any:
        if not bytes_array(data):
            raise TypingError(f"the data must be a contiguous uint8 array, not {data}")
        if not all(isinstance(number, types.Integer) for number in numbers):
            raise TypingError("positions, counts, offsets and timestamps are integers")
        result = types.UniTuple(types.int64, width) if outputs else types.int64
        signature = result(data, *(types.int64,) * arguments)

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, values[0])
            passed = [array.data, array.nitems, *values[1:]]
            if not outputs:
                kind = ir.FunctionType(INT64, [value.type for value in passed])
                function = cgutils.get_or_insert_function(builder.module, kind, symbol)
                return builder.call(function, passed)
            fields = cgutils.alloca_once(builder, ir.ArrayType(INT64, outputs))
            pointers = [cgutils.gep_inbounds(builder, fields, 0, n) for n in range(outputs)]
            passed.append(pointers[0])
            kind = ir.FunctionType(INT64, [value.type for value in passed])
            function = cgutils.get_or_insert_function(builder.module, kind, symbol)
            status = builder.call(function, passed)
            loaded = [status, *(builder.load(pointer) for pointer in pointers)]
            return context.make_tuple(builder, signature.return_type, loaded)

        return signature, code

    return type_call


def kernel(symbol: str, arguments: int, outputs: int = 0) -> Any:
    """A function for compiled code that calls one kernel.

    The kernel takes the data pointer and size of a uint8 array, then ``arguments`` int64, and
    returns an int64. With ``outputs``, it also writes as many int64, and the function returns a
    tuple of the return value and the outputs. This code, not the caller, passes the array's
    size, so that a kernel can check its bounds.
    """
    type_call = _declared(symbol, arguments, outputs)
    if arguments == 0:
        return intrinsic(lambda context, data: type_call(data))
    if arguments == 1:
        return intrinsic(lambda context, data, a: type_call(data, a))
    if arguments == 2:
        return intrinsic(lambda context, data, a, b: type_call(data, a, b))
    if arguments == 3:
        return intrinsic(lambda context, data, a, b, c: type_call(data, a, b, c))
    return intrinsic(lambda context, data, a, b, c, d: type_call(data, a, b, c, d))
