"""Sending a file in page cache to a socket, over loopback TCP.

The sender is this thread and the receiver another one, both loops in C, each pinned to its own CPU
if there are two. The congestion control is set on both sockets (``cubic`` unless
``KSTORE_BENCH_CONGESTION`` names another), since a default of bbr would measure its pacing. If an
unprivileged process may not set the default, reno replaces it, which every kernel allows. Processor
time is that of each thread, including the kernel; on loopback the sender's thread also does much of
the work of a network card.
"""

import fcntl
import mmap
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from time import perf_counter, thread_time

from kstore._native.bench import memory_loops, socket_loops
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import block_of, prewrite
from kstore.bench.machine.sizes import KIB, MIB, size_text
from kstore.bench.runner.environment import allowed_congestion
from kstore.bench.workload import Setting, Workload
from kstore.errors import KStoreError

CONGESTION = "cubic"
ALWAYS = "reno"  # compiled in and allowed everywhere
NAMED_BY = "KSTORE_BENCH_CONGESTION"
ROOM = MIB  # of a receiver's buffer
PIPE = MIB
_F_SETPIPE_SZ = 1031
Calls = dict[str, Callable[[], object]]
Send = Callable[[int], object]


def congestion(missing: dict[str, str] | None = None) -> str:
    """The congestion control of the sockets.

    ``missing`` records that the default is not allowed and ``reno`` replaces it. KStoreError if
    ``KSTORE_BENCH_CONGESTION`` names one that the kernel does not have or allow.
    """
    named = os.environ.get(NAMED_BY)
    wanted = CONGESTION if named is None else named
    reason = _refused(wanted)
    if not reason:
        return wanted
    if named is not None:
        raise KStoreError(
            f"{NAMED_BY}={named}: {reason}; allowed here: {allowed_congestion()}; "
            f"unset it for {CONGESTION}"
        )
    if missing is not None:
        missing[f"congestion control {wanted}"] = f"{reason}: {ALWAYS} instead"
    return ALWAYS


def _refused(control: str) -> str:
    """Why a socket cannot have a congestion control, or an empty string."""
    with closing(socket.socket()) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        except OSError as error:
            return error.strerror or str(error)
        given = probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    found = given.rstrip(b"\0").decode()
    return "" if found == control else f"the kernel gave {found}"


@contextmanager
def connection(control: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a loopback connection."""
    with closing(socket.socket()) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        with closing(socket.socket()) as near:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            near.connect(listening.getsockname())
            far = listening.accept()[0]
            with closing(far):
                yield near, far


def two_cpus() -> tuple[int, int] | tuple[None, None]:
    """Two CPUs of this process, of different cores if possible."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return None, None
    first = cpus[0]
    path = Path(f"/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list")
    try:
        listed = path.read_text(encoding="ascii")
    except OSError:
        listed = str(first)
    beside = siblings(listed)
    return first, next((cpu for cpu in cpus[1:] if cpu not in beside), cpus[1])


def siblings(listed: str) -> set[int]:
    """The numbers of a list as Linux writes it: ``0-1,4``."""
    found: set[int] = set()
    for part in listed.strip().split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


@contextmanager
def pinned(cpu: int | None) -> Iterator[None]:
    """Pin this thread to a CPU."""
    before = os.sched_getaffinity(0)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Receiver(Thread):
    """The receiving thread: counts bytes, and copies them or lets the kernel drop them."""

    def __init__(self, end: socket.socket, cpu: int | None, *, drop: bool, keep: bool) -> None:
        super().__init__(daemon=True)
        self._end, self._cpu, self._drop = end, cpu, drop
        self.kept: bytearray | None = bytearray() if keep else None
        self.received = 0
        self.cpu_seconds = 0.0
        self.ended = 0.0
        self.error: OSError | None = None

    def run(self) -> None:
        with pinned(self._cpu):
            started = thread_time()
            try:
                self._receive()
            except OSError as error:
                self.error = error
            self.ended = perf_counter()
            self.cpu_seconds = thread_time() - started

    def _receive(self) -> None:
        buffer = bytearray(ROOM)
        if self.kept is None:
            self.received = socket_loops.receive(self._end.fileno(), buffer, drop=self._drop)
            return
        while size := self._end.recv_into(buffer):
            self.kept += memoryview(buffer)[:size]
            self.received += size


class Sending:
    """Sends of a file by any method to a receiver of either kind."""

    def __init__(self, setting: Setting, chunk: int) -> None:
        self.size = max(setting.size // MIB * MIB, MIB)
        self.chunk = chunk
        self.path = setting.directory / "sent"
        if not self.path.exists():
            prewrite(self.path, self.size, zeros=False)
        self.control = congestion(setting.missing)
        self.cpus = two_cpus()
        self.buffer = block_of(max(chunk, ROOM))
        self.checked: set[str] = set()
        self.file = os.open(self.path, os.O_RDONLY)
        self.mapping = mmap.mmap(self.file, self.size, prot=mmap.PROT_READ)
        memory_loops.read_all(self.mapping)
        self.pipe = os.pipe()
        try:
            fcntl.fcntl(self.pipe[1], _F_SETPIPE_SZ, PIPE)
        except OSError:  # more than /proc/sys/fs/pipe-max-size
            setting.missing["splice by 1 MiB"] = "pipes may not be so large here: 64 KiB at a time"

    def close(self) -> None:
        self.mapping.close()
        for fd in (self.file, *self.pipe):
            os.close(fd)

    def methods(self) -> dict[str, Send]:
        """Ways to send all of the file to a descriptor."""
        file, size, chunk = self.file, self.size, self.chunk
        return {
            "sendfile": lambda out: socket_loops.send_file(out, file, size, chunk),
            "read+send": lambda out: socket_loops.read_and_send(
                out, file, self.buffer, size, chunk
            ),
            "mmap+send": lambda out: socket_loops.send_memory(out, self.mapping, size, chunk),
            "splice": lambda out: socket_loops.splice_file(
                out, file, *self.pipe, size, min(chunk, PIPE)
            ),
            "mmap+send, MSG_ZEROCOPY": lambda out: socket_loops.send_zerocopy(
                out, self.mapping, size, chunk
            ),
            "sendfile, from Python": self._by_python,
        }

    def _by_python(self, out: int) -> None:
        at = 0
        while at < self.size:
            at += os.sendfile(out, self.file, at, min(self.chunk, self.size - at))

    def hot(self, out: int) -> None:
        """Send one chunk of memory repeatedly: the cheapest send that copies. Sends without a copy
        may be cheaper, so it is no ceiling."""
        socket_loops.send_memory(out, self.buffer, self.size, self.chunk, repeated=True)

    def sent(self, name: str, send: Send, *, drop: bool) -> Timed:
        """Send everything; seconds per chunk, and the processor time of both ends.

        The first time, the received bytes are compared with the file, unless they are dropped or
        not the file's; later only their size, since comparing them would dominate the time.
        """
        keep = not drop and send != self.hot and name not in self.checked
        with connection(self.control) as (near, far):
            receiver = Receiver(far, self.cpus[1], drop=drop, keep=keep)
            receiver.start()
            with pinned(self.cpus[0]):
                started, began = perf_counter(), thread_time()
                send(near.fileno())
                near.shutdown(socket.SHUT_WR)
                cpu = thread_time() - began
            receiver.join()
        if receiver.error is not None:
            raise receiver.error
        if receiver.received != self.size:
            raise AssertionError(f"{receiver.received} of {self.size} bytes arrived")
        if receiver.kept is not None:
            with memoryview(self.mapping) as data:
                if receiver.kept != data:
                    raise AssertionError(f"{name}: other bytes arrived than were sent")
            self.checked.add(name)
        chunks = self.size / self.chunk
        also = {"sender CPU": cpu / chunks, "receiver CPU": receiver.cpu_seconds / chunks}
        return Timed((receiver.ended - started) / chunks, result=self.size, also=also)


def sends(setting: Setting) -> Iterator[Contest]:
    """Every method, by chunk size and kind of receiver."""
    for chunk in setting.pick(
        (64 * KIB, MIB),
        (16 * KIB, 64 * KIB, 256 * KIB, MIB),
        (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB),
    ):
        for drop, kind in ((False, "copies"), (True, "drops")):
            with closing(Sending(setting, chunk)) as work:
                pins = f"pinned to CPUs {work.cpus[0]} and {work.cpus[1]}"
                calls: Calls = {
                    name: partial(work.sent, name, send, drop=drop)
                    for name, send in work.methods().items()
                }
                try:
                    calls["mmap+send, MSG_ZEROCOPY"]()
                except OSError as error:
                    setting.missing["MSG_ZEROCOPY"] = str(error)
                    del calls["mmap+send, MSG_ZEROCOPY"]
                hot = "send of one hot buffer"
                calls[hot] = partial(work.sent, hot, work.hot, drop=drop)
                yield Contest(
                    name=f"chunks of {size_text(chunk)} to a receiver that {kind}, "
                    f"{work.control}, {pins if work.cpus[0] is not None else 'not pinned'}",
                    calls=calls,
                    amount=chunk,
                    size=chunk,
                    bars=(
                        ("sendfile", "read+send", None),
                        ("sendfile sender CPU", "read+send sender CPU", None),
                        ("sendfile, from Python", "sendfile", None),
                    ),
                    rounds=setting.pick(5, 7, 15),
                )


WORKLOADS = (
    Workload(
        group="sockets",
        name="send",
        about="a file in page cache to a loopback socket: sendfile, read+send, mmap+send, splice, "
        "MSG_ZEROCOPY, and the processor time of both ends",
        ceiling="the best method of the run",
        shows="64 KiB; 1 MiB; sendfile; read+send; mmap+send; splice; MSG_ZEROCOPY; "
        "sendfile, from Python; a receiver that copies; a receiver that drops; sender "
        "CPU; receiver CPU; cubic",
        sizes=(32 << 20, 256 << 20, 1 << 30),
        contests=sends,
        count=(4, 8, 12),
        weight=2,
    ),
)
