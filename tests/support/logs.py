"""A log in a directory of its own, without a store around it."""

import os
from pathlib import Path
from typing import Any

from kstore.config import LogConfig
from kstore.log.files import DISK, Files
from kstore.log.loader import load
from kstore.log.log import Log
from kstore.log.maps import MapBudget
from kstore.log.shared import SharedReader
from kstore.log.writer import LogWriter


def open_log(
    directory: Path,
    *,
    files: Files = DISK,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clock: Any = None,
    **settings: Any,
) -> Log:
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
    return Log(
        "t",
        0,
        path=str(directory),
        config=config,
        files=files,
        writer=writer,
        reader=None,
        recovery=loaded.recovery,
    )


def read_log(directory: Path, *, files: Files = DISK, own: bool = True) -> Log:
    """Open directory as another process would: for reading, beside a writer."""
    reader = SharedReader(str(directory), files=files, maps=MapBudget(16), own=own)
    return Log(
        "t",
        0,
        path=str(directory),
        config=LogConfig(),
        files=files,
        writer=None,
        reader=reader,
    )


def log_bytes(directory: Path) -> bytes:
    """All live segments' bytes, in order."""
    return b"".join(path.read_bytes() for path in sorted(Path(directory).glob("*.log")))
