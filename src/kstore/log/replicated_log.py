"""What replication between brokers needs of a log: leader epochs, and a follower's changes."""

from abc import ABCMeta, abstractmethod
from typing import Any

from kstore.log.append_info import AppendInfo


class _ReplicatedLog(metaclass=ABCMeta):
    """The methods of :class:`kstore.Log` for a leader and its followers."""

    __slots__ = ()

    @property
    @abstractmethod
    def leader_epoch(self) -> int:
        """The latest leader epoch of ``leader-epoch-checkpoint``; -1 where none is known.

        An append stamps it on its batches. The first append to a log without one begins epoch 0.
        """

    @abstractmethod
    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch up to this one, and its end offset (OffsetForLeaderEpoch).

        The end is the first offset of the next epoch, or the log end for the latest one; (-1, -1)
        for an epoch beyond it. An epoch below the first known one ends where that one starts, as
        in Kafka's LeaderEpochFileCache.endOffsetFor. Takes no lock.
        """

    @abstractmethod
    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which an offset was written; -1 where it is unknown.

        From ``leader-epoch-checkpoint``, as Kafka's epochForOffset. Takes no lock.
        """

    @abstractmethod
    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log end: later batches are stamped with it.

        It is in ``leader-epoch-checkpoint``, on disk, when the call returns. The latest epoch
        changes nothing; nor does any in a log of messages v0 or v1, which carry none.

        Raises
        ------
        FencedLeaderEpochError
            An epoch below the latest one; nothing was changed.
        StorageError
            The checkpoint could not be written.
        """

    @abstractmethod
    def append_as_follower(self, batches: Any) -> AppendInfo:
        """Append complete batches unchanged: a leader has checked them and assigned offsets.

        Any message format. Checked: structure, checksum, offsets at or beyond the log end
        and increasing (gaps are fine). An incomplete batch at the end is skipped.

        Raises
        ------
        CorruptRecordError
            With the position in ``batches``; nothing was appended.
        """

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Make offset the log end; removes all of the batch that contains it, and later ones.

        The epoch of :meth:`begin_epoch` stays the one that appends stamp.
        """

    @abstractmethod
    def truncate_to_epoch(self, epoch: int) -> int:
        """Remove what was written in later epochs than this one; returns the log end.

        For a follower whose leader's log diverges from it: the log ends at the first offset of the
        next known epoch, and those epochs leave ``leader-epoch-checkpoint``.
        """
