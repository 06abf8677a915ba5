"""Workloads of the benchmarks, so that an installed kstore can be measured on its own hardware.

Plain functions that make the data and do the work once; the faces (the table
of ratios) live outside the package, in ``benchmarks/``, with the peers they compare with.
"""
