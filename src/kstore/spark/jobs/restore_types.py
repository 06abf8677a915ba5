"""What the driver and the executors of a restore tell each other."""

from dataclasses import dataclass

from kstore.partition_files import StagedRange


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are restored. Times in ms, ``until`` and ``stop`` exclusive."""

    since: int | None = None
    until: int | None = None
    start: int | None = None
    stop: int | None = None
    keys: tuple[bytes, ...] = ()
    key_pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Offsets [start, stop) of one partition of the source, and where they go."""

    topic: str
    partition: int
    target: str  # topic
    number: int  # among the partition's chunks, in order
    start: int
    stop: int
    size: int  # bytes, about
    paths: tuple[str, ...]  # of the source: log directories, or Parquet files
    parquet: bool
    isolation: str
    chosen: Filter


@dataclass(frozen=True, slots=True)
class Encoding:
    """How batches are made. ``leader_epoch`` is -1 where offsets are given by who appends."""

    log_dirs: tuple[str, ...]
    job: str
    compression: int
    batch_size: int
    most: int  # bytes of a batch that the topic takes
    leader_epoch: int = -1

    @property
    def exact(self) -> bool:
        return self.leader_epoch >= 0


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a chunk: staged pieces, or records sent; ``last_offset`` is the source's."""

    pieces: tuple[StagedRange, ...]
    count: int
    last_offset: int
    file: str = ""
    host: str = ""  # that staged it
    checksum: int = 0  # of the records that were staged, whatever their order


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What was restored of one partition. ``next_offset`` is the source's, up to which it is."""

    topic: str
    partition: int
    target: str  # the topic's name there
    records: int
    next_offset: int
    done: bool = True
    planned: int = 0  # 0, or up to where what is about to be published goes
    topic_id: str | None = None  # of the target's topic, or its creation stamp

    @property
    def ok(self) -> bool:
        return self.done
