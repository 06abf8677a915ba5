"""The C headers as another machine would compile them.

With ``__x86_64__`` undefined a header shows what aarch64 and everything else gets; a cross
compiler, where it is installed, checks it with aarch64's own rules.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tidy.sources import NATIVE

STRICT = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
CROSS = "aarch64-linux-gnu-gcc"
_INTRINSICS = re.compile(r"^#include <(\w+intrin|cpuid)\.h>|\b_mm\d*_\w+\(", re.M)


def headers() -> list[Path]:
    return sorted(NATIVE.rglob("*.h"))


def portable_headers() -> list[Path]:
    """All but those that are x86-64's own, which only a guarded include may bring in."""
    return [path for path in headers() if not _INTRINSICS.search(path.read_text())]


def syntax_problems(compiler: str, header: Path, folder: Path, *flags: str) -> str:
    """What the compiler says about a source that includes one header."""
    source = folder / "alone.c"
    source.write_text(f'#include "{header.name}"\nint main(void) {{ return 0; }}\n')
    result = subprocess.run(
        [compiler, *STRICT, *flags, f"-I{header.parent}", "-fsyntax-only", str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return result.stderr if result.returncode else ""


def without_x86(folder: Path) -> list[str]:
    """Flags that hide what this CPU is; glibc then asks for a file that only it lacks."""
    (folder / "gnu").mkdir(exist_ok=True)
    (folder / "gnu" / "stubs-32.h").touch()
    return ["-U__x86_64__", "-U__SSE4_2__", f"-I{folder}"]


@pytest.fixture
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "kstore is built by a C compiler: none is installed"
    return found


@pytest.mark.parametrize("header", headers(), ids=lambda path: path.name)
def test_header_stands_alone(header: Path, compiler: str, tmp_path: Path) -> None:
    assert syntax_problems(compiler, header, tmp_path) == ""


@pytest.mark.parametrize("header", portable_headers(), ids=lambda path: path.name)
def test_header_compiles_without_x86(header: Path, compiler: str, tmp_path: Path) -> None:
    assert syntax_problems(compiler, header, tmp_path, *without_x86(tmp_path)) == ""


@pytest.mark.parametrize("header", portable_headers(), ids=lambda path: path.name)
def test_header_pulls_in_no_intrinsics(header: Path, compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "portable.c"
    source.write_text(f'#include "{header.name}"\n')
    flags = ["-std=c11", *without_x86(tmp_path), f"-I{header.parent}"]
    result = subprocess.run(
        [compiler, *flags, "-E", "-M", str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "intrin.h" not in result.stdout
    assert "cpuid.h" not in result.stdout


@pytest.mark.skipif(
    shutil.which(CROSS) is None, reason=f"{CROSS} is not installed (Debian: gcc-aarch64-linux-gnu)"
)
@pytest.mark.parametrize("header", portable_headers(), ids=lambda path: path.name)
def test_header_compiles_for_aarch64(header: Path, tmp_path: Path) -> None:
    assert syntax_problems(CROSS, header, tmp_path) == ""


def test_a_broken_header_is_seen(compiler: str, tmp_path: Path) -> None:
    header = tmp_path / "broken.h"
    header.write_text("#ifndef __x86_64__\nstatic int f(void) { return nowhere; }\n#endif\n")
    assert syntax_problems(compiler, header, tmp_path) == ""
    assert "nowhere" in syntax_problems(compiler, header, tmp_path, *without_x86(tmp_path))
