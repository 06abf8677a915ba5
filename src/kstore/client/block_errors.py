"""Closes the object of a ``with`` block without hiding an error of the block itself."""

import logging
from collections.abc import Callable

from kstore.client.delivery import run_in_thread

_LOGGER = logging.getLogger("kstore")


def close_block(error: BaseException | None, close: Callable[[], None]) -> None:
    """Close at the end of a block; if the block failed, its error is the one that is raised.

    An error of ``close`` is then logged and added to it as a note: a second exception would hide
    the first, and a program that ends with both prints two tracebacks. SystemExit, GeneratorExit
    and a cancellation are no errors, and their notes are not printed: then the error of ``close``
    is raised.
    """
    try:
        close()
    except Exception as failure:
        _note(error, failure)


async def close_block_in_thread(error: BaseException | None, close: Callable[[], None]) -> None:
    """As :func:`close_block`, without blocking the event loop."""
    try:
        await run_in_thread(close)
    except Exception as failure:
        _note(error, failure)


def _note(error: BaseException | None, failure: Exception) -> None:
    """Log an error of closing and note it on the block's error; raise it if there is no other."""
    if not isinstance(error, Exception) or error is failure:
        raise failure
    note = f"closing failed too: {type(failure).__name__}: {failure}"
    _LOGGER.error("%s", note)  # the program may catch the block's error, and not look at its notes
    error.add_note(note)
