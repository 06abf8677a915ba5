"""Kernels that are a few system calls."""

import os

from counted.kernels import Prepared
from counted.operation import Workspace, operation
from kstore._native.files.inotify import drain, end_watch, open_inotify, watch_directory
from kstore._native.files.sync_together import fdatasync_each


@operation("sync a file, as one of many", rounds=20)
def sync_one(workspace: Workspace) -> Prepared:
    """One file, so that its thread is the caller's: the counter follows one thread."""
    fd = os.open(workspace.directory / "synced", os.O_RDWR | os.O_CREAT)
    workspace.stack.callback(os.close, fd)
    return lambda: fdatasync_each([fd]), [0]


@operation("watch a directory for a change", rounds=20)
def watch_one(workspace: Workspace) -> Prepared:
    fd = open_inotify()
    workspace.stack.callback(os.close, fd)
    folder = os.fsencode(workspace.directory)
    file = os.open(workspace.directory / "watched", os.O_RDWR | os.O_CREAT)
    workspace.stack.callback(os.close, file)

    def watch() -> tuple[bool, bool, bool]:
        number = watch_directory(fd, folder)
        before = drain(fd)
        os.write(file, b"x")
        after = drain(fd)
        end_watch(fd, number)
        return before, after, drain(fd)

    return watch, (False, True, True)
