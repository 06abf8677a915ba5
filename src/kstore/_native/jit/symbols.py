"""How compiled code reaches the Cython kernels: by symbol, not by address.

An address compiled into a function would forbid caching it; a symbol is looked up when cached
code is loaded. So the symbols are registered on import of this module, which everything that calls
them has done.
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

    def answer(data: types.Type, *numbers: types.Type) -> Any:
        if not bytes_array(data):
            raise TypingError(f"a contiguous array of uint8 is needed, not {data}")
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

    return answer


def kernel(symbol: str, arguments: int, outputs: int = 0) -> Any:
    """A function for compiled code that calls one kernel.

    The kernel takes the data pointer and size of a uint8 array, then ``arguments`` int64. It
    returns an int64; where it has ``outputs``, it also fills as many int64, and the function
    returns them all in one tuple, the returned one first. The array's size is passed by this
    code and not by the caller, so that a kernel always knows where its bytes end.
    """
    answer = _declared(symbol, arguments, outputs)
    if arguments == 0:
        return intrinsic(lambda context, data: answer(data))
    if arguments == 1:
        return intrinsic(lambda context, data, a: answer(data, a))
    if arguments == 2:
        return intrinsic(lambda context, data, a, b: answer(data, a, b))
    if arguments == 3:
        return intrinsic(lambda context, data, a, b, c: answer(data, a, b, c))
    return intrinsic(lambda context, data, a, b, c, d: answer(data, a, b, c, d))
