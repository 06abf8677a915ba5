"""The result of a compaction."""

from kstore.hints.kafka_names import OF_COMPACTION_REPORTS
from kstore.hints.missing_names import answer_names
from kstore.lazy_dataclass import lazy_dataclass


@lazy_dataclass(frozen=True, kw_only=True)
class CompactionReport:
    """The result of a compaction. Bytes and segments count the rewritten segments. Immutable."""

    first_dirty_offset: int
    end_offset: int  # below it everything is compacted: the next first dirty offset
    passes: int = 0  # rounds: how often the key map was filled; 0: nothing was dirty
    keys: int = 0  # the largest number of keys in the map; of several partitions the sum
    map_memory: int = 0  # bytes of the map and its marks
    records_read: int = 0  # each counted once, however many rounds read it
    records_kept: int = 0
    tombstones_kept: int = 0  # of records_kept; see reason
    records_without_key: int = 0  # dropped: a compacted log cannot keep them
    bytes_before: int = 0
    bytes_after: int = 0
    segments_before: int = 0
    segments_after: int = 0
    seconds: float = 0.0
    reason: str = ""  # why nothing was compacted, or why tombstones were kept; else empty


answer_names(CompactionReport, OF_COMPACTION_REPORTS)
