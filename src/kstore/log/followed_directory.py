"""The directory of a partition that its owner, another process, may move or delete."""

from collections.abc import Callable

from kstore.checkpoint.partition_metadata import read_topic_id
from kstore.errors import StorageError, UnknownTopicIdError
from kstore.files.files import Files
from kstore.files.stable_listing import list_stable

_MOVES = 10  # followed before an error is raised


class FollowedDirectory:
    """The current path of a partition's directory. Used under its reader's lock."""

    def __init__(self, path: str, files: Files, find_directory: Callable[[], str] | None) -> None:
        """``find_directory``: returns the path after a move; called where the directory is gone."""
        self.path = path
        self.topic_id: str | None = None  # the topic's, where it has one
        self._files = files
        self._find_directory = find_directory
        self._inode = -1  # -1 where it has moved since
        self._is_known = False  # the directory was read before

    def stamp(self) -> tuple[int, int]:
        """The directory's inode and modification time, also where it was moved.

        Raises UnknownTopicIdError where the topic was deleted, StorageError.
        """
        left = _MOVES
        while True:
            try:
                return self._stamp()
            except StorageError:
                left -= 1
                if left == 0 or not self.follow():
                    raise

    def _stamp(self) -> tuple[int, int]:
        """A directory with another inode is another topic's, unless it has the same topic id: then
        a move has brought it back."""
        about = self._files.about(self.path)
        if about.st_ino != self._inode:
            is_same = not self._is_known or self._has_same_topic()
            if not is_same and self._files.about(self.path).st_ino != about.st_ino:
                raise StorageError("moved before its topic id was read", path=self.path)
            if not is_same:
                raise self.deleted()
            self._inode, self._is_known = about.st_ino, True
        return about.st_ino, about.st_mtime_ns

    def _has_same_topic(self) -> bool:
        found = read_topic_id(self._files, self.path)
        return found == self.topic_id and (found is not None or self._inode < 0)

    def list_names(self) -> list[str]:
        """All names in the directory; StorageError where it was moved meanwhile."""
        if self._find_directory is None:
            return self._files.listdir(self.path)
        return list_stable(self._files, self.path)

    def follow(self) -> bool:
        """Switch to the directory's new name after a move; whether there is one.

        The name may be the same: another move has brought the partition back.
        """
        if self._find_directory is None:
            return False
        if self._files.kind(self.path) is None:
            self.path = self._find_directory()
            self._inode = -1
        return self._files.kind(self.path) is not None

    def deleted(self) -> UnknownTopicIdError:
        """The error for a use of the partition after its topic was deleted."""
        return UnknownTopicIdError(
            "the topic was deleted; a topic created again under its name has other logs: "
            "ask the store for the topic again",
            path=self.path,
        )
