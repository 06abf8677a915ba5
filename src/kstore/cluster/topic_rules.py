"""The controller's checks before it creates topics or partitions, with Kafka's messages.

The rules are those of Kafka 3.9's ReplicationControlManager and Topic.validate, for one broker.
"""

from collections.abc import Iterable, Sequence

from kstore.cluster.metadata import Assignments
from kstore.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicExistsError,
)
from kstore.files.filenames import MAX_TOPIC_LENGTH, check_topic_name, collision_key

METADATA_TOPIC = "__cluster_metadata"
MAX_PARTITIONS_AT_ONCE = 10_000  # ReplicationControlManager.MAX_PARTITIONS_PER_BATCH
_DEFAULT = -1


def check_name(name: str) -> None:
    """Raise InvalidTopicError with Kafka's message for an invalid topic name."""
    try:
        check_topic_name(name)
    except InvalidTopicError:
        raise InvalidTopicError(f"Topic name is invalid: {_name_fault(name)}") from None


def _name_fault(name: str) -> str:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_TOPIC_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_LENGTH}"
    return (
        f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    )


class TopicNames:
    """The names of topics that exist, and of those that are about to: what a new one may be."""

    def __init__(self, existing: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._by_key: dict[str, list[str]] = {}  # those that Kafka's metrics take for the same
        for name in existing:
            self.add(name)

    def add(self, name: str) -> None:
        self._names.add(name)
        if "." in name or "_" in name:
            self._by_key.setdefault(collision_key(name), []).append(name)

    def check_new(self, name: str) -> None:
        """Check that the name of a new topic is valid, unused, and does not collide in metric
        names."""
        check_name(name)
        if name == METADATA_TOPIC:
            raise InvalidRequestError(f"Creation of internal topic {name} is prohibited.")
        if name in self._names:
            raise TopicExistsError(f"Topic '{name}' already exists.")
        if clashes := sorted(self._by_key.get(collision_key(name), ())):
            raise InvalidTopicError(
                f"Topic '{name}' collides with existing topic: {', '.join(clashes)}"
            )


def count_partitions(
    partitions: int,
    replication_factor: int,
    assignments: Assignments | None,
    node_id: int,
    default: int,
) -> int:
    """The number of partitions of a new topic; -1 for either number means the default.

    Raises InvalidRequestError, InvalidReplicaAssignmentError, InvalidReplicationFactorError,
    InvalidPartitionsError, PolicyViolationError.
    """
    if assignments:
        for count, what in (
            (replication_factor, "replication factor"),
            (partitions, "numPartitions"),
        ):
            if count != _DEFAULT:
                raise InvalidRequestError(
                    f"A manual partition assignment was specified, but {what} was not set to -1."
                )
        for replicas in assignments.values():
            _check_replicas(replicas, node_id)
        if sorted(assignments) != list(range(len(assignments))):
            raise InvalidReplicaAssignmentError(
                "partitions should be a consecutive 0-based integer sequence"
            )
        return len(assignments)
    if replication_factor < _DEFAULT or replication_factor == 0:
        raise InvalidReplicationFactorError(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if partitions < _DEFAULT or partitions == 0:
        raise InvalidPartitionsError(
            "Number of partitions was set to an invalid non-positive value."
        )
    if replication_factor > 1:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only 1 "
            "broker(s) are registered."
        )
    count = default if partitions == _DEFAULT else partitions
    _check_at_once(count)
    return count


def check_more_partitions(
    name: str,
    count: int,
    present: int,
    assignments: Sequence[Sequence[int]] | None,
    node_id: int,
) -> None:
    """Check CreatePartitions. Raises InvalidPartitionsError unless ``count`` exceeds
    ``present``."""
    if count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if count < present:
        raise InvalidPartitionsError(
            f"The topic {name} currently has {present} partition(s); {count} would not be an "
            "increase."
        )
    if assignments is not None:
        if len(assignments) != count - present:
            raise InvalidReplicaAssignmentError(
                f"Attempted to add {count - present} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified."
            )
        for replicas in assignments:
            _check_replicas(replicas, node_id)
    _check_at_once(count - present)


def _check_at_once(count: int) -> None:
    if count > MAX_PARTITIONS_AT_ONCE:
        raise PolicyViolationError("Excessively large number of partitions per request.")


def _check_replicas(replicas: Sequence[int], node_id: int) -> None:
    fault = ""
    if not replicas:
        fault = "an empty replica list."
    for number, replica in enumerate(sorted(replicas)):
        if replica != node_id:
            fault = f"broker {replica}, but no such broker is registered."
            break
        if number:
            fault = f"the broker {replica} more than once."
            break
    if fault:
        raise InvalidReplicaAssignmentError(f"The manual partition assignment includes {fault}")
