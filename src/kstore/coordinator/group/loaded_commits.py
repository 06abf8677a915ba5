"""Commits of ``__consumer_offsets`` by group, decoded when their group is first requested.

A partition has the commits of many groups, most of which no client requests: their keys stay as
the log has them. Values stay encoded in any case: a corrupt one affects only its group.
"""

from collections.abc import Collection, Mapping

from kstore.coordinator.group.offset_records import (
    OffsetKey,
    PartitionKey,
    decode_offset_key,
    encode_offset_key,
)

Encoded = dict[str, dict[bytes, bytes | None]]  # group to key to value; None: deleted
_PARTITION_SIZE = 4  # bytes of the partition's number, with which a key ends
_NO_VALUES: Mapping[PartitionKey, bytes | None] = {}


class LoadedCommits:
    """The last commit of each partition, by group. Not thread-safe."""

    def __init__(self) -> None:
        self._encoded: Encoded = {}  # of the groups that were not requested so far
        self._values: dict[str, dict[PartitionKey, bytes | None]] = {}  # None: deleted
        self._keys: dict[str, dict[bytes, PartitionKey]] = {}  # of commits that are not deleted

    def load(self, found: Encoded) -> None:
        """Take later commits, whose keys have version 1 and decode; owns ``found`` from then on."""
        for group, commits in found.items():
            if group in self._values:
                self._decode(group, commits)
            elif group in self._encoded:
                self._encoded[group].update(commits)
            else:
                self._encoded[group] = commits

    def note(self, key: OffsetKey, data: bytes, value: bytes | None) -> None:
        """Take one later commit, or a tombstone if the value is None."""
        self.values(key.group)
        self._note(key, data, value)

    def values(self, group: str) -> Mapping[PartitionKey, bytes | None]:
        """The last values of a group's partitions; None for a deleted commit."""
        encoded = self._encoded.pop(group, None)
        if encoded is not None:
            self._decode(group, encoded)
        return self._values.get(group, _NO_VALUES)

    def groups(self) -> set[str]:
        """The groups that have a commit."""
        return {
            group
            for commits in (self._values, self._encoded)
            for group, values in commits.items()
            if any(value is not None for value in values.values())
        }

    def keys_of_group(
        self, group: str, partitions: Collection[PartitionKey] | None = None
    ) -> set[bytes]:
        """The keys of a group's commits, of these partitions or of all."""
        self.values(group)
        return {
            data
            for data, tp in self._keys.get(group, {}).items()
            if partitions is None or tp in partitions
        }

    def keys_of_topic(self, topic: str) -> set[bytes]:
        """The keys of all groups' commits of a topic."""
        found = {
            data for keys in self._keys.values() for data, tp in keys.items() if tp[0] == topic
        }
        for group, commits in self._encoded.items():
            start = encode_offset_key(OffsetKey(group, topic, 0))[:-_PARTITION_SIZE]
            found.update(
                data
                for data, value in commits.items()
                if value is not None and data.startswith(start)
            )
        return found

    def _decode(self, group: str, commits: Mapping[bytes, bytes | None]) -> None:
        self._values.setdefault(group, {})
        for data, value in commits.items():
            key = decode_offset_key(data)
            assert key is not None
            self._note(key, data, value)

    def _note(self, key: OffsetKey, data: bytes, value: bytes | None) -> None:
        tp = key.topic, key.partition
        self._values.setdefault(key.group, {})[tp] = value
        keys = self._keys.setdefault(key.group, {})
        if value is None:
            keys.pop(data, None)
        else:
            keys[data] = tp
