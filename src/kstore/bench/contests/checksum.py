"""Checksums against the packages that a Python program would use instead."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import crc32c as package
import numba
import numpy as np

from kstore import jit
from kstore._native import checksum, limits
from kstore.bench.contest import Contest, Timed
from kstore.bench.kernels_checksum import SIZES, buffer
from kstore.bench.peers import KafkaLog, kafka_log, optional

# size: what is wanted against the crc32c package, aiokafka and google-crc32c
BARS = {1024: (1.8, 8.0, 1.8), 16384: (3.5, 40.0, 3.0), 65536: (3.5, 40.0, 3.0)}
FLOOR, COMPILED, JAVA = "read every byte", "kstore, from compiled code", "Java's CRC32C, in Java"
TOGETHER = 64 << 20  # bytes that a call from compiled code handles, and one of Java
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


@numba.njit
def again_and_again(data: Any, count: int) -> int:
    """So many checksums of the same bytes, none of them called from Python; their sum."""
    total = 0
    for _ in range(count):
        total += jit.crc32c(data, 0, data.size)
    return total


def compiled(data: bytes) -> Timed:
    count = TOGETHER // len(data)
    started = perf_counter()
    total = again_and_again(np.frombuffer(data, np.uint8), count)
    seconds = perf_counter() - started
    return Timed(seconds / count, result=total // count)


def in_java(peer: KafkaLog, path: Path) -> Timed:
    said = peer.crc(path, TOGETHER // path.stat().st_size)
    return Timed(float(said["seconds"]) / int(said["count"]), result=int(said["value"]))


def hot(size: int, directory: Path, peer: KafkaLog | None) -> Contest:
    crecords = optional("aiokafka.record._crecords", "aiokafka")
    google = optional("google_crc32c", "google-crc32c")
    data = buffer(size)
    paths = {
        f"path {path}": partial(checksum.crc32c_by, path, data)
        for path in checksum.supported_paths()
        if path != "avx2"  # as pclmul
    }
    package_bar, aiokafka_bar, google_bar = BARS.get(size, (None, None, None))
    calls: Calls = {
        "kstore": partial(checksum.crc32c, data),
        "crc32c (PyPI)": partial(package.crc32c, data),
        **paths,
        FLOOR: lambda: limits.read_all(data) and None,
    }
    bars: Bars = [("kstore", "crc32c (PyPI)", package_bar)]
    if "path avx512" in paths and size >= 16384:
        # Wide: what counts instructions knows no AVX-512, so this alone sees it fall back.
        bars.append(("path avx512", "path sse42", 1.5))
    if crecords is not None:
        calls["aiokafka"] = partial(crecords.crc32c_cython, data)
        bars.append(("kstore", "aiokafka", aiokafka_bar))
    if google is not None:
        calls["google-crc32c"] = partial(google.value, data)
        bars.append(("kstore", "google-crc32c", google_bar))
    if size in BARS:
        calls[COMPILED] = partial(compiled, data)
        if peer is not None:
            path = directory / f"{size}"
            path.write_bytes(data)
            calls[JAVA] = partial(in_java, peer, path)
            bars.append((COMPILED, JAVA, 1.0 if size >= 16384 else None))
    return Contest(
        name=f"CRC-32C of {size} bytes, hot, from Python",
        calls=calls,
        amount=size,
        bars=tuple(bars),
        ceiling=FLOOR,
        unchecked=frozenset([FLOOR]),
        size=size,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        for size in SIZES:
            yield hot(size, Path(path), peer)
    for size in (100, 1024, 16384):
        data = buffer(size)
        yield Contest(
            name=f"CRC-32 of {size} bytes, hot, from Python",
            calls={
                "kstore": partial(checksum.crc32, data),
                "zlib": partial(zlib.crc32, data),
                **{
                    f"path {path}": partial(checksum.crc32_by, path, data)
                    for path in checksum.supported_paths()
                    if path != "avx2"
                },
            },
            amount=size,
            bars=(("kstore", "zlib", None),),
        )
