"""The end of a ``with`` block whose object does not close without an error."""

from collections.abc import Callable

from kstore.client.delivery import run_in_thread


def close_block(error: BaseException | None, close: Callable[[], None]) -> None:
    """Close at the end of a block; after an error in the block, that error stays the one raised.

    What ``close`` raises then is a note of it: a second error would hide the first, and a program
    that ends with both prints two tracebacks.
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
    """Add the failure to the block's error; raise it again where that is the same or none."""
    if error is None or error is failure:
        raise failure
    error.add_note(f"closing failed too: {type(failure).__name__}: {failure}")
