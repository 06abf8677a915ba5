"""Work that a store does by itself: the thread that runs it, and where its failures go.

Modules:

- failures: Failures of the work that a store does by itself: where they go, and who hears of them
- scheduler: Background work of a store: flush.ms, retention and checkpoints, in one named thread
"""
