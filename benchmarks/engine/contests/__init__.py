"""Contests of the engine: each module's ``contests()`` makes them in the temporary directory.

Sizes are those of a full run, multiplied by ``kstore.bench.contest.scaled``.
"""
