"""The environment of a run: machine, kernel, disk, versions. Printed before any figure."""

import os
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from time import sleep

from kstore._native.bench import memory_loops
from kstore._native.format.crc import cpu_path, supported_paths

Environment = dict[str, dict[str, str]]
NO_DISK = "{} is memory: no figure of this run is a disk's; --dir names a directory on one"
# CPU features by which the kernels and the C library choose their instructions.
FEATURES = "sse4_2 pclmulqdq avx2 vpclmulqdq avx512f avx512bw avx512vl gfni bmi2 crc32 pmull sve"
PACKAGES = (
    "kstore",
    "numpy",
    "numba",
    "crc32c",
    "google-crc32c",
    "aiokafka",
    "kafka-python",
    "confluent-kafka",
    "lmdb",
    "rocksdict",
    "pyarrow",
    "hdrhistogram",
    "matplotlib",
)
PROGRAMS = ("redis-server", "nats-server", "java")
STAT = Path("/proc/stat")
SAMPLED = 0.25  # seconds, of which the busy fraction of the processors is taken
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")  # file systems without a disk


def environment(directory: Path, congestion: str = "") -> Environment:
    """Everything that figures depend on and that the system reports, by subject.

    ``congestion``: the congestion control of the sockets, which is not always the system's.
    """
    return {
        "cpu": cpu(),
        "memory": memory(),
        "system": system(),
        "disk": disk(directory),
        "network": network(congestion),
        "software": software(),
    }


def lines(found: Environment) -> list[str]:
    """The environment as text, one line per subject."""
    text = []
    for subject, facts in found.items():
        known = [f"{name} {value}" for name, value in facts.items() if value]
        text.append(f"{subject:<9} {'; '.join(known)}")
    return text


def _read(path: str | Path) -> str:
    """The contents of a file of /proc or /sys; empty if it does not exist."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _fields(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _read(path).splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _chosen(text: str) -> str:
    """The word in brackets, with which the kernel marks the active one of several choices."""
    return text.partition("[")[2].partition("]")[0] or text


def cpu() -> dict[str, str]:
    facts = _fields("/proc/cpuinfo")
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    return {
        "model": facts.get("model name") or platform.processor() or platform.machine(),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "features": " ".join(name for name in FEATURES.split() if name in flags),
        "hypervisor": "yes" if "hypervisor" in flags else "",
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "caches": ", ".join(_caches()),
        "checksums by": f"{cpu_path()} (of {', '.join(supported_paths())})",
        "KSTORE_CPU": os.environ.get("KSTORE_CPU", ""),
    }


def _caches() -> list[str]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = _read(index / "type").replace("Unified", "").replace("Instruction", "i")
        found.append(
            f"L{_read(index / 'level')}{kind.replace('Data', 'd')} {_read(index / 'size')}"
        )
    return found


def last_level_cache() -> int:
    """Bytes of the largest processor cache; 0 if the system does not report them."""
    indexes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    return max((cache_size(_read(index / "size")) for index in indexes), default=0)


def cache_size(text: str) -> int:
    """Bytes of a size as sysfs writes it (``491520K``); 0 if it is none."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * factor if digits.isdigit() else 0


def available_memory() -> int:
    """Bytes of available memory; 0 if the system does not report them."""
    words = _fields("/proc/meminfo").get("MemAvailable", "").split()
    return int(words[0]) << 10 if words else 0


def memory() -> dict[str, str]:
    facts = _fields("/proc/meminfo")

    def gib(name: str) -> str:
        words = facts.get(name, "").split()
        return f"{int(words[0]) / (1 << 20):.1f} GiB" if words else ""

    return {
        "total": gib("MemTotal"),
        "available": gib("MemAvailable"),
        "page cache": gib("Cached"),
        "dirty": gib("Dirty"),
        "page": f"{os.sysconf('SC_PAGE_SIZE')} B",
        "huge pages": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "dirty_ratio": _read("/proc/sys/vm/dirty_ratio"),
        "dirty_background_ratio": _read("/proc/sys/vm/dirty_background_ratio"),
    }


def system() -> dict[str, str]:
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "processors busy": _busy(),
    }


def _busy() -> str:
    """``34 %`` of the processors now, while this process waits; empty if the system does not report
    it. Unlike the load, it has nothing of a run that ended a moment ago."""
    before = _read(STAT)
    sleep(SAMPLED)
    share = busy_share(before, _read(STAT))
    return "" if share is None else f"{100 * share:.0f} %"


def busy_share(before: str, after: str) -> float | None:
    """The fraction of the processors' time that was used between two contents of ``/proc/stat``.

    Time in which a hypervisor ran other machines (steal) is used, waiting for a disk is not. None
    if these are no such contents, or of the same moment.
    """
    was, now = _ticks(before), _ticks(after)
    if len(was) < 8 or len(now) < 8:
        return None
    passed = [b - a for a, b in zip(was, now, strict=False)][:8]
    idle = passed[3] + passed[4]
    return (sum(passed) - idle) / sum(passed) if sum(passed) > 0 else None


def _ticks(stat: str) -> list[int]:
    """User, nice, system, idle, iowait, irq, softirq, steal ... of all processors together."""
    name, *ticks = stat.partition("\n")[0].split() or [""]
    return [int(each) for each in ticks] if name == "cpu" else []


def mount_of(directory: Path) -> tuple[str, str, str, str]:
    """Device, mount point, file system and options of the mount of a directory."""
    best = ("", "/", "", "")
    number = os.stat(directory).st_dev
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        _, _, device, _, point, options = before.split()[:6]
        kind, source, more = [*after.split(), "", "", ""][:3]
        if device == f"{os.major(number)}:{os.minor(number)}":
            best = (source, point, kind, ",".join(dict.fromkeys(f"{options},{more}".split(","))))
    return best


def in_memory(directory: Path) -> str:
    """The file system (``tmpfs``) of a directory whose files are in memory; else empty."""
    kind = mount_of(directory)[2]
    return kind if kind in IN_MEMORY else ""


def absent(peers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Which of these packages and programs are not installed, and how to install each."""
    return {
        name: f"not installed: {how}"
        for name, how in peers
        if not (_is_installed(name) or shutil.which(name))
    }


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def disk(directory: Path) -> dict[str, str]:
    source, point, kind, options = mount_of(directory)
    usage = shutil.disk_usage(directory)
    number = os.stat(directory).st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    queue = block / "queue" if (block / "queue").exists() else block / ".." / "queue"
    device = block / "device" if (block / "device").exists() else block / ".." / "device"
    return {
        "NO DISK": NO_DISK.format(kind) if in_memory(directory) else "",
        "directory": str(directory),
        "file system": kind,
        "mounted at": point,
        "options": options,
        "device": source,
        "model": _read(device / "model"),
        "rotational": {"0": "no", "1": "yes"}.get(_read(queue / "rotational"), ""),
        "scheduler": _chosen(_read(queue / "scheduler")),
        "write cache": _read(queue / "write_cache"),
        "free": f"{usage.free / (1 << 30):.1f} of {usage.total / (1 << 30):.1f} GiB",
    }


def network(congestion: str = "") -> dict[str, str]:
    return {
        "sockets": "loopback",
        "congestion control": congestion,
        "the system's": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "allowed": allowed_congestion(),
        "available": _read("/proc/sys/net/ipv4/tcp_available_congestion_control"),
    }


def allowed_congestion() -> str:
    """Congestion controls that an unprivileged process may set."""
    return _read("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


def software() -> dict[str, str]:
    found = {
        "python": platform.python_version(),
        "Python compiled by": platform.python_compiler(),
        "kstore compiled by": memory_loops.compiler(),
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if find_spec(name.replace("-", "_")) is not None:
                found[name] = "not installed as a package"
    found["programs"] = " ".join(name for name in PROGRAMS if shutil.which(name))
    return found
