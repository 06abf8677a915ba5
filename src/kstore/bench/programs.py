"""dd and fio, the programs that people measure disks with: each by its own clock."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kstore.bench.contest import Timed

HOW = {"dd": "the program dd (coreutils)", "fio": "the program fio: apt-get install fio"}


def why_not(name: str) -> str:
    """What to install where a program is not here, or an empty string."""
    return "" if shutil.which(name) else f"not installed: {HOW[name]}"


def dd(file: Path, block: int, count: int, source: Path) -> Timed:
    """The bytes of a file that is in page cache into a new one, synced: some disks do less for
    zeros."""
    words = [f"if={source}", f"of={file}", f"bs={block}", f"count={count}", "conv=fdatasync"]
    try:
        told = _run(["dd", *words]).stderr
        _check_size(file, "dd", block * count)
    finally:
        file.unlink(missing_ok=True)
    seconds = float(told.rsplit(" copied, ", 1)[1].split(" s", 1)[0])
    return Timed(seconds / count, result=block)


def fio(file: Path, block: int, count: int, depth: int) -> Timed:
    """O_DIRECT writes of random bytes through io_uring over a file that fio lays out before its
    clock, which counts milliseconds."""
    direct = ["--rw=write", "--ioengine=io_uring", f"--iodepth={depth}", "--direct=1"]
    more = ["--overwrite=1", "--end_fsync=1"]
    job = _fio(file, block, count, [*direct, *more])
    return Timed(max(job["job_runtime"], 1) / 1e3 / count, result=block)


def fio_commits(file: Path, block: int, count: int) -> Timed:
    """Writes with an fdatasync after each into a new file: the medians of both, together."""
    words = ["--rw=write", "--ioengine=psync", "--fdatasync=1", "--fallocate=none"]
    job = _fio(file, block, count, words)
    write = job["write"]["clat_ns"]["percentile"]["50.000000"]
    sync = job["sync"]["lat_ns"]["percentile"]["50.000000"]
    return Timed((write + sync) / 1e9, result=block)


def _fio(file: Path, block: int, count: int, words: Sequence[str]) -> dict[str, Any]:
    size = [f"--bs={block}", f"--size={block * count}", "--name=kstore", "--thread"]
    size += ["--zero_buffers=0", "--scramble_buffers=1"]  # random, and no block like another
    try:
        told = _run(
            ["fio", f"--filename={file}", *size, *words, "--output-format=json"], file.parent
        ).stdout
        _check_size(file, "fio", block * count)
    finally:
        file.unlink(missing_ok=True)
    job: dict[str, Any] = json.loads(told[told.index("{") :])["jobs"][0]
    if job["error"] or job["write"]["total_ios"] != count:
        raise AssertionError(f"fio wrote {job['write']['total_ios']} of {count} blocks")
    return job


def _run(words: Sequence[str], where: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        cwd=where,
        env=os.environ | {"LC_ALL": "C"},
    )


def _check_size(file: Path, name: str, size: int) -> None:
    if (there := os.path.getsize(file)) != size:
        raise AssertionError(f"{name} left {there} bytes, not {size}")
