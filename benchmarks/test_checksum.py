"""pytest-benchmark's face of the checksum workloads, results checked."""

import zlib

import crc32c as package
import pytest

from kstore._native import checksum
from kstore.bench.kernels_checksum import SIZES, buffer


@pytest.mark.parametrize("path", checksum.supported_paths())
@pytest.mark.parametrize("size", SIZES)
def test_crc32c(benchmark, path, size):
    data = buffer(size)
    benchmark.extra_info["bytes"] = size
    assert benchmark(checksum.crc32c_by, path, data) == package.crc32c(data)


@pytest.mark.parametrize("size", SIZES)
def test_crc32(benchmark, size):
    data = buffer(size)
    benchmark.extra_info["bytes"] = size
    assert benchmark(checksum.crc32, data) == zlib.crc32(data)


@pytest.mark.parametrize("size", SIZES)
def test_crc32c_of_the_package(benchmark, size):
    data = buffer(size)
    benchmark.extra_info["bytes"] = size
    assert benchmark(package.crc32c, data) == checksum.crc32c(data)
