"""System features that some tests need and a chroot or container may lack.

If one is missing, the test is skipped with a message that says what to mount; in CI (``CI=true``)
and with ``KSTORE_SYSTEM=require`` it fails instead.
"""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext


def unavailable(reason: str) -> None:
    """Fail if a complete system is required, otherwise skip with the reason."""
    import pytest

    if os.environ.get("CI") == "true" or os.environ.get("KSTORE_SYSTEM") == "require":
        pytest.fail(f"system: {reason}", pytrace=False)
    pytest.skip(reason)


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a new terminal, open until the block ends."""
    try:
        ends = os.openpty()
    except OSError as error:
        unavailable(f"no pseudo-terminals: mount devpts on /dev/pts ({error.strerror})")
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def processes(method: str) -> BaseContext:
    """Start processes by this method, with queues and events between them."""
    context = multiprocessing.get_context(method)
    try:
        context.Lock()
    except OSError as error:
        unavailable(f"no semaphores of processes: mount tmpfs on /dev/shm ({error.strerror})")
    return context
