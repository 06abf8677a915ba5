"""Background work of a store: the thread that runs it, and the reports of its failures.

Modules:

- failures: Reports failures of background work to the log, a callback and ``Store``
- scheduler: Runs the periodic tasks of a store in one thread
"""
