"""The C headers as another machine would compile them.

``-DKSTORE_PORTABLE`` takes away what the headers know of x86-64, which leaves what aarch64 and
everything else gets; a cross compiler, where there is one, looks at it with aarch64's own rules.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tidy.sources import NATIVE

HEADERS = sorted(NATIVE.glob("*.h"))
STRICT = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
CROSS = "aarch64-linux-gnu-gcc"


def syntax_problems(compiler: str, header: Path, source: Path, *flags: str) -> str:
    """What the compiler says about a source that includes one header."""
    source.write_text(f'#include "{header.name}"\nint main(void) {{ return 0; }}\n')
    result = subprocess.run(
        [compiler, *STRICT, *flags, f"-I{header.parent}", "-fsyntax-only", str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return result.stderr if result.returncode else ""


@pytest.fixture
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "kstore is built by a C compiler: none is here"
    return found


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
@pytest.mark.parametrize("flags", [(), ("-DKSTORE_PORTABLE",)], ids=["native", "portable"])
def test_header_stands_alone(
    header: Path, flags: tuple[str, ...], compiler: str, tmp_path: Path
) -> None:
    assert syntax_problems(compiler, header, tmp_path / "alone.c", *flags) == ""


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_portable_path_needs_no_x86(header: Path, compiler: str, tmp_path: Path) -> None:
    """Preprocessed by the portable path, no header of Intel's intrinsics is pulled in."""
    source = tmp_path / "portable.c"
    source.write_text(f'#include "{header.name}"\n')
    result = subprocess.run(
        [compiler, "-std=c11", "-DKSTORE_PORTABLE", f"-I{header.parent}", "-E", "-M", str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "intrin.h" not in result.stdout
    assert "cpuid.h" not in result.stdout


@pytest.mark.skipif(
    shutil.which(CROSS) is None, reason=f"{CROSS} is not here (Debian: gcc-aarch64-linux-gnu)"
)
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_header_compiles_for_aarch64(header: Path, tmp_path: Path) -> None:
    assert syntax_problems(CROSS, header, tmp_path / "aarch64.c") == ""


def test_a_broken_header_is_seen(compiler: str, tmp_path: Path) -> None:
    header = tmp_path / "broken.h"
    header.write_text("static int f(void) { return undefined_name; }\n")
    assert "undefined_name" in syntax_problems(compiler, header, tmp_path / "broken.c")
