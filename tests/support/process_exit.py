"""The handler that closes open stores at the exit of a process, called in one that continues."""

import threading

import pytest

from kstore.files import process_lifetime


def close_as_at_exit() -> None:
    """Close all that is open; what is opened afterwards is not of a process that ends."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process_lifetime, "_EXITING", threading.Event())
        process_lifetime._close_all()
