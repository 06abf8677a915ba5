"""Imports only point down, and a third party or a disk call is met in its own home only.

The lists below are the architecture (docs/architecture.md, docs/decisions/0001). Before you
change one to make a test pass, think: the usual answer is that the code belongs elsewhere.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

from kstore import _HOME, partition_files
from tidy.sources import (
    NATIVE,
    PACKAGE,
    ROOT,
    Import,
    cython_files,
    extern_headers,
    imports,
    module_name,
    python_files,
)

# From the bottom to the top: a folder or a module imports what stands before it, never behind.
ORDER = (
    "kstore.errors",
    "kstore.integers",
    "kstore.clock",
    "kstore.caller",
    "kstore.hints",
    "kstore.kafka_uuid",
    "kstore.aio",
    "kstore.lazy_dataclass",
    "kstore.config",
    "kstore.topic_partition",
    "kstore._native",
    "kstore.protocol",
    "kstore.record",
    "kstore.files",
    "kstore.checkpoint",
    "kstore.background",
    "kstore.segment",
    "kstore.producer_state",
    "kstore.recovery",
    "kstore.compaction",
    "kstore.verify",
    "kstore.maintenance",
    "kstore.log",
    "kstore.coordinator",
    "kstore.client",
    "kstore.store",
    "kstore.partition_files",
    "kstore.cluster",
    "kstore.security",
    "kstore.remote",
    "kstore.broker",
    "kstore.testing",
    "kstore.jit",
    "kstore.mirror",
    "kstore.handover",
    "kstore.svg_diagrams",
    "kstore.arguments",
    "kstore.report_lines",
    "kstore.signals",
    "kstore.spark",
    "kstore.bench",
    "kstore.cli",
    "kstore.__main__",
)
# Programs over the engine take its names from the public API, the modules of its vocabulary and
# the door; kernels that every record or batch of a Spark task goes through, directly.
DOOR = "kstore.partition_files"
THROUGH_THE_DOOR = ("kstore.spark", "kstore.cli", "kstore.handover", "kstore.mirror")
VOCABULARY = (
    "kstore.errors",
    "kstore.integers",
    "kstore.clock",
    "kstore.hints.close_names",
    "kstore.config",
    "kstore.topic_partition",
    "kstore.record",
)
SPARK_KERNELS = (
    "kstore._native.append.encode",
    "kstore._native.format.crc",
    "kstore._native.format.murmur2",
    "kstore._native.format.ragged_bytes",
    "kstore._native.spark",
)
# The errors and settings below the kernels, and those who use the public face, as a user does.
KERNELS = ORDER.index("kstore._native")
PEOPLE = ORDER.index("kstore.bench")

# A module of _native imports _native only; status turns its codes into exceptions, and integer
# refuses arguments.
NATIVE_EXCEPTIONS = {
    ("kstore._native.format.status", "kstore.errors"),
    ("kstore._native.format.integer", "kstore.integers"),
}

# Third parties (and asyncio, which costs as much as one): the only modules that may import them.
# Importing one for annotations only, under TYPE_CHECKING, is free everywhere.
HOMES = {
    "numpy": (
        "kstore.record.columns",
        "kstore.record.arrow",
        "kstore.record.dataframe",
        "kstore._native.jit",
        "kstore.bench",
        "kstore.spark",
    ),
    "numba": ("kstore._native.jit",),
    "llvmlite": ("kstore._native.jit",),
    "pandas": ("kstore.record.dataframe",),
    "pyarrow": ("kstore.record.arrow", "kstore.spark"),
    "pyspark": ("kstore.spark",),
    "cramjam": ("kstore.record.codec",),
    "jwt": ("kstore.security.json_web_keys",),
    "cryptography": ("kstore.security.json_web_keys", "kstore.security.keystores"),
    "re2": ("kstore.broker.topic_patterns",),
    "regex": ("kstore.spark.java_pattern",),
    "prometheus_client": ("kstore.broker.metrics",),
    "kafka": ("kstore.spark.jobs.cluster_sender",),
    "pytest": ("kstore.testing.fixtures",),
    "crc32c": ("kstore._native.format.crc",),
    "asyncio": (
        "kstore.log.follow",
        "kstore.log.view",
        "kstore.client.delivery",
        "kstore.client.loop_signal",
        "kstore.broker.broker",  # async with
    ),
}

# Modules through which a disk can be reached, and the only modules that may reach it so.
DISK = ("kstore.files.files", "kstore.files.file_lock", "kstore.files.lock_holders")
DISK_MODULES = {"mmap", "fcntl", "shutil", "tempfile", "glob", "io"}
DISK_CALLS = """
open close read write pread pwrite preadv pwritev readv writev lseek truncate ftruncate
posix_fallocate posix_fadvise fsync fdatasync sync sendfile copy_file_range rename replace renames
remove unlink rmdir removedirs mkdir makedirs listdir scandir walk stat lstat fstat link symlink
chmod chown utime access statvfs
"""
DISK_PATH_CALLS = {"exists", "isfile", "isdir", "getsize", "getmtime", "realpath", "lexists"}
PATHLIB_CALLS = """
read_bytes read_text write_bytes write_text unlink rmdir mkdir touch iterdir glob rglob exists
is_file is_dir stat
"""
# What a person types at may read and write files of its own; diagrams are drawn in memory;
# signals wake a thread through a pipe.
DISK_FREE = (
    "kstore.arguments",
    "kstore.cli",
    "kstore.bench",
    "kstore.__main__",
    "kstore.svg_diagrams",
    "kstore.signals",
    "kstore.testing",
)
# The steady append is one native call on a descriptor that files/files.py hands out; a located
# batch is read the same way. frames asks for huge pages for memory of its own: no disk.
NATIVE_DISK = {
    "kstore._native.files.file_map",
    "kstore._native.files.inode_and_size",
    "kstore._native.files.inotify",
    "kstore._native.files.owned_descriptor",
    "kstore._native.files.write_all",
    "kstore._native.format.batch_scan",
    "kstore._native.files.page_cache",
    "kstore._native.bench.disk_loops",
    "kstore._native.bench.socket_loops",
}
NATIVE_DISK_HEADERS = {"unistd.h", "sys/stat.h", "sys/uio.h", "sys/mman.h", "fcntl.h", "stdio.h"}
NATIVE_DISK_MODULES = ("posix.unistd", "posix.mman", "posix.fcntl", "posix.stat", "libc.stdio")


def within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(home + ".") for home in homes)


def layer_of(module: str) -> int | None:
    return next((n for n, home in enumerate(ORDER) if within(module, (home,))), None)


def all_imports() -> list[Import]:
    return [found for path in [*python_files(), *cython_files()] for found in imports(path)]


def layer_problem(importer: str, found: Import) -> str | None:
    """Why this import of a kstore module may not stand, or None."""
    own = layer_of(importer)
    if own is None:
        return f"{importer} has no layer: give it one in {Path(__file__).relative_to(ROOT)}"
    if found.module == "kstore" and own < PEOPLE and not within(f"kstore.{found.name}", ORDER):
        return f"{importer} imports the public face of kstore; take the name from its home"
    levels = [level for name in found.targets if (level := layer_of(name)) is not None]
    target = max(levels, default=-1)
    if target > own:
        return f"{importer} imports {found.targets[-1]}, but {ORDER[own]} stands below: point down"
    if own == KERNELS and -1 < target < own and (importer, found.module) not in NATIVE_EXCEPTIONS:
        return f"{importer} imports {found.module}; _native imports only _native"
    return None


def is_engine(module: str) -> bool:
    """Whether a module lies below the door and is not the vocabulary of its users."""
    own = layer_of(module)
    return own is not None and own < ORDER.index(DOOR) and not within(module, VOCABULARY)


def door_problem(importer: str, found: Import) -> str | None:
    """Why a program over the engine may not import this, for annotations either, or None."""
    if not within(importer, THROUGH_THE_DOOR) or not is_engine(found.targets[-1]):
        return None
    if _HOME.get(found.name or "") == found.module:
        return None
    if within(importer, ("kstore.spark",)) and within(found.targets[-1], SPARK_KERNELS):
        return None
    return f"{importer} imports {found.targets[-1]}: take it from the public API or {DOOR}"


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Every way of modules that comes back to where it began, each found once."""
    found: list[list[str]] = []
    done: set[str] = set()

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
        elif module not in done:
            for target in sorted(arrows.get(module, ())):
                follow(target, [*way, module])
            done.add(module)

    for module in sorted(arrows):
        follow(module, [])
    return found


def arrows() -> dict[str, set[str]]:
    """The modules that each module imports, when it is loaded or later."""
    modules = {module_name(path) for path in python_files()}
    between: dict[str, set[str]] = {}
    for found in all_imports():
        importer = module_name(found.path)
        named = [name for name in found.targets if name in modules]
        if named and not found.typing_only and importer != named[-1]:
            between.setdefault(importer, set()).add(named[-1])
    return between


def test_no_modules_import_each_other() -> None:
    assert circles(arrows()) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}}) == []


def test_the_layers_are_folders_and_modules_that_exist() -> None:
    for name in ORDER:
        path = PACKAGE.joinpath(*name.split(".")[1:])
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_the_package_imports_no_benchmark() -> None:
    benchmarks = ROOT / "benchmarks"
    outside = {path.stem for path in benchmarks.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert "engine" in outside
    assert [found.location for found in all_imports() if found.root in outside] == []


def test_imports_point_down() -> None:
    problems = []
    for found in all_imports():
        importer = module_name(found.path)
        if found.root != "kstore" or importer == "kstore" or found.typing_only:
            continue
        problem = layer_problem(importer, found)
        if problem is not None:
            problems.append(f"{found.location}: {problem}")
    assert problems == []


def test_programs_over_the_engine_use_the_public_api_or_the_door() -> None:
    problems = []
    for found in all_imports():
        problem = door_problem(module_name(found.path), found)
        if problem is not None:
            problems.append(f"{found.location}: {problem}")
    assert problems == []


def test_kernels_that_pass_the_door_are_used() -> None:
    used = {
        target
        for found in all_imports()
        if within(module_name(found.path), ("kstore.spark",))
        for target in found.targets
    }
    assert [name for name in SPARK_KERNELS if not any(within(one, (name,)) for one in used)] == []


def test_the_door_names_what_its_users_take() -> None:
    """Its two lists agree, and no name is left in it without a user."""
    typed = {
        (found.module, found.name)
        for found in imports(PACKAGE / "partition_files.py")
        if found.typing_only
    }
    modules = {(folder, name) for name, folder in partition_files._MODULES.items()}
    assert typed == modules | {(home, name) for name, home in partition_files._HOME.items()}
    taken = {
        found.name
        for found in all_imports()
        if found.module == DOOR and within(module_name(found.path), THROUGH_THE_DOOR)
    }
    assert taken == {name for _, name in typed}


def test_every_module_has_a_layer() -> None:
    modules = {module_name(path) for path in [*python_files(), *cython_files()]} - {"kstore"}
    assert [name for name in sorted(modules) if layer_of(name) is None] == []


def test_third_parties_stay_at_home() -> None:
    problems = []
    for found in all_imports():
        importer = module_name(found.path)
        if found.typing_only or found.root in ("kstore", "libc", "cpython", "posix", "cython"):
            continue
        homes = HOMES.get(found.root)
        if homes is not None and not within(importer, homes):
            problems.append(f"{found.location}: {found.root} belongs in {', '.join(homes)}")
        elif homes is None and found.root not in sys.stdlib_module_names:
            problems.append(f"{found.location}: {found.root} is no dependency of kstore")
    assert problems == []


def disk_uses(tree: ast.AST) -> list[tuple[int, str]]:
    """Every call by which Python reaches a disk: line and spelling."""
    uses = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            uses.append((node.lineno, "open()"))
        elif isinstance(function, ast.Attribute):
            owner = ast.unparse(function.value)
            if (owner == "os" and function.attr in DISK_CALLS.split()) or (
                owner == "os.path" and function.attr in DISK_PATH_CALLS
            ):
                uses.append((node.lineno, f"{owner}.{function.attr}()"))
            elif owner.startswith("Path(") and function.attr in PATHLIB_CALLS.split():
                uses.append((node.lineno, f"Path.{function.attr}()"))
    return uses


def defines_open(tree: ast.Module) -> bool:
    """kstore.store defines its own ``open``: there the bare name is not the builtin."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "open" for node in tree.body)


def test_the_disk_is_reached_through_one_module() -> None:
    problems = []
    for path in python_files():
        importer = module_name(path)
        if within(importer, DISK + DISK_FREE):
            continue
        tree = ast.parse(path.read_text())
        own_open = defines_open(tree)
        problems += [
            f"{path.relative_to(ROOT)}:{line}: {use} belongs in {DISK[0]}"
            for line, use in disk_uses(tree)
            if not (use == "open()" and own_open)
        ]
        problems += [
            f"{found.location}: {found.root} belongs in {DISK[0]}"
            for found in imports(path)
            if found.root in DISK_MODULES and not found.typing_only
        ]
    assert problems == []


def global_disks(tree: ast.AST) -> list[int]:
    """Lines that name the real disk, but for the default of a parameter ``files``."""
    defaults = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            pairs = [*zip(reversed(named), reversed(node.defaults), strict=False)]
            pairs += [
                (name, value)
                for name, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
                if value is not None
            ]
            defaults |= {id(value) for name, value in pairs if name.arg == "files"}
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "DISK" and id(node) not in defaults
    )


def test_spark_reaches_the_disk_that_is_passed_in() -> None:
    """Processes that Spark starts take theirs from ``kstore.spark.local_disk``."""
    home = PACKAGE / "spark" / "local_disk.py"
    problems = [
        f"{path.relative_to(ROOT)}:{line}: take `files` from the caller, or local_disk()"
        for path in python_files()
        if within(module_name(path), ("kstore.spark",)) and path != home
        for line in global_disks(ast.parse(path.read_text()))
    ]
    assert problems == []


def test_the_global_disk_check_sees() -> None:
    allowed = "def f(a, files=DISK, *, b=1): pass\ndef g(*, files=DISK): pass"
    assert global_disks(ast.parse(allowed)) == []
    assert global_disks(ast.parse("DISK.open(p)\ndef f(disk=DISK):\n    g(DISK)")) == [1, 2, 3]


def test_native_code_makes_system_calls_in_one_module() -> None:
    problems = []
    for path in cython_files():
        if module_name(path) in NATIVE_DISK:
            continue
        problems += [
            f"{path.relative_to(ROOT)}:{line}: <{header}> belongs in {', '.join(NATIVE_DISK)}"
            for line, header in extern_headers(path)
            if header in NATIVE_DISK_HEADERS
        ]
        problems += [
            f"{found.location}: {found.module} belongs in {', '.join(sorted(NATIVE_DISK))}"
            for found in imports(path)
            if found.module in NATIVE_DISK_MODULES or found.root in ("os", "mmap", "fcntl")
        ]
    assert problems == []


@pytest.mark.parametrize(
    ("importer", "text", "allowed"),
    [
        ("kstore/record/columns.py", "from kstore._native.read import decode", True),
        ("kstore/record/columns.py", "from kstore.log.log import Log", False),
        ("kstore/log/log.py", "def f():\n    from kstore.store.store import Store", False),
        ("kstore/log/log.py", "import kstore", False),
        ("kstore/log/log.py", "from kstore import open", False),
        ("kstore/log/log.py", "from kstore import errors", True),
        ("kstore/log/log.py", "from ..store import Store", False),
        ("kstore/log/log.py", "from .segment import Segment", True),
        ("kstore/cli/topics.py", "import kstore", True),
        (
            "kstore/_native/append/validate_batch.pyx",
            "from kstore.errors import KStoreError",
            False,
        ),
        ("kstore/_native/format/status.pyx", "    from kstore.errors import KStoreError", True),
        (
            "kstore/_native/append/validate_batch.pyx",
            "from kstore._native.format.cursor cimport get_i32, get_i64",
            True,
        ),
        ("kstore/_native/append/validate_batch.pyx", "cimport kstore.record.columns", False),
        ("kstore/_native/append/validate_batch.pyx", '"""\nfrom kstore.log import Log\n"""', True),
    ],
)
def test_the_layer_check_sees(
    importer: str, text: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker itself: what it allows and what it must refuse."""
    path = PACKAGE.parent / importer
    original = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self: text if self == path else original(self), raising=True
    )
    problems = [layer_problem(module_name(path), found) for found in imports(path)]
    assert all(problem is None for problem in problems) is allowed


@pytest.mark.parametrize(
    ("importer", "text", "allowed"),
    [
        ("kstore/spark/session.py", "from kstore.files.files import DISK", False),
        ("kstore/spark/session.py", "from kstore.files import filenames", False),
        ("kstore/cli/verify.py", "def f():\n    import kstore.store.log_manager", False),
        ("kstore/mirror/copy.py", "if TYPE_CHECKING:\n    from kstore.log.log import X", False),
        ("kstore/mirror/copy.py", "if TYPE_CHECKING:\n    from kstore.log.log import Log", True),
        ("kstore/handover/plan.py", "from kstore.store.open_store import open", True),
        ("kstore/handover/plan.py", "from kstore.store.open_store import Paths", False),
        ("kstore/handover/plan.py", "from kstore.handover.report import KRAFT", True),
        ("kstore/cli/verify.py", "from kstore.partition_files import DISK", True),
        ("kstore/cli/verify.py", "from kstore._native.format.crc import crc32", False),
        ("kstore/spark/sink/stager.py", "from kstore._native.format.crc import crc32", True),
        ("kstore/spark/sink/stager.py", "from kstore._native.format import ragged_bytes", True),
        ("kstore/spark/sink/stager.py", "from kstore._native.read.decode import Scanner", False),
        ("kstore/spark/sink/stager.py", "from kstore.record import codec", True),
        ("kstore/store/store.py", "from kstore.files.files import DISK", True),
    ],
)
def test_the_door_check_sees(
    importer: str, text: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = PACKAGE.parent / importer
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    problems = [door_problem(module_name(path), found) for found in imports(path)]
    assert problems
    assert all(problem is None for problem in problems) is allowed


def test_the_disk_check_sees() -> None:
    text = "import os\nos.fsync(3)\nos.path.exists('a')\nopen('x')\nPath('x').read_bytes()\n"
    assert [line for line, _ in disk_uses(ast.parse(text))] == [2, 3, 4, 5]
    assert disk_uses(ast.parse("os.fspath(x); os.path.join(a, b); files.open(p)")) == []


def test_the_files_are_found() -> None:
    assert NATIVE / "format" / "cursor.pxd" in cython_files()
    assert PACKAGE / "errors.py" in python_files()


FOLDERS_WITH_A_LIST = [
    path
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "Modules:" in path.read_text() and NATIVE not in path.parents
]


@pytest.mark.parametrize("init", FOLDERS_WITH_A_LIST, ids=lambda path: path.parent.name)
def test_a_folder_lists_its_modules(init: Path) -> None:
    text = ast.get_docstring(ast.parse(init.read_text())) or ""
    listed = re.findall(r"^- (\w+): \S", text, re.MULTILINE)
    modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
    assert listed == sorted(modules)


def test_the_folders_of_the_engine_have_a_list() -> None:
    engine = ORDER[ORDER.index("kstore.protocol") : ORDER.index("kstore.store") + 1]
    folders = {path.parent.name for path in FOLDERS_WITH_A_LIST}
    assert {name.split(".")[1] for name in engine} - folders == {"coordinator"}  # in its two
