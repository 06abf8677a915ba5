"""Profile with kernels that carry line numbers: those of this tree, or of a copy that is built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / ".cache" / "profile"


def lines_in_place() -> bool:
    built = sorted((ROOT / "src" / "kstore" / "_native").rglob("decode.*.so"))
    return bool(built) and b".debug_line" in built[0].read_bytes()


def build_copy() -> None:
    """The copy keeps what it has built of sources that have not changed."""
    skip = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", COPY / "src", ignore=skip, dirs_exist_ok=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, COPY / name)
    print("==> building the kernels with line numbers (minutes the first time)", flush=True)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", "2"],
        cwd=COPY,
        env={**os.environ, "KSTORE_LINES": "1"},
        check=True,
    )


def main(target: str) -> int:
    tree = ROOT
    if not lines_in_place():
        build_copy()
        tree = COPY
    path = os.pathsep.join([str(tree / "src"), str(ROOT / "benchmarks")])
    return subprocess.run(
        [sys.executable, "-m", "counted.profile", str((ROOT / target).resolve())],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
