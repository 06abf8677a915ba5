"""CRC-32C and CRC-32: every path against each other, the crc32c package, zlib and plain loops."""

import array
import mmap
import os
import subprocess
import sys
import zlib

import crc32c as crc32c_package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore._native.format import crc

PATHS = crc.supported_paths()
NOISE = bytes((n * 151 + (n >> 8) * 37 + (n >> 3)) & 0xFF for n in range(1 << 17))
KINDS = {
    "crc32c": (crc.crc32c_by, crc.crc32c, crc32c_package.crc32c, 0x82F63B78),
    "crc32": (crc.crc32_by, crc.crc32, zlib.crc32, 0xEDB88320),
}


def bitwise(data: bytes, polynomial: int, seed: int = 0) -> int:
    """The definition: one bit at a time."""
    state = ~seed & 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (polynomial if state & 1 else 0)
    return ~state & 0xFFFFFFFF


@pytest.fixture(params=KINDS, name="kind")
def _kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize("path", PATHS)
def test_checksums_have_the_check_values_of_the_standards(path):
    assert crc.crc32c_by(path, b"123456789") == 0xE3069283
    assert crc.crc32_by(path, b"123456789") == 0xCBF43926
    assert crc.crc32c_by(path, bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc.crc32c_by(path, b"\xff" * 32) == 0x62A8AB43
    assert crc.crc32c_by(path, bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("path", PATHS)
def test_every_length_to_1100_and_some_seeds(kind, path):
    by_path, _, peer, polynomial = kind
    for size in range(1101):
        data = NOISE[size : 2 * size]
        for seed in (0, 1, 0xFFFFFFFF, 0xDEADBEEF):
            assert by_path(path, data, seed) == peer(data, seed), (size, seed)
        if size <= 64:
            assert by_path(path, data, 77) == bitwise(data, polynomial, 77)


@pytest.mark.parametrize("path", PATHS)
def test_checksums_do_not_depend_on_alignment(kind, path):
    by_path, _, peer, _ = kind
    view = memoryview(NOISE)
    for start in range(65):
        for size in (1, 15, 16, 63, 64, 65, 127, 129, 255, 300, 511, 513, 767, 1025, 4097, 12289):
            assert by_path(path, view[start : start + size], start) == peer(
                NOISE[start : start + size], start
            )


@pytest.mark.parametrize("path", PATHS)
def test_sizes_around_every_block_of_every_path(kind, path):
    by_path, _, peer, _ = kind
    for block in (768, 1024, 1536, 4096, 12288, 16384, 24576, 32768, 65536):
        for size in range(block - 17, block + 18):
            assert by_path(path, NOISE[:size]) == peer(NOISE[:size]), size


@given(data=st.binary(max_size=3000), seed=st.integers(0, 2**32 - 1), cut=st.floats(0, 1))
def test_paths_agree_on_any_bytes_and_continue_at_any_cut(data, seed, cut):
    at = int(len(data) * cut)
    for by_path, chosen, peer, _ in KINDS.values():
        expected = peer(data, seed)
        assert chosen(data, seed) == expected
        for path in PATHS:
            assert by_path(path, data, seed) == expected
            assert by_path(path, data[at:], by_path(path, data[:at], seed)) == expected


@pytest.mark.parametrize("path", PATHS)
def test_every_single_bit_counts(kind, path):
    by_path = kind[0]
    for size in (3, 40, 100, 333, 600):
        data = bytearray(NOISE[:size])
        seen = {by_path(path, data)}
        for bit in range(8 * size):
            data[bit >> 3] ^= 1 << (bit & 7)
            seen.add(by_path(path, data))
            data[bit >> 3] ^= 1 << (bit & 7)
        assert len(seen) == 8 * size + 1


def test_any_contiguous_buffer_is_taken(kind, tmp_path):
    _, chosen, peer, _ = kind
    expected = peer(NOISE)
    assert chosen(bytearray(NOISE)) == expected
    assert chosen(memoryview(NOISE)) == expected
    assert chosen(array.array("q", NOISE)) == expected
    file = tmp_path / "noise"
    file.write_bytes(NOISE)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert chosen(mapped) == expected
    assert chosen(b"") == 0
    assert chosen(b"", 5) == 5


def test_nothing_outside_the_buffer_is_read(kind):
    """The buffer ends (and begins) at a page that may not be touched."""
    by_path, _, peer, _ = kind
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 3 * page)
    try:
        _protect(area, 0, page)
        _protect(area, 2 * page, page)
        view = memoryview(area)
        view[page : 2 * page] = NOISE[:page]
        for size in (*range(300), 511, 512, 600, 1024, page):
            head, tail = view[page : page + size], view[2 * page - size : 2 * page]
            for path in PATHS:
                assert by_path(path, head) == peer(NOISE[:size])
                assert by_path(path, tail) == peer(NOISE[page - size : page])
            head.release()
            tail.release()
        view.release()
    finally:
        area.close()


def _protect(area: mmap.mmap, start: int, size: int) -> None:
    import ctypes

    anchor = ctypes.c_char.from_buffer(area, start)
    address = ctypes.addressof(anchor)
    del anchor
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0) == 0


def test_wrong_arguments_are_refused(kind):
    by_path, chosen, _, _ = kind
    with pytest.raises(TypeError):
        chosen("text")
    with pytest.raises((BufferError, ValueError)):
        chosen(memoryview(NOISE)[::2])
    with pytest.raises(OverflowError):
        chosen(b"", -1)
    with pytest.raises(OverflowError):
        chosen(b"", 2**32)
    with pytest.raises(ValueError, match="unknown path 'mmx'"):
        by_path("mmx", b"")


def _import_with(value: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from kstore._native.format import crc as c; "
            "print(c.cpu_path(), c.crc32c(b'123456789'))",
        ],
        env={**os.environ, "KSTORE_CPU": value},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("path", PATHS)
def test_environment_forces_a_path(path):
    done = _import_with(path)
    assert done.stdout.split() == [path, str(0xE3069283)]


def test_environment_with_an_unknown_path_is_an_import_error():
    done = _import_with("sse9")
    assert done.returncode == 1
    assert "'sse9'; known are: table, sse42, pclmul, avx2, avx512" in done.stderr
    assert "ImportError: environment variable KSTORE_CPU: unknown path" in done.stderr


def test_the_fastest_path_is_chosen():
    done = _import_with("")
    assert done.stdout.split()[0] == PATHS[-1]
