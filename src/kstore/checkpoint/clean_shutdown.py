"""Reads and writes Kafka's marker of a clean shutdown, ``.kafka_cleanshutdown``.

``LogDir`` decides when.
"""

import os

from kstore.files.filenames import CLEAN_SHUTDOWN
from kstore.files.files import Files


def take_clean_shutdown(files: Files, directory: str | os.PathLike[str]) -> bytes | None:
    """Remove the marker of a clean shutdown, durably, and return its content; None: unclean.

    To be called before the first log of the directory is loaded for writing: a crash while
    loading must count as unclean. The content is Kafka's (from 3.7 a broker epoch), and
    :func:`write_clean_shutdown` writes it back unchanged.
    """
    content = read_clean_shutdown(files, directory)
    if content is not None:
        files.remove(os.path.join(directory, CLEAN_SHUTDOWN))
        files.sync_directory(directory)
    return content


def read_clean_shutdown(files: Files, directory: str | os.PathLike[str]) -> bytes | None:
    """The marker's content, without removing it; None where none exists."""
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    return files.read(path, limit=1 << 20) if files.exists(path) else None


def write_clean_shutdown(
    files: Files, directory: str | os.PathLike[str], content: bytes = b""
) -> None:
    """Mark every log of the directory as completely closed; the last write of a close."""
    files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN), content)
