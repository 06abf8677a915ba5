"""The compiled modules as they were built: hardened, and for any CPU of their kind.

Read from the ELF files themselves, so that a flag that got lost on the way shows.
"""

import os
import re
import runpy
import struct
import sysconfig
from pathlib import Path

import pytest

from tidy.sources import NATIVE, ROOT

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_STRSZ, DT_TEXTREL, DT_FLAGS = 5, 10, 22, 30
DT_FLAGS_1 = 0x6FFFFFFB
EXECUTABLE = 1
OLDEST_GLIBC = (2, 34)  # docs/guide/install.md; a wheel's name has what auditwheel reads
_GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")


def built_modules() -> list[Path]:
    return sorted(NATIVE.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))


class Elf:
    """The few facts of a 64-bit little-endian ELF file that hardening shows in."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        start, size, count = (
            struct.unpack_from("<Q", data, 32)[0],
            *struct.unpack_from("<HH", data, 54),
        )
        self.segments: dict[int, tuple[int, int, int, int]] = {}
        loads = []
        for number in range(count):
            kind, flags, offset, address, _, in_file, _, _ = struct.unpack_from(
                "<IIQQQQQQ", data, start + number * size
            )
            self.segments[kind] = (flags, offset, address, in_file)
            if kind == PT_LOAD:
                loads.append((address, offset, in_file))
        _, offset, _, length = self.segments[PT_DYNAMIC]
        self.dynamic = dict(
            struct.unpack_from("<QQ", data, position)
            for position in range(offset, offset + length, 16)
        )
        names = self.dynamic[DT_STRTAB]
        for address, offset, in_file in loads:
            if address <= names < address + in_file:
                at = names - address + offset
                self.symbols = set(data[at : at + self.dynamic[DT_STRSZ]].split(b"\0"))


@pytest.fixture(params=built_modules(), ids=lambda path: path.name.partition(".")[0])
def elf(request: pytest.FixtureRequest) -> Elf:
    return Elf(request.param.read_bytes())


def test_every_kernel_is_built() -> None:
    sources = {path.stem for path in NATIVE.rglob("*.pyx")}
    assert {path.name.partition(".")[0] for path in built_modules()} >= sources


def test_no_executable_stack(elf: Elf) -> None:
    assert elf.segments[PT_GNU_STACK][0] & EXECUTABLE == 0


def test_relocations_are_read_only_and_bound_at_load(elf: Elf) -> None:
    assert PT_GNU_RELRO in elf.segments
    assert elf.dynamic.get(DT_FLAGS, 0) & 0x8  # BIND_NOW
    assert elf.dynamic.get(DT_FLAGS_1, 0) & 0x1  # NOW
    assert DT_TEXTREL not in elf.dynamic


def test_stack_protector(elf: Elf) -> None:
    assert b"__stack_chk_fail" in elf.symbols


def test_no_symbol_needs_a_newer_glibc_than_the_wheel_promises(elf: Elf) -> None:
    versions = [
        tuple(map(int, found.groups())) for found in map(_GLIBC.fullmatch, elf.symbols) if found
    ]
    assert versions
    assert max(versions) <= OLDEST_GLIBC


def test_no_word_of_the_building_machine_s_cpu() -> None:
    for name in ("setup.py", "pyproject.toml"):
        text = (ROOT / name).read_text()
        for flag in ("march=", "mtune=", "mcpu=", "-Ofast", "-ffast-math"):
            assert flag not in text, f"{name}: kernels choose their instructions at run time"


def test_an_editable_install_compiles_only_if_a_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    runs: list[object] = []
    monkeypatch.setattr(build_ext, "run", lambda command: runs.append(command))
    monkeypatch.chdir(tmp_path)
    source, header = tmp_path / "a.c", tmp_path / "a.h"
    built = tmp_path / "src" / f"a{sysconfig.get_config_var('EXT_SUFFIX')}"
    built.parent.mkdir()
    for number, path in enumerate([source, header, built]):
        path.touch()
        os.utime(path, (number, number))
    command = runpy.run_path(str(ROOT / "setup.py"))["BuildExtensions"](Distribution())
    command.extensions = [Extension("a", [str(source)], depends=[str(header)])]

    command.run()
    assert len(runs) == 1  # not an editable install
    command.editable_mode = True
    command.run()
    assert len(runs) == 1
    os.utime(header, (3, 3))
    command.run()
    assert len(runs) == 2
    built.unlink()
    command.run()
    assert len(runs) == 3


def test_a_soft_build_is_seen(tmp_path: Path) -> None:
    """The reader itself: an ELF file with an executable stack and lazy binding."""
    headers = [(PT_LOAD, 5, 0), (PT_DYNAMIC, 6, 512), (PT_GNU_STACK, 7, 0)]
    data = bytearray(1024)
    data[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", data, 32, 64)
    struct.pack_into("<HH", data, 54, 56, len(headers))
    for number, (kind, flags, offset) in enumerate(headers):
        size = 1024 if kind == PT_LOAD else 48
        struct.pack_into(
            "<IIQQQQQQ", data, 64 + 56 * number, kind, flags, offset, offset, 0, size, size, 8
        )
    for number, entry in enumerate([(DT_STRTAB, 600), (DT_STRSZ, 12), (0, 0)]):
        struct.pack_into("<QQ", data, 512 + 16 * number, *entry)
    data[601:612] = b"GLIBC_2.35\0"
    soft = Elf(bytes(data))
    with pytest.raises(AssertionError):
        test_no_executable_stack(soft)
    with pytest.raises(AssertionError):
        test_relocations_are_read_only_and_bound_at_load(soft)
    with pytest.raises(AssertionError):
        test_stack_protector(soft)
    with pytest.raises(AssertionError):
        test_no_symbol_needs_a_newer_glibc_than_the_wheel_promises(soft)
