"""Checksums against the packages that a Python program would use instead."""

import zlib
from collections.abc import Callable, Iterator
from functools import partial

import crc32c as package

from kstore._native import checksum
from kstore.bench.contest import Contest
from kstore.bench.kernels_checksum import SIZES, buffer
from kstore.bench.peers import optional

# size: (wanted against the crc32c package, wanted against aiokafka)
BARS = {1024: (1.8, 8.0), 16384: (3.5, 40.0), 65536: (3.5, 40.0)}


def contests() -> Iterator[Contest]:
    crecords = optional("aiokafka.record._crecords", "aiokafka")
    google = optional("google_crc32c", "google-crc32c")
    for size in SIZES:
        data = buffer(size)
        paths = {
            f"path {path}": partial(checksum.crc32c_by, path, data)
            for path in checksum.supported_paths()
            if path != "avx2"  # as pclmul
        }
        package_bar, aiokafka_bar = BARS.get(size, (None, None))
        calls: dict[str, Callable[[], object]] = {
            "kstore": partial(checksum.crc32c, data),
            "crc32c (PyPI)": partial(package.crc32c, data),
            **paths,
        }
        bars = [("kstore", "crc32c (PyPI)", package_bar)]
        if "path avx512" in paths and size >= 16384:
            # Wide: what counts instructions knows no AVX-512, so this alone sees it fall back.
            bars.append(("path avx512", "path sse42", 1.5))
        if crecords is not None:
            calls["aiokafka"] = partial(crecords.crc32c_cython, data)
            bars.append(("kstore", "aiokafka", aiokafka_bar))
        if google is not None:
            calls["google-crc32c"] = partial(google.value, data)
            bars.append(("kstore", "google-crc32c", None))
        yield Contest(
            name=f"CRC-32C of {size} bytes, hot, from Python",
            calls=calls,
            amount=size,
            bars=tuple(bars),
            size=size,
        )
    for size in (100, 1024, 16384):
        data = buffer(size)
        yield Contest(
            name=f"CRC-32 of {size} bytes, hot, from Python",
            calls={"kstore": partial(checksum.crc32, data), "zlib": partial(zlib.crc32, data)},
            amount=size,
            bars=(("kstore", "zlib", None),),
        )
