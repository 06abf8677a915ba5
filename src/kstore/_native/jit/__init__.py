"""Compiled loops over mapped files and columns; importing this imports numba.

Everything here may be called from Python and from inside a ``numba.njit`` function. The frame,
index, record, hash and checksum functions are the Cython kernels themselves, called by symbol.
They hold no state and may run in any number of threads; none needs the GIL.

Modules:

- aggregate: windows, groups and the largest, in one pass over columns
- cache: machine code of predicates, kept across processes
- kernel_addresses: the C entries of the kernels, by symbol
- kernels: index search, batch walk, checksum and records inside compiled loops
- select: which rows to keep: a range, or a user's predicate
- symbols: registers the kernels with LLVM and calls them by symbol
- views: bytes of one record, without a copy
"""

from kstore._native.jit.aggregate import (
    Groups,
    Windows,
    group_by_key,
    sum_by_group,
    top_k,
    tumbling,
)
from kstore._native.jit.kernels import (
    Frame,
    FrameRecord,
    crc32c,
    crc_ok,
    index_count,
    index_lookup,
    key_hash,
    next_frame,
    next_record,
    time_index_count,
    time_lookup,
)
from kstore._native.jit.select import Predicate, Row, compile_predicate, rows_between
from kstore._native.jit.views import contains, equals, part, starts_with

__all__ = [
    "Frame",
    "FrameRecord",
    "Groups",
    "Predicate",
    "Row",
    "Windows",
    "compile_predicate",
    "contains",
    "crc32c",
    "crc_ok",
    "equals",
    "group_by_key",
    "index_count",
    "index_lookup",
    "key_hash",
    "next_frame",
    "next_record",
    "part",
    "rows_between",
    "starts_with",
    "sum_by_group",
    "time_index_count",
    "time_lookup",
    "top_k",
    "tumbling",
]
