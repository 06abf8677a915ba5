"""Checksums against the packages that a Python program would use instead."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import crc32c as package
import numba
import numpy as np

from engine.peers.kafka import KafkaLog, kafka_log
from kstore import jit
from kstore._native.format import crc
from kstore.bench.contest import Bar, Calls, Contest, Timed
from kstore.bench.peers.availability import optional

SIZES = (1024, 16384, 65536, 1 << 20)
# size: wanted against the crc32c package, aiokafka and google-crc32c
BARS = {1024: (1.8, 8.0, 1.8), 16384: (3.5, 40.0, 3.0), 65536: (3.5, 40.0, 3.0)}
COMPILED, JAVA = "kstore, from compiled code", "Java's CRC32C, in Java"
BYTES_PER_CALL = 64 << 20  # of a call from compiled code or Java, in many checksums


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@numba.njit
def sum_checksums(data: Any, count: int) -> int:
    """The sum of ``count`` checksums of the same bytes, none of them called from Python."""
    total = 0
    for _ in range(count):
        total += jit.crc32c(data, 0, data.size)
    return total


def by_compiled_code(data: bytes) -> Timed:
    count = BYTES_PER_CALL // len(data)
    started = perf_counter()
    total = sum_checksums(np.frombuffer(data, np.uint8), count)
    seconds = perf_counter() - started
    return Timed(seconds / count, result=total // count)


def by_java(peer: KafkaLog, path: Path) -> Timed:
    reply = peer.crc(path, BYTES_PER_CALL // path.stat().st_size)
    return Timed(float(reply["seconds"]) / int(reply["count"]), result=int(reply["value"]))


def by_path(data: bytes) -> Calls:
    """Each code path that this CPU supports; avx2 is the same code as pclmul."""
    paths = [path for path in crc.supported_paths() if path != "avx2"]
    return {f"path {path}": partial(crc.crc32c_by, path, data) for path in paths}


def crc32c_contest(size: int, directory: Path, peer: KafkaLog | None) -> Contest:
    crecords = optional("aiokafka.record._crecords", "aiokafka")
    google = optional("google_crc32c", "google-crc32c")
    data = random_bytes(size)
    package_bar, aiokafka_bar, google_bar = BARS.get(size, (None, None, None))
    calls: Calls = {
        "kstore": partial(crc.crc32c, data),
        "crc32c (PyPI)": partial(package.crc32c, data),
        **by_path(data),
    }
    bars: list[Bar] = [("kstore", "crc32c (PyPI)", package_bar)]
    if "path avx512" in calls and size >= 16384:
        # A generous bar: valgrind knows no AVX-512, so that counted instructions miss a fallback.
        bars.append(("path avx512", "path sse42", 1.5))
    if crecords is not None:
        calls["aiokafka"] = partial(crecords.crc32c_cython, data)
        bars.append(("kstore", "aiokafka", aiokafka_bar))
    if google is not None:
        calls["google-crc32c"] = partial(google.value, data)
        bars.append(("kstore", "google-crc32c", google_bar))
    if size in BARS:
        calls[COMPILED] = partial(by_compiled_code, data)
        if peer is not None:
            path = directory / f"{size}"
            path.write_bytes(data)
            calls[JAVA] = partial(by_java, peer, path)
            bars.append((COMPILED, JAVA, 1.0 if size >= 16384 else None))
    return Contest(
        name=f"CRC-32C of {size} bytes, hot, from Python",
        calls=calls,
        amount=size,
        bars=tuple(bars),
        size=size,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        for size in SIZES:
            yield crc32c_contest(size, Path(path), peer)
