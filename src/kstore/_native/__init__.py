"""Kernels: bytes in, numbers out. No I/O policy, no clock, no global state.

There is no pure-Python fallback. An extension that was not built is one clear error.
"""

from importlib.util import find_spec

if find_spec("kstore._native.checksum") is None:
    raise ImportError(
        "kstore's native kernels are not built. From a checkout run `make build` "
        "(needs a C compiler and Python's headers); otherwise reinstall the package."
    )
