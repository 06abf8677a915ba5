"""Compiled loops over mapped files and columns; importing this imports numba.

Call these functions from Python or from a ``numba.njit`` function. The frame, index, record, hash
and checksum functions call the Cython kernels by symbol. All are stateless, thread safe, and run
without the GIL.

Modules:

- aggregate: time windows, groups and top-k, in one pass over columns
- cache: caches machine code of predicates across processes
- check_predicate: explains predicates that treat a row's key or value as Python's bytes
- kernel_addresses: addresses of the kernels' C functions, by symbol
- kernels: index search, batch walk, checksum and records for compiled loops
- predicate: selects rows by a range or a user's predicate
- refused_type: explains a type of argument that compiled functions do not take
- symbols: registers the kernels' symbols with LLVM
- views: the bytes of one record, without a copy
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
from kstore._native.jit.predicate import Predicate, Row, compile_predicate, rows_between
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
