"""Build a source distribution, a wheel from that, and run the unit tests against it elsewhere.

Nothing of the source tree is importable there: what is missing in either of them shows.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from build_wheel import ROOT, build, run


def try_in(folder: Path, wheel: Path) -> None:
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "10"]
    run(*pip, "install", "--upgrade", "pip>=25.1")
    shutil.copy(ROOT / "pyproject.toml", folder)
    run(*pip, "install", wheel, cwd=folder)
    run(*pip, "install", "--group", "test", cwd=folder)
    skip = shutil.ignore_patterns("tidy", "docs", "interop", "libs", "target", "__pycache__")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=skip)
    guide = folder / "docs" / "guide"  # whose example is under test
    guide.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "guide" / "numba.md", guide)
    run(python, "-c", f"import kstore; assert {str(folder)!r} in kstore.__file__", cwd=folder)
    run(python, "-m", "pytest", "-q", "-m", "not interop", "tests/unit", cwd=folder)


def main() -> None:
    wheel = build()
    with tempfile.TemporaryDirectory(prefix="kstore-wheel-") as folder:
        try_in(Path(folder).resolve(), wheel)
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size:,} bytes, its tests pass elsewhere")


if __name__ == "__main__":
    main()
