"""Contests of the engine: each module's ``contests()`` makes them, in the temporary directory.

Their peers are optional (``kstore.bench.peers``); sizes are those of a full run, scaled down.
"""
