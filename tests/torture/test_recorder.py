"""The recording disk sees all that a process does to its files, and nothing else.

Crash states are computed from what the recorder saw: a write that went around it, or a store
into a shared map, would be missing from every one of them.
"""

import pickle
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pytest

from support import syscalls
from torture.crash_states import record
from torture.scenarios import SCENARIOS

IN_THREADS = (
    "group commit",
    "publication",
)  # what threads do side by side, the two see in another order
PROGRAM = """
import pickle, sys
from torture.test_recorder import write_calls
write_calls(*sys.argv[1:])
"""


def write_calls(root: str, output: str) -> None:
    """In a process of its own: run every scenario, and keep what the recorder saw."""
    traces = {name: record(name, f"{root}/{at}") for at, name in enumerate(SCENARIOS)}
    with open(output, "wb") as file:
        pickle.dump(traces, file)


def in_order(calls: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Syncs that follow one another wait for the disk side by side: any order of them is one."""
    runs = groupby(calls, lambda call: call[0] == "sync")
    return [call for syncs, run in runs for call in (sorted(run) if syncs else run)]


def file_by_file(calls: list[tuple[str, str, int]]) -> dict[str, list[tuple[str, str, int]]]:
    """Each file's calls in their order; writes with another file's call between them are one."""
    files: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for call in calls:
        files[call[1]].append(call)
    return {path: syscalls.join_writes(found) for path, found in files.items()}


@pytest.mark.parametrize("way", syscalls.ways())
def test_the_recorder_sees_all_that_the_kernel_is_asked(tmp_path: Path, way: str) -> None:
    root, output = tmp_path / "data", tmp_path / "traces"
    root.mkdir()
    command = syscalls.python("-c", PROGRAM, str(root), str(output))
    lines = getattr(syscalls, way)(command, tmp_path / "calls")
    asked = syscalls.changes(lines, str(root))
    traces = pickle.loads(output.read_bytes())
    assert asked.keys() == {str(at) for at in range(len(SCENARIOS))}
    for at, name in enumerate(SCENARIOS):
        really, seen = asked[str(at)], syscalls.recorded(traces[name], str(at))
        assert len(seen) > 20
        if name in IN_THREADS:
            assert file_by_file(really) == file_by_file(seen), name
        else:
            assert in_order(really) == in_order(seen), name


BYPASSES = {
    "write": "os.write(os.open(path, os.O_WRONLY), b'x')",
    "map for writing": "mmap.mmap(os.open(path, os.O_RDWR), 4)[0:1] = b'x'",
    "make": "os.open(path + '2', os.O_CREAT)",
    "resize": "os.truncate(os.open(path, os.O_RDWR), 9)",
    "sync": "os.fsync(os.open(path, os.O_RDONLY))",
    "link": "os.link(path, path + '4')",
    "rename": "os.rename(path, path + '3')",
    "remove": "os.unlink(path + '3')",
}


@pytest.mark.parametrize("way", syscalls.ways())
def test_a_write_around_the_recorder_is_seen(tmp_path: Path, way: str) -> None:
    root = tmp_path / "data"
    (root / "0").mkdir(parents=True)
    (root / "0" / "file").write_bytes(b"1234")
    program = f"import mmap, os; path = {str(root / '0' / 'file')!r}\n" + "\n".join(
        BYPASSES.values()
    )
    lines = getattr(syscalls, way)(syscalls.python("-c", program), tmp_path / "calls")
    changes = syscalls.changes(lines, str(root))["0"]
    assert [kind for kind, _, _ in changes] == list(BYPASSES)
    assert all(path.startswith("0/file") for _, path, _ in changes)
