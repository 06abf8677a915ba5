"""Contests of kstore's engine, beside their peers and ceilings; run by ``kstore.bench``.

Imports nothing: a measured process loads a module of this package and only what that needs.
"""
