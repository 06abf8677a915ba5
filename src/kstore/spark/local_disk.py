"""The disk of a process that Spark starts: the planner, a stream's process, a worker.

Spark calls these with options or a task, never with an object of the driver's. All other functions
of ``kstore.spark`` take ``files`` from their caller.
"""

from kstore.partition_files import DISK, Files


def local_disk() -> Files:
    """The disk of this process. Thread safe."""
    return DISK
