"""Closes the object of a ``with`` block without hiding an error of the block itself."""

from collections.abc import Callable

from kstore.client.delivery import run_in_thread


def close_block(error: BaseException | None, close: Callable[[], None]) -> None:
    """Close at the end of a block; if the block failed, its error is the one that is raised.

    An error of ``close`` is then added to it as a note: a second exception would hide the first,
    and a program that ends with both prints two tracebacks.
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
    """Add the failure to the block's error; raise it if there is none, or it is the same error."""
    if error is None or error is failure:
        raise failure
    error.add_note(f"closing failed too: {type(failure).__name__}: {failure}")
