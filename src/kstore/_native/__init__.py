"""Kernels: they parse, validate, encode and append. No file is opened here.

There is no pure-Python fallback. An extension that was not built is one clear error. A folder's
``.pxd`` files are what other folders may cimport from it.

Modules:

- append: encodes, validates and writes batches at the end of a log
- bench: loops in C that the benchmarks divide by
- broker: the most frequent requests and their answers
- compaction: the two passes of the log cleaner
- files: system calls on open files
- format: batches, records, checksums: bounded reads and writes
- index: offset index and time index files
- jit: loops for Numba
- read: finds bytes by offset and time, decodes them
- record: ``Record`` under the name that earlier pickles have
- recovery: checks of segments
- spark: Arrow's columns to batches, statistics of columns
"""

from importlib.util import find_spec

if find_spec("kstore._native.format.crc") is None:
    raise ImportError(
        "kstore's native kernels are not built. From a checkout run `make build` "
        "(needs a C compiler and Python's headers); otherwise reinstall the package."
    )
