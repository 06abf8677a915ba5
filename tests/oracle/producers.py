"""What a leader knows of its producers, in the plainest way: lists and dictionaries.

Read off Kafka's description of the protocol (KIP-98, KIP-890), not off kstore's kernel.
"""

from dataclasses import dataclass, field

LARGEST = 2**31 - 1


class Refused(Exception):
    """With Kafka's error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Sent:
    """A data batch as its producer sent it, and where it went."""

    epoch: int
    first_sequence: int
    count: int
    first_offset: int
    timestamp: int

    @property
    def last_sequence(self) -> int:
        return (self.first_sequence + self.count - 1) % (LARGEST + 1)


@dataclass
class Known:
    epoch: int = -1
    recent: list[Sent] = field(default_factory=list)
    coordinator_epoch: int = -1
    timestamp: int = -1
    open_at: int = -1


@dataclass
class Leader:
    """One log: its end, its producers, and (producer, first, last, stable) of what was aborted."""

    end: int = 0
    producers: dict[int, Known] = field(default_factory=dict)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)

    def append(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int,
        timestamp: int,
        *,
        transactional: bool = False,
    ) -> tuple[int, int]:
        """(first offset, last offset), of the earlier batch where this one repeats it."""
        known = self.producers.get(producer_id, Known())
        for sent in known.recent:
            if (sent.epoch, sent.first_sequence, sent.count) == (epoch, sequence, count):
                return sent.first_offset, sent.first_offset + count - 1
        if epoch < known.epoch:
            raise Refused(47)
        if known.epoch != -1:
            expected = 0
            if epoch == known.epoch and known.recent:
                expected = (known.recent[-1].last_sequence + 1) % (LARGEST + 1)
            if sequence != expected:
                raise Refused(45)
        if known.open_at >= 0 and not transactional:
            raise Refused(48)
        if epoch != known.epoch:
            known.recent = []
        first = self.end
        sent = Sent(epoch, sequence, count, first, timestamp)
        known.recent = [*known.recent, sent][-5:]
        known.epoch, known.timestamp = epoch, timestamp
        if transactional and known.open_at < 0:
            known.open_at = first
        self.producers[producer_id] = known
        self.end += count
        return first, self.end - 1

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        timestamp: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        version: int,
    ) -> int:
        """The marker's offset."""
        known = self.producers.get(producer_id, Known())
        if epoch < known.epoch or (version >= 2 and epoch == known.epoch and known.open_at >= 0):
            raise Refused(47)
        if coordinator_epoch < known.coordinator_epoch:
            raise Refused(52)
        if epoch != known.epoch:
            known.recent = []
        first, known.open_at = known.open_at, -1
        known.epoch, known.coordinator_epoch = epoch, coordinator_epoch
        known.timestamp = timestamp
        self.producers[producer_id] = known
        offset, self.end = self.end, self.end + 1
        if first >= 0 and not commit:
            others = [each.open_at for each in self.producers.values() if each.open_at >= 0]
            self.aborted.append((producer_id, first, offset, min([*others, offset + 1])))
        return offset

    @property
    def last_stable_offset(self) -> int:
        return min(
            [each.open_at for each in self.producers.values() if each.open_at >= 0] + [self.end]
        )

    def entries(self) -> set[tuple[int, ...]]:
        """As a snapshot has them."""
        return {
            (
                producer_id,
                known.epoch,
                known.recent[-1].last_sequence if known.recent else -1,
                known.recent[-1].first_offset + known.recent[-1].count - 1 if known.recent else -1,
                known.recent[-1].count - 1 if known.recent else 0,
                known.timestamp,
                known.coordinator_epoch,
                known.open_at,
            )
            for producer_id, known in self.producers.items()
        }

    def reopened(self) -> None:
        """What a restart forgets: all but the last batch of each producer."""
        for known in self.producers.values():
            known.recent = known.recent[-1:]
