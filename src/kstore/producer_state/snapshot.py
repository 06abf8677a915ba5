"""Producer snapshots (``N.snapshot``): the state of each producer before offset N.

Parses them; ``ProducerTable.snapshot`` writes them. Layout and rules: Kafka's ProducerStateManager.
"""

from struct import Struct
from typing import NamedTuple

from kstore._native.format.crc import crc32c
from kstore.errors import CorruptFileError
from kstore.producer_state.producer_ids import SEQUENCES

_HEADER = Struct(">hIi")  # version, CRC-32C of the bytes after it, number of entries
_ENTRY = Struct(">qhiqiqiq")
EMPTY_SIZE = _HEADER.size  # of a snapshot without producers
_CRC_END = 6
_VERSION = 1


class ProducerEntry(NamedTuple):
    """One producer; ``last_offset`` is -1 if the log has no batch of it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_transaction_first_offset: int  # -1: no transaction is open

    @property
    def first_sequence(self) -> int:
        """The first sequence of its last batch; sequences wrap from 2^31 - 1 to 0."""
        return (self.last_sequence - self.offset_delta) % SEQUENCES


def parse(data: bytes, *, path: str | None = None) -> list[ProducerEntry]:
    """The entries of a snapshot, in their order. Raises CorruptFileError."""
    if len(data) < _HEADER.size:
        raise CorruptFileError("the producer snapshot is shorter than its header", path=path)
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptFileError(f"unknown producer snapshot version {version}", path=path)
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptFileError(f"the producer snapshot does not hold {count} entries", path=path)
    view = memoryview(data)  # no copies: a corrupt file may be large
    if crc32c(view[_CRC_END:]) != crc:
        raise CorruptFileError(
            "the producer snapshot is corrupt: its checksum does not match its bytes", path=path
        )
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(view[_HEADER.size :])]
