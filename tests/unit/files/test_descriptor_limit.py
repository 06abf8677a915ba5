"""Modules that are loaded on first use, in a process without a free file descriptor."""

import errno
import os
from pathlib import Path

import pytest

from kstore.errors import TooManyOpenFilesError
from kstore.files.descriptor_limit import loading
from support.stores import python

EXHAUST = """
import os, resource, sys
def exhaust():
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        return taken
"""


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, os.strerror(errno.EMFILE), "a.py"),
        OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
        ImportError("a.so: cannot open shared object file: Too many open files", path="a.so"),
    ],
)
def test_an_import_that_lacks_descriptors_raises_the_typed_error(error: Exception) -> None:
    with (
        pytest.raises(TooManyOpenFilesError, match=r"^cannot compact: .*raise") as raised,
        loading("cannot compact"),
    ):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), ImportError("no module x")])
def test_other_failed_imports_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, loading("cannot compact"):
        raise error
    assert raised.value is error


def test_modules_and_kernels_that_cannot_be_opened(tmp_path: Path) -> None:
    code = """
import importlib
from kstore.errors import TooManyOpenFilesError
from kstore.files.descriptor_limit import loading
taken = exhaust()
for name in ("kstore.segment.salvage", "kstore._native.compaction.offset_map"):
    try:
        with loading("cannot compact"):
            importlib.import_module(name)
    except TooManyOpenFilesError as error:
        print(error.errno)
for fd in taken:
    os.close(fd)
import kstore.segment.salvage, kstore._native.compaction.offset_map
"""
    assert python(EXHAUST + code) == f"{errno.EMFILE}\n" * 2


def test_a_kernel_alone_that_cannot_be_opened(tmp_path: Path) -> None:
    """Its folder is known to the import system already, so that only the linker fails."""
    code = """
import kstore._native.compaction as folder
from importlib.util import find_spec, module_from_spec
from kstore.errors import TooManyOpenFilesError
from kstore.files.descriptor_limit import loading
spec = find_spec("kstore._native.compaction.offset_map")
taken = exhaust()
try:
    with loading("cannot compact"):
        module_from_spec(spec)
except TooManyOpenFilesError as error:
    print(error.errno, error.path == spec.origin)
"""
    assert python(EXHAUST + code) == f"{errno.EMFILE} True\n"


def test_corrupt_batches_are_skipped_with_a_typed_error(tmp_path: Path) -> None:
    code = """
import kstore
from kstore.errors import CorruptRecordError, TooManyOpenFilesError
with kstore.open(sys.argv[1]) as store:
    log = store.create_topic("t")[0]
    log.append(b"first")
    log.append(b"second")
    with open(log.segments.views[0].path, "r+b") as file:
        file.seek(70)
        file.write(b"x")
    try:
        list(log)
    except CorruptRecordError:
        pass
    taken = exhaust()
    try:
        list(log.view().records(on_damage="skip"))
    except TooManyOpenFilesError as error:
        print(str(error).partition(":")[0])
    for fd in taken:
        os.close(fd)
    print([record.value for record in log.view().records(on_damage="skip")])
"""
    assert python(EXHAUST + code, tmp_path).splitlines() == [
        "cannot look for valid batches",
        "[b'second']",
    ]


def test_the_cleaner_retries_and_does_not_give_the_partition_up(tmp_path: Path) -> None:
    code = """
import kstore
from kstore.compaction import round_plan
failures = []
config = kstore.StoreConfig(background=False, on_background_error=failures.append)
with kstore.open(sys.argv[1], config=config) as store:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    log = store.create_topic("t", config=settings)[0]
    for _ in range(2):
        log.append(b"value", key=b"key")
    log.roll()
    log.append(b"value", key=b"key")
    cleaner = store._manager.cleaner
    found = cleaner.grab_filthiest(store._manager)
    taken = exhaust()
    cleaner._clean(store._manager, found)
    print(*[(type(each.error).__name__, each.topic, each.is_lasting) for each in failures])
    print(cleaner.uncleanable)
    for fd in taken:
        os.close(fd)
    cleaner._clean(store._manager, found)
    print([record.offset for record in log])
"""
    assert python(EXHAUST + code, tmp_path).splitlines() == [
        "('TooManyOpenFilesError', 't', False)",
        "()",
        "[1, 2]",
    ]


def test_a_sync_of_several_files_needs_no_module_of_threads(tmp_path: Path) -> None:
    code = """
from kstore.files.files import DISK
fds = [os.open(sys.argv[1] + name, os.O_WRONLY | os.O_CREAT) for name in "ab"]
taken = exhaust()
DISK.sync_all(fds)
print("synced", "concurrent.futures" in sys.modules)
"""
    assert python(EXHAUST + code, f"{tmp_path}/") == "synced False\n"
