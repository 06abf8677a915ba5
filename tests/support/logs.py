"""Opens a log in its own directory, without a store."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore.config import LogConfig
from kstore.files.files import DISK, Files
from kstore.files.map_budget import MapBudget
from kstore.log.log import Log
from kstore.log.read_only_log import ReadOnlyLog
from kstore.log.reader import LogReader
from kstore.log.writable_log import WritableLog
from kstore.log.writer import LogWriter
from kstore.recovery.loader import load


def open_log(
    directory: Path,
    *,
    files: Files = DISK,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clock: Any = None,
    **settings: Any,
) -> WritableLog:
    """Open directory as partition 0 of topic "t" for writing."""
    os.makedirs(directory, exist_ok=True)
    config = LogConfig(**settings)
    loaded = load(
        files,
        str(directory),
        config,
        clean=clean,
        recovery_point=lambda: recovery_point,
        log_start_offset=log_start_offset,
        clock=clock,
    )
    writer = LogWriter(
        str(directory), loaded, config=config, files=files, maps=MapBudget(16), clock=clock
    )
    return WritableLog(
        "t",
        0,
        path=str(directory),
        config=config,
        files=files,
        writer=writer,
        recovery=loaded.recovery,
    )


def fill_segments(log: Log, segments: int = 3, each: int = 10) -> None:
    """Append records with keys, and roll after each ``each`` of them."""
    for number in range(segments * each):
        if number and number % each == 0:
            log.roll()
        log.append(b"value %d" % number, key=b"%d" % number)


def read_log(
    directory: Path,
    *,
    files: Files = DISK,
    own: bool = True,
    log_start_offset: int | Callable[[], int] = 0,
    recovery_point: int = 0,
) -> ReadOnlyLog:
    """Open a directory for reading beside a writer, as another process would."""
    start: Any = log_start_offset
    reader = LogReader(
        str(directory),
        files=files,
        maps=MapBudget(16),
        own=own,
        log_start_offset=start if callable(start) else lambda: start,
        recovery_point=lambda: recovery_point,
    )
    return ReadOnlyLog(
        "t",
        0,
        path=str(directory),
        config=LogConfig(),
        files=files,
        reader=reader,
    )


def log_bytes(directory: Path) -> bytes:
    """All live segments' bytes, in order."""
    return b"".join(path.read_bytes() for path in sorted(Path(directory).glob("*.log")))
