from collections.abc import Callable
from typing import final

from kstore._native.read.batch_walk import BatchWalk
from kstore._native.spark.tally import Tally

@final
class Survey(BatchWalk):
    """Counts and measures all batches of a log's segments, one after another.

    A batch counts once all of it was read without an error, or not at all. Records are those of
    clients; control records are counted by themselves. The tally gets every record, by its
    window of time, and must not be in use while run() works. One thread at a time; works without
    the GIL but for compressed batches.

    Sizes are bytes: of a batch as it is stored, of a record its key, value, names and values of
    headers. ``missing`` offsets lie between two records and belong to none, in ``gaps`` gaps.
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
        """Its offset; -1 before the first, as that of the first record, batch and end."""
    @property
    def spreads(self) -> dict[str, tuple[int, int, int, list[int]]]:
        """By name: sum, least (2^63 - 1: none), largest, and counts by the bits of the size."""
    @property
    def by_codec(self) -> list[tuple[int, int, int, int]]:
        """Batches, records, bytes, and bytes if nothing were compressed; by the codec's number."""
    @property
    def by_format(self) -> list[tuple[int, int, int, int]]:
        """The same by the format's number."""
    @property
    def key_registers(self) -> bytes:
        """HyperLogLog of the keys, by 64 bits of a hash that is the same everywhere."""
    def begin_segment(self, path: str, base_offset: int, limit: int) -> None:
        """The next bytes are of another segment, all of whose offsets are below a limit."""
    def run(self) -> None:
        """Walk to the end of the complete batches; raises where one is damaged."""
    @property
    def claimed(self) -> int:
        """Bytes that the batch at which run() raised says that it has; 0: it is no batch."""
    def go_on_at(self, position: int) -> bool:
        """Walk from this position in the file, ahead; False if it lies outside the buffer."""
