from collections.abc import Callable
from typing import Any

from kstore._native.append.producer_table import ProducerTable
from kstore._native.append.reentrant_lock import ReentrantLock
from kstore._native.read.segment_view import SegmentView

class LogEnd:
    active: SegmentView
    next_offset: int
    leader_epoch: int
    ready: bool
    broken: bool
    epochs_ahead: bool
    flush_at: int
    rolling_timestamp: int
    created_ms: int
    waiters: int
    usable: Callable[[], None]
    prepare: Callable[[], None]
    roll: Callable[[int], None]
    flush_due: Callable[[], None]
    wake: Callable[[], None]
    on_index_write: Callable[[], None] | None
    epoch_begins: Callable[[int, int], None]
    refuse: Callable[[int, int, int, int, int, int, tuple[Any, ...] | None], None]
    refuse_producer: Callable[[int, int, int, int, int, int], None]
    aborted: Callable[[], None]
    producers: ProducerTable
    refuse_own: Callable[[str, int, int], None]
    prewrite: Callable[[int, int], bool] | None
    file_size: int
    batch_size: int  # bytes of a batch of this process, uncompressed
    def __init__(
        self,
        lock: ReentrantLock,
        files: Any,
        to_ms: Callable[[Any], int],
        path: str,
    ) -> None: ...
    def configure(
        self,
        *,
        segment_bytes: int,
        roll_ms: int,
        index_interval_bytes: int,
        segment_index_bytes: int,
        max_message_bytes: int,
        batch_size: int,
        before_max_ms: int,
        after_max_ms: int,
        log_append_time: bool,
        key_required: bool,
        codec: int,
        target_codec: int,
        message_magic: int,
        compress: Callable[[int, int, Any], bytes],
        decompress: Callable[[int, int, Any], Any],
        recompress: Callable[[Any, Any, int], bytes],
        clock: Callable[[], int] | None,
    ) -> None: ...
    def set_append_info_type(self, info: type[tuple[int, ...]]) -> None: ...
    def attach(
        self, active: SegmentView, fd: int, index_fd: int, time_fd: int, file_size: int = -1
    ) -> None: ...
    def reset(self, active: SegmentView) -> None: ...
    def relocate(self, files: Any, path: str) -> None: ...
    def make_ready(self) -> None: ...
    def detach(self) -> None: ...
    def write_index(self) -> bool: ...
