"""``kstore.credentials``: the SCRAM credentials of a broker's users.

The file is JSON with a format version, and readable only by its owner::

    {"format": 1, "generation": 3, "unknown_users": "<base64>",
     "users": {"alice": {"SCRAM-SHA-256": {"iterations": 8192, "salt": "<base64>",
                                           "stored_key": "<base64>", "server_key": "<base64>"}}}}

It contains no passwords, only keys that verify them. ``unknown_users`` is a random secret from
which salts for nonexistent users are derived. Every log directory of a store has the same file; the
one with the highest ``generation`` is used, as for ``kstore.broker``.
"""

import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.state_file import StateDocument, StateFile
from kstore.files.filenames import CREDENTIALS

if TYPE_CHECKING:
    from kstore.security.scram import ScramCredential

_FILE = StateFile(CREDENTIALS, newest_format=1, is_private=True)
_SALT_SIZE = 16
_SECRET_SIZE = 32

Users = Mapping[str, Mapping[str, "ScramCredential"]]  # by name, then by mechanism
Change = tuple[str, str, "ScramCredential | None"]  # user, mechanism; None: removed


class Credentials:
    """The SCRAM credentials of a broker's users. Thread safe; ``alter`` blocks on the disk."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        """Read the newest file of the online directories.

        Raises NewerFormatError for a file of a newer kstore, CorruptFileError for an invalid file.
        """
        self._log_dirs = log_dirs
        self._lock = threading.Lock()  # of changes
        self._generation, found = _FILE.read_newest(log_dirs, _parsed)
        self._secret, self._users = found or (os.urandom(_SECRET_SIZE), {})

    @property
    def users(self) -> Users:
        """All users; a change replaces this mapping and never modifies it."""
        return self._users

    def find(self, mechanism: str, user: str) -> "ScramCredential":
        """The credential of a user; for a user without one, a credential that no password
        matches."""
        found = self._users.get(user, {}).get(mechanism)
        return found or self._unknown(mechanism, user)

    def _unknown(self, mechanism: str, user: str) -> "ScramCredential":
        """A fake credential for an unknown user: always the same salt, with usual iterations."""
        import hmac

        from kstore.security.scram import HASHES, LEAST_ITERATIONS, ScramCredential

        salt = hmac.digest(self._secret, f"{mechanism} {user}".encode(), "sha256")[:_SALT_SIZE]
        others = (each[mechanism] for each in self._users.values() if mechanism in each)
        known = next(others, None)
        size = 64 if HASHES[mechanism] == "sha512" else 32
        return ScramCredential(
            salt if known is None else _of_size(salt, len(known.salt), self._secret),
            os.urandom(size),
            os.urandom(size),
            LEAST_ITERATIONS if known is None else known.iterations,
        )

    def alter(self, changes: Iterable[Change]) -> None:
        """Apply changes atomically. Raises StorageError if all directories fail."""
        with self._lock:
            users = {name: dict(each) for name, each in self._users.items()}
            for user, mechanism, credential in changes:
                if credential is not None:
                    users.setdefault(user, {})[mechanism] = credential
                elif user in users:
                    users[user].pop(mechanism, None)
            users = {name: each for name, each in users.items() if each}
            generation = self._generation + 1
            _FILE.write(self._log_dirs, generation, _to_json(self._secret, users))
            self._generation, self._users = generation, users


def _of_size(salt: bytes, size: int, secret: bytes) -> bytes:
    """A salt as long as those that Kafka's tools generate."""
    import hmac

    while len(salt) < size:
        salt += hmac.digest(secret, salt, "sha256")
    return salt[:size]


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _to_json(secret: bytes, users: Users) -> dict[str, Any]:
    return {
        "unknown_users": _text(secret),
        "users": {
            name: {
                mechanism: {
                    "iterations": each.iterations,
                    "salt": _text(each.salt),
                    "stored_key": _text(each.stored_key),
                    "server_key": _text(each.server_key),
                }
                for mechanism, each in credentials.items()
            }
            for name, credentials in users.items()
        },
    }


def _parsed(found: StateDocument) -> tuple[bytes, Users]:
    users = {
        name: {mechanism: _credential(mechanism, each) for mechanism, each in entries.items()}
        for name, entries in found.body["users"].items()
    }
    return b64decode(found.body["unknown_users"], validate=True), users


def _credential(mechanism: str, body: Mapping[str, Any]) -> "ScramCredential":
    from kstore.security.scram import HASHES, ScramCredential

    iterations = body["iterations"]
    if mechanism not in HASHES or not isinstance(iterations, int) or iterations < 1:
        raise ValueError
    salt, stored, server = (
        b64decode(body[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    return ScramCredential(salt, stored, server, iterations)
