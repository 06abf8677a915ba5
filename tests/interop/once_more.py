"""Run pytest; a few tests that fail run once more, alone, and have to pass then.

    python tests/interop/once_more.py -m pytest -n 2 tests/interop

Half of an interop test is a program that kstore does not own: a broker, a client, a JVM on a busy
machine. Now and then one of them loses a race of its own. Such a test is no failure of the change
that is judged, but it is a finding: its name is printed, and written to ``out/unsteady.txt``, until
someone has read both programs. More failures than ``MOST`` have a common cause and run only once.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 4
_FAILED = 1  # pytest's exit status where tests failed; others are errors of the run itself
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
UNSTEADY = Path("out/unsteady.txt")


def main(arguments: list[str]) -> int:
    UNSTEADY.unlink(missing_ok=True)
    _LAST_FAILED.unlink(missing_ok=True)
    status = subprocess.call([sys.executable, *arguments])
    if status != _FAILED or not _LAST_FAILED.exists():
        return status
    failed = sorted(json.loads(_LAST_FAILED.read_text()))
    if len(failed) > MOST:
        return status
    print(f"\n==> {len(failed)} failed: once more, alone", flush=True)
    status = subprocess.call([sys.executable, *arguments, "-n", "0", "--last-failed"])
    if status == 0:
        UNSTEADY.parent.mkdir(exist_ok=True)
        UNSTEADY.write_text("".join(f"{name}\n" for name in failed))
        print("==> unsteady, failed once and passed alone:", *failed, sep="\n    ", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
