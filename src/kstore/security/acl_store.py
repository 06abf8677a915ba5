"""``kstore.acls``: the access control lists of a broker, on disk and in its authorizer."""

import threading
from collections.abc import Callable, Iterable, Sequence

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.state_file import StateDocument, StateFile
from kstore.errors import InvalidRequestError
from kstore.files.filenames import ACLS
from kstore.security.acl import Acl, AclFilter, from_json, to_json
from kstore.security.authorizer import AclIndex, Authorizer

MOST_ACLS = 100_000
_FILE = StateFile(ACLS, newest_format=1, is_private=True)


class AclStore:
    """Stores ACLs. Changes block, and take effect once they are on disk. Thread safe."""

    def __init__(self, log_dirs: Sequence[LogDir], authorizer: Authorizer) -> None:
        """Read the newest file. Raises NewerFormatError, CorruptFileError."""
        self._log_dirs = log_dirs
        self._authorizer = authorizer
        self._lock = threading.Lock()
        self._generation, found = _FILE.read_newest(log_dirs, _parsed)
        authorizer.index = AclIndex(found or ())

    @property
    def acls(self) -> frozenset[Acl]:
        return self._authorizer.index.acls

    def create(self, acls: Iterable[Acl]) -> None:
        """Add ACLs atomically. Raises StorageError, and InvalidRequestError for too many ACLs."""
        self._change(lambda present: present | frozenset(acls))

    def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete the ACLs that match the filters; return those of each. Raises StorageError."""
        removed: list[list[Acl]] = []

        def change(present: frozenset[Acl]) -> frozenset[Acl]:
            removed.extend(sorted(filter(each.matches, present)) for each in filters)
            return present.difference(*removed)

        self._change(change)
        return removed

    def _change(self, change: Callable[[frozenset[Acl]], frozenset[Acl]]) -> None:
        with self._lock:
            present = self.acls
            changed = change(present)
            if changed == present:
                return
            if len(changed) > max(MOST_ACLS, len(present)):
                raise InvalidRequestError(f"There are at most {MOST_ACLS} ACLs.")
            content = {"acls": [to_json(each) for each in sorted(changed)]}
            _FILE.write(self._log_dirs, self._generation + 1, content)
            self._generation += 1
            self._authorizer.index = AclIndex(changed)


def _parsed(found: StateDocument) -> list[Acl]:
    return [from_json(each) for each in found.body["acls"]]
