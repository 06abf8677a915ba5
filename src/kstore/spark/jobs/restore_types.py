"""The messages between the driver and the executors of a restore."""

from dataclasses import dataclass

from kstore.partition_files import StagedRange


@dataclass(frozen=True, slots=True)
class Filter:
    """The records to restore. Times in ms; ``until`` and ``stop`` are exclusive."""

    since: int | None = None
    until: int | None = None
    start: int | None = None
    stop: int | None = None
    keys: tuple[bytes, ...] = ()
    key_pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Offsets [start, stop) of one partition of the source, and their target."""

    topic: str
    partition: int
    target: str  # topic
    number: int  # among the partition's chunks, in order
    start: int
    stop: int
    size: int  # bytes, approximately
    paths: tuple[str, ...]  # of the source: log directories, or Parquet files
    parquet: bool
    isolation: str
    chosen: Filter
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True)
class Encoding:
    """How batches are encoded. ``leader_epoch`` is -1 if the commit assigns the offsets."""

    log_dirs: tuple[str, ...]
    job: str
    compression: int
    batch_size: int
    max_batch_size: int  # bytes that the target topic accepts
    leader_epoch: int = -1

    @property
    def keeps_offsets(self) -> bool:
        """Whether staged batches have the source's offsets (else the commit assigns them)."""
        return self.leader_epoch >= 0


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a chunk: staged ranges, or records sent; ``last_offset`` is the source's."""

    ranges: tuple[StagedRange, ...]
    count: int
    last_offset: int
    file: str = ""
    host: str = ""  # of the task
    checksum: int = 0  # of the staged records, independent of their order


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """The restore of one partition; ``next_offset`` is the first source offset not restored."""

    topic: str
    partition: int
    target: str  # the target topic
    records: int
    next_offset: int
    done: bool = True
    planned: int = 0  # 0, or the source's end offset of the records about to be published
    topic_id: str | None = None  # of the target's topic, or its creation stamp
    publication: str | None = None  # the id of the publication that ``planned`` is part of

    @property
    def ok(self) -> bool:
        return self.done
