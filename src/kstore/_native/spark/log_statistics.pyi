from collections.abc import Callable
from typing import final

from kstore._native.read.batch_walk import BatchWalk
from kstore._native.spark.tally import Tally

@final
class Survey(BatchWalk):
    """Counts and measures the batches of a log, segment by segment.

    A batch counts only if it was read without an error. Record counts do not include control
    records, which have their own count. The tally counts every record by time window; its buffers
    must not be in use during run(). One thread at a time; releases the GIL, except for compressed
    batches.

    Sizes are in bytes: of a batch as stored, of a record its key, value, header names and values.
    ``missing`` is the number of offsets between two records that have no record, in ``gaps``
    gaps.
    """

    empty_batches: int
    control_batches: int
    transactional_batches: int
    idempotent_batches: int
    log_append_time_batches: int
    control_records: int
    commit_markers: int
    abort_markers: int
    transactional_records: int
    null_keys: int
    null_values: int
    tombstones: int
    records_with_headers: int
    headers: int
    header_bytes: int
    first_offset: int
    end_offset: int
    first_record: int
    gaps: int
    missing: int
    def __init__(
        self, tally: Tally, decompress: Callable[[int, int, memoryview], bytes]
    ) -> None: ...
    @property
    def last_record(self) -> int:
        """Offset of the last record; -1 before the first, as for the other offsets."""
    @property
    def spreads(self) -> dict[str, tuple[int, int, int, list[int]]]:
        """By name: sum, smallest (2^63 - 1: none), largest, and counts by bit length."""
    @property
    def by_codec(self) -> list[tuple[int, int, int, int]]:
        """Batches, records, bytes, and uncompressed bytes; by codec number."""
    @property
    def by_format(self) -> list[tuple[int, int, int, int]]:
        """The same by magic."""
    @property
    def key_registers(self) -> bytes:
        """HyperLogLog registers of the keys, of a 64-bit hash that never changes."""
    def begin_segment(self, path: str, base_offset: int, limit: int) -> None:
        """Start another segment, whose offsets are all below limit."""
    def run(self) -> None:
        """Walk to the end of the complete batches; raises for a corrupt one."""
    @property
    def declared_size(self) -> int:
        """Declared size of the batch at which run() raised; 0 if unreadable."""
    def resume_at(self, position: int) -> bool:
        """Continue at a later position in the file; False if it is outside the buffer."""
