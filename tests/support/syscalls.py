"""Traces all system calls of a process that change files below a directory.

It uses strace, or a preloaded library (``calls.c``, which does not see calls that bypass libc).
Both print lines in the same format, which :func:`changes` converts to the changes that a
:class:`support.recording_disk.Recorder` records.

Changes of times, modes and owners are ignored, because they change neither contents nor names.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from support.recording_disk import ROOT, Trace, number_nodes

TRACED = (
    "open,openat,openat2,creat,write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,"
    "copy_file_range,ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range,syncfs,sync,"
    "msync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,"
    "symlinkat,mknod,mknodat,mmap,io_uring_setup,ioctl"
)
WRITES = {"write", "writev", "pwrite", "pwrite64", "pwritev", "pwritev2"}
RESIZES = {"ftruncate", "ftruncate64", "fallocate", "posix_fallocate", "posix_fallocate64"}
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?")
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FILE = re.compile(r"\d+<([^>]*)>")

Change = tuple[str, str, int]  # operation, path below the root, number of bytes


def strace(command: list[str], output: Path) -> list[str]:
    """Run a command; return the calls of all its threads, each completed call on one line."""
    tracer = ["strace", "-f", "-y", "-qq", "-s", "0", "-e", "signal=none"]
    traced = [*tracer, "-e", f"trace={TRACED}", "-o", str(output)]
    _run([*traced, *command])
    return list(_joined(output.read_text(errors="replace").splitlines()))


def preload(command: list[str], output: Path) -> list[str]:
    library = output.with_suffix(".so")
    source = Path(__file__).with_name("calls.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [*compiler.split(), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True
    )
    with output.open("wb") as file:
        fd = file.fileno()
        _run(command, fd, LD_PRELOAD=str(library), KSTORE_CALLS_FD=str(fd))
    return output.read_text(errors="replace").splitlines()


def _run(command: list[str], fd: int | None = None, **variables: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        pass_fds=() if fd is None else (fd,),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
    )
    assert done.returncode == 0, done.stderr


def ways() -> list[str]:
    """The available tracing methods; the second needs only the C compiler of the build."""
    return (["strace"] if shutil.which("strace") else []) + ["preload"]


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _joined(lines: Iterable[str]) -> Iterable[str]:
    """Join calls that strace splits into two lines because another thread interrupted them."""
    begun: dict[str, str] = {}
    for line in lines:
        thread, _, rest = line.partition(" ")
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>").rstrip()
        elif match := re.match(r" *<\.\.\. \w+ resumed>(.*)", rest):
            yield f"{thread} {begun.pop(thread)}{match[1]}"
        else:
            yield line


class _Reader:
    def __init__(self, root: str) -> None:
        self.root = root
        self.there: set[str] = set()
        self.found: list[Change] = []

    def below(self, path: str) -> str | None:
        path = path.removesuffix(" (deleted)")
        return path[len(self.root) + 1 :] if path.startswith(self.root + "/") else None

    def take(self, name: str, arguments: str, result: int, opened: str | None) -> None:
        files = [path for each in _FILE.findall(arguments) if (path := self.below(each))]
        names = [path for each in _NAME.findall(arguments) if (path := self.below(each))]
        if name in ("open", "openat", "openat2", "creat"):
            self.opened(names, arguments)
        elif name == "mmap":
            if files and "PROT_WRITE" in arguments and "MAP_SHARED" in arguments:
                self.found.append(("map for writing", files[0], 0))
        elif name in WRITES or name in ("sendfile", "splice", "copy_file_range"):
            if files and result > 0:
                self.found.append(("write", files[-1], result))
        elif name in RESIZES:
            if files:
                self.found.append(("resize", files[0], 0))
        elif name in ("fsync", "fdatasync"):
            if files:
                self.found.append(("sync", files[0], 0))
        elif name in ("mkdir", "mkdirat"):
            self.made(names)
        elif name in ("unlink", "unlinkat", "rmdir"):
            self.gone(names)
        elif name in ("rename", "renameat", "renameat2"):
            self.renamed(names)
        elif name in ("link", "linkat"):
            self.found.extend(("link", path, 0) for path in names[:1])
        elif files or names:  # any other call is not recorded
            self.found.append((name, (files + names)[0], 0))
        elif name in ("sync", "io_uring_setup"):
            self.found.append((name, "", 0))

    def opened(self, names: list[str], arguments: str) -> None:
        if not names:
            return
        if "O_CREAT" in arguments and names[0] not in self.there:
            self.made(names)
        elif "O_TRUNC" in arguments:
            self.found.append(("resize", names[0], 0))

    def made(self, names: list[str]) -> None:
        for path in names:
            self.there.add(path)
            if "/" in path:  # the first component names the scenario
                self.found.append(("make", path, 0))

    def gone(self, names: list[str]) -> None:
        for path in names:
            self.there.discard(path)
            self.found.append(("remove", path, 0))

    def renamed(self, names: list[str]) -> None:
        for path in names[:1]:
            self.found.append(("rename", " to ".join(names), 0))
            moved = {p for p in self.there if p == path or p.startswith(path + "/")}
            self.there -= moved
            self.there |= {names[1] + p[len(path) :] for p in moved}


def changes(lines: Iterable[str], root: str) -> dict[str, list[Change]]:
    """The actual changes, in order, by the first component of the path below the root."""
    reader = _Reader(root)
    for line in lines:
        match = _CALL.match(line)
        if match is None:
            assert "exited" in line or "killed" in line or ") = ?" in line, line
            continue
        name, arguments, result, opened = match.groups()
        if int(result) >= 0:
            reader.take(name, arguments, int(result), opened)
    grouped: dict[str, list[Change]] = defaultdict(list)
    for kind, path, size in reader.found:
        grouped[path.partition("/")[0]].append((kind, path, size))
    return {name: join_writes(found) for name, found in grouped.items()}


def recorded(trace: Trace, name: str) -> list[Change]:
    """A recorder's changes below ``<root>/<name>``, in the same format."""
    paths = {
        node: f"{name}/{path}" if path else name for path, node in number_nodes(trace.base).items()
    }
    paths[ROOT] = name
    found: list[Change] = []
    for op in trace.ops:
        path = paths[op.node]
        if op.kind == "write":
            if op.data:  # an empty write causes no system call
                found.append(("write", path, len(op.data)))
        elif op.kind == "resize":
            found.append(("resize", path, 0))
        elif op.kind in ("sync", "sync_names"):
            found.append(("sync", path, 0))
        elif op.kind == "make":
            paths[op.to] = f"{path}/{op.name}"
            found.append(("make", paths[op.to], 0))
        elif op.kind == "remove":
            found.append(("remove", f"{path}/{op.name}", 0))
        else:
            before, after = paths[op.position], f"{paths[op.to]}/{op.to_name}"
            found.append(("rename", f"{before} to {after}", 0))
            for node, each in paths.items():
                if each == before or each.startswith(before + "/"):
                    paths[node] = after + each[len(before) :]
    return join_writes(found)


def join_writes(found: Iterable[Change]) -> list[Change]:
    """Merge consecutive writes to a file, since a short write is continued."""
    joined: list[Change] = []
    for kind, path, size in found:
        if kind == "write" and joined and joined[-1][:2] == (kind, path):
            size += joined.pop()[2]
        joined.append((kind, path, size))
    return joined
