"""What ``kstore bench`` measures of a machine, and the runner of contests.

- ``contest``, ``workload``: ways to do the same work, and named sets of them
- ``suite``, ``runner``: a complete run, and rounds, estimates, environment
- ``machine``: the disk, memory, the page cache, sockets
- ``report``: results as JSON, text and HTML, and what changed between two runs

The contests of the engine use the same runner; they are in a checkout, in ``benchmarks/engine``.
How often a comparison errs, by A/A pairs and planted slowdowns:
``benchmarks/compare_false_alarms.py``, also there.
"""
