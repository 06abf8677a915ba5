"""The kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer.

Built in a copy under .cache/sanitize, so that the ordinary build stays as it is. Python itself
is not instrumented: the sanitizers' runtimes are preloaded, its allocator is malloc (else an
overflow into a Python object goes unseen) and leaks are not looked for.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / ".cache" / "sanitize"
TREES = ("src", "tests", "benchmarks", "docs/guide")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
BUILT = {".so", ".c", ".o"}


def mirror() -> None:
    """Bring the copy up to date; what was built there from unchanged sources is kept."""
    COPY.mkdir(parents=True, exist_ok=True)
    skip = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    for tree in TREES:
        for path in sorted((COPY / tree).rglob("*")):
            source = ROOT / path.relative_to(COPY)
            if path.is_file() and path.suffix not in BUILT and not source.exists():
                path.unlink()
        shutil.copytree(ROOT / tree, COPY / tree, ignore=skip, dirs_exist_ok=True)
    for name in FILES:
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, COPY / name)


def runtime(name: str) -> str:
    path = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"gcc has no {name}: on Debian apt-get install libgcc-12-dev")
    return path


def main() -> int:
    mirror()
    build = {**os.environ, "KSTORE_SANITIZE": "1", "CC": "gcc"}
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", "2"],
        cwd=COPY,
        env=build,
        check=True,
    )
    checks = {
        **os.environ,
        "LD_PRELOAD": f"{runtime('libasan.so')}:{runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(COPY / "src"),
    }
    # Not what bounds private memory: a sanitizer's own would break every bound.
    bounds = "--ignore=tests/unit/store/test_memory_bounds.py"
    # Each test has long: the runtimes make it several times as slow as the limit is meant for.
    slow = ["--timeout", "1800", "-o", "faulthandler_timeout=0"]
    arguments = sys.argv[1:] or ["-m", "not slow", "tests/unit", bounds]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *slow, *arguments]
    return subprocess.run(command, cwd=COPY, env=checks, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
