"""``kstore.listeners``: the addresses of the broker that serves a log directory now.

For tools that find the directory locked. The broker locks the file while it serves, so the file
that a killed broker leaves names nothing, whichever process has the directory next::

    {"format": 1, "listeners": [
      {"name": "PLAINTEXT", "protocol": "PLAINTEXT", "address": "127.0.0.1:9092"}]}
"""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from os.path import join
from typing import NamedTuple

from kstore.errors import KStoreError, StorageError
from kstore.files.file_lock import Lock
from kstore.files.filenames import LISTENERS, TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile

FORMAT = 1
_MAX_SIZE = 1 << 20
_PLAINTEXT = "PLAINTEXT"

_LOGGER = logging.getLogger("kstore")


class BrokerAddress(NamedTuple):
    """A listener of a broker: the address that it gives to clients, and its protocol."""

    name: str
    protocol: str
    address: str

    @property
    def is_plaintext(self) -> bool:
        """Whether a client needs no settings of security."""
        return self.protocol == _PLAINTEXT


class BrokerAddressFiles:
    """The files of one broker, one in each log directory. All methods block."""

    def __init__(self) -> None:
        self._files: list[tuple[Files, str, Lock]] = []

    def write(
        self, directories: Sequence[tuple[Files, str]], listeners: Sequence[BrokerAddress]
    ) -> None:
        """Show the listeners in these directories; a failure is only logged."""
        document = {"format": FORMAT, "listeners": [each._asdict() for each in listeners]}
        content = json.dumps(document, indent=1).encode() + b"\n"
        for files, directory in directories:
            path = join(directory, LISTENERS)
            try:
                self._files.append((files, path, _write_locked(files, path, content)))
            except KStoreError as error:  # a full disk: the broker serves nevertheless
                _LOGGER.warning("%s does not show the broker's listeners: %s", path, error)

    def remove(self) -> None:
        """Remove the files; a failure is only logged, since the lock ends in any case."""
        shown, self._files = self._files, []
        for files, path, lock in shown:
            try:
                files.remove(path)
            except StorageError as error:
                _LOGGER.warning("%s stays, without effect: %s", path, error)
            finally:
                lock.release()

    def abandon(self) -> None:
        """In a forked child: close its copies of the locks; the parent's stay."""
        for _, _, lock in self._files:
            lock.release()


def _write_locked(files: Files, path: str, content: bytes) -> Lock:
    """Replace the file by one that is locked before it has the name. Not synced: a restart of the
    machine ends the broker, too."""
    temporary = path + TEMPORARY_SUFFIX
    with OpenFile(files, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        files.write(fd, content)
    lock = files.lock(temporary)
    try:
        files.rename(temporary, path)
    except BaseException:
        lock.release()
        raise
    return lock


def read_broker_addresses(files: Files, directory: str) -> tuple[BrokerAddress, ...]:
    """The listeners of the broker that serves a log directory now, plaintext ones first.

    Empty without such a broker, and for a file that cannot be read or does not parse.
    """
    path = join(directory, LISTENERS)
    with suppress(KStoreError, KeyError, TypeError, ValueError, RecursionError):
        if not files.probe(path):
            return ()  # none, or of a killed broker
        document = json.loads(files.read(path, _MAX_SIZE))
        if document["format"] == FORMAT:
            found = [
                BrokerAddress(str(each["name"]), str(each["protocol"]), str(each["address"]))
                for each in document["listeners"]
            ]
            return tuple(sorted(found, key=lambda each: not each.is_plaintext))
    return ()
