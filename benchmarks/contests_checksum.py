"""Checksums against the packages that a Python program would use instead."""

import zlib
from collections.abc import Iterator
from functools import partial

import crc32c as package
from aiokafka.record._crecords import crc32c_cython as aiokafka

from kstore._native import checksum
from kstore.bench.contest import Contest
from kstore.bench.kernels_checksum import SIZES, buffer

# size: (wanted against the crc32c package, wanted against aiokafka)
BARS = {1024: (1.8, 8.0), 16384: (3.5, 40.0), 65536: (3.5, 40.0)}


def contests() -> Iterator[Contest]:
    for size in SIZES:
        data = buffer(size)
        paths = {
            f"path {path}": partial(checksum.crc32c_by, path, data)
            for path in checksum.supported_paths()
        }
        package_bar, aiokafka_bar = BARS.get(size, (None, None))
        yield Contest(
            name=f"CRC-32C of {size} bytes, hot, from Python",
            calls={
                "kstore": partial(checksum.crc32c, data),
                "crc32c (PyPI)": partial(package.crc32c, data),
                "aiokafka": partial(aiokafka, data),
                **paths,
            },
            amount=size,
            bars=(("kstore", "crc32c (PyPI)", package_bar), ("kstore", "aiokafka", aiokafka_bar)),
        )
    for size in (100, 1024, 16384):
        data = buffer(size)
        yield Contest(
            name=f"CRC-32 of {size} bytes, hot, from Python",
            calls={"kstore": partial(checksum.crc32, data), "zlib": partial(zlib.crc32, data)},
            amount=size,
            bars=(("kstore", "zlib", None),),
        )
