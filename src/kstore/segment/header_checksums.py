"""Checksums over batch headers of a rolled segment, which Kafka's own checksums leave out.

A batch's checksum covers neither its offset nor its size nor (v2) its leader epoch. So a file
``kstore.seal.<base offset>`` holds a CRC-32C over the first 21 bytes of every 64 batches. It
names inode, change time and size of its segment, and is valid for that file only:
Kafka's cleaner writes another file under the same name. It also names the next segment,
whose loss is noticed so. Without this file the segment is as safe as
Kafka's. Format: docs/format/kstore-files.md.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from typing import NamedTuple

from kstore._native.format.crc import crc32c
from kstore._native.recovery.header_checksums import ENTRY_SIZE, ChecksumCheck, ChecksumWriter
from kstore.errors import NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.filenames import TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile

FORMAT = 1
WINDOW = 1 << 20  # bytes read at a time
_LOGGER = logging.getLogger("kstore")
_FOLLOWING = "following"  # base offset of the next segment
_MOST = 1 << 30  # bytes of a checksum file: more than any segment needs


class HeaderChecksums(NamedTuple):
    """Header checksums that are valid for their segment."""

    check: ChecksumCheck
    following: int | None  # base offset of the next segment at that time; None: unknown


def path_of(directory: str | os.PathLike[str], base_offset: int) -> str:
    return os.path.join(directory, filenames.header_checksums_name(base_offset))


def write(
    files: Files,
    directory: str | os.PathLike[str],
    base_offset: int,
    following: int | None = None,
) -> bool:
    """Write the checksums of a segment that is not appended to; False where that fails.

    ``following`` is the base offset of the next segment, whose name is on disk. The caller keeps
    the log from being truncated meanwhile: an audit reports a segment that is missing.
    The file appears complete or not at all, and is not synced: a power cut may lose it.
    It is optional, so errors of the disk are only logged.
    """
    path = path_of(directory, base_offset)
    try:
        if files.exists(path):
            _check_format(files.read(path, limit=_MOST), path)
        data = _make(files, os.path.join(directory, filenames.log_name(base_offset)), following)
        if data is None:
            return False
        _replace(files, path, data)
    except (StorageError, NewerFormatError) as error:
        log = os.path.join(directory, filenames.log_name(base_offset))
        if isinstance(error, StorageError) and error.errno == ENOENT and not files.exists(log):
            return False  # the segment left the log
        _LOGGER.warning("no header checksums were written for a segment: %s", error)
        return False
    return True


def _replace(files: Files, path: str, data: bytes) -> None:
    with OpenFile(files, path + TEMPORARY_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        files.write(fd, data)
    files.rename(path + TEMPORARY_SUFFIX, path)


def name_following(
    files: Files, directory: str | os.PathLike[str], base_offset: int, following: int
) -> None:
    """Add the next segment's base offset to a checksum file of the present segment that has none.

    The caller keeps the log from being truncated, as for :func:`write`. Logs errors of the disk.
    """
    path = path_of(directory, base_offset)
    try:
        data = files.read(path, limit=_MOST) if files.exists(path) else b""
        stamp = _stamp_of(data)
        log = os.path.join(directory, filenames.log_name(base_offset))
        if stamp is None or _following_of(data) is not None or stamp != _stamp_now(files, log):
            return
        line, _, groups = data[:-4].partition(b"\n")
        data = json.dumps({**json.loads(line), _FOLLOWING: following}).encode() + b"\n" + groups
        _replace(files, path, data + crc32c(data).to_bytes(4, "big"))
    except StorageError as error:
        _LOGGER.warning("header checksums do not name the next segment: %s", error)


def renew(
    files: Files, directory: str | os.PathLike[str], base_offset: int
) -> tuple[bytes | None, int | None]:
    """New header checksums, and the position where the segment contradicts its present ones.

    No checksums for a segment that cannot have any, or whose file a newer kstore wrote. A
    contradicted file must not be replaced: no checksums then, either.
    """
    path = path_of(directory, base_offset)
    old = b""
    if files.exists(path):
        old = files.read(path, limit=_MOST)
        try:
            _check_format(old, path)
        except NewerFormatError as error:
            _LOGGER.warning("a file of header checksums is not replaced: %s", error)
            return None, None
    log = os.path.join(directory, filenames.log_name(base_offset))
    stamp = _stamp_of(old)
    following = (
        _following_of(old) if stamp is not None and stamp == _stamp_now(files, log) else None
    )
    data = _make(files, log, following)
    if data is None or _stamp_of(old) != _stamp_of(data):
        return data, None
    before, now = (each[each.index(b"\n") + 1 : -4] for each in (old, data))
    for at in range(0, len(before), ENTRY_SIZE):
        if before[at : at + ENTRY_SIZE] != now[at : at + ENTRY_SIZE]:
            return None, int.from_bytes(before[at : at + 8], "big")
    return data, None


def _make(files: Files, path: str, following: int | None) -> bytes | None:
    with OpenFile(files, path) as fd:
        stamp = files.stamp(fd)
        size = stamp[2]
        writer = ChecksumWriter(size)
        while writer.position < size:
            window = files.pread(fd, min(WINDOW, size - writer.position), writer.position)
            if not writer.feed(window):
                return None
        if files.stamp(fd) != stamp:
            return None
    groups = writer.finish()
    about = {
        "format": FORMAT,
        "inode": stamp[0],
        "ctime_ns": stamp[1],
        "size": size,
        "batches": writer.batches,
    }
    if following is not None:
        about[_FOLLOWING] = following
    data = json.dumps(about).encode() + b"\n" + groups
    return data + crc32c(data).to_bytes(4, "big")


def load(
    files: Files, directory: str | os.PathLike[str], base: int, fd: int
) -> HeaderChecksums | None:
    """The checksums of an open segment; None where they are missing, incomplete or of another.

    Raises NewerFormatError for a file that a newer kstore wrote.
    """
    path = path_of(directory, base)
    try:
        data = files.read(path, limit=_MOST) if files.exists(path) else b""
    except StorageError:
        return None
    _check_format(data, path)
    stamp = files.stamp(fd)
    if _stamp_of(data) != stamp:
        return None
    check = ChecksumCheck(data[data.index(b"\n") + 1 : -4], stamp[2])
    return HeaderChecksums(check, _following_of(data))


def read_following(
    files: Files,
    directory: str | os.PathLike[str],
    base: int,
    stamp: tuple[int, int, int] | None,
) -> int | None:
    """The base offset of the next segment by a complete checksum file; None if it has none.

    ``stamp``: inode, change time and size of the log file, which must match; None: of any file.
    Raises NewerFormatError for a file of a newer kstore.
    """
    path = path_of(directory, base)
    data = files.read(path, limit=_MOST)
    _check_format(data, path)
    found = _stamp_of(data)
    return None if found is None or stamp not in (None, found) else _following_of(data)


def read_stamp(
    files: Files, directory: str | os.PathLike[str], base: int
) -> tuple[int, int, int] | None:
    """Inode, change time and size of the log file that a checksum file is of; None if torn.

    Raises StorageError, and NewerFormatError for a file of a newer kstore.
    """
    path = path_of(directory, base)
    data = files.read(path, limit=_MOST)
    _check_format(data, path)
    return _stamp_of(data)


def is_current(files: Files, directory: str | os.PathLike[str], base: int) -> bool:
    """Whether a segment has a checksum file that was written for the present log file.

    Also where the segment contradicts it. False where that cannot be read.
    """
    try:
        if not files.exists(path_of(directory, base)):
            return False
        log = os.path.join(directory, filenames.log_name(base))
        return read_stamp(files, directory, base) == _stamp_now(files, log)
    except (StorageError, NewerFormatError):
        return False


def boundaries(files: Files, directory: str | os.PathLike[str], base: int, fd: int) -> list[int]:
    """Positions of every 64th batch in an open segment, by its checksum file; raises as load."""
    path = path_of(directory, base)
    if load(files, directory, base, fd) is None:
        return []
    data = files.read(path, limit=_MOST)
    groups = data[data.index(b"\n") + 1 : -4]
    return [int.from_bytes(groups[at : at + 8], "big") for at in range(0, len(groups), ENTRY_SIZE)]


def _check_format(data: bytes, path: str) -> None:
    end = data.find(b"\n", 0, 4096)
    try:
        about = json.loads(data[: max(end, 0)])
    except (ValueError, RecursionError):
        return
    number = about.get("format") if isinstance(about, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise NewerFormatError(
            f"header checksums of format {number}, and this kstore knows only format {FORMAT}: use "
            "a newer one, or remove the file; then the headers are not checked",
            path=path,
        )


def _stamp_of(data: bytes) -> tuple[int, int, int] | None:
    """Inode, change time and size in a checksum file; None for bytes that are not one."""
    end = data.find(b"\n", 0, 4096)
    if end < 0 or (len(data) - end - 1 - 4) % ENTRY_SIZE or len(data) < end + 5:
        return None
    if crc32c(data[:-4]) != int.from_bytes(data[-4:], "big"):
        return None
    about = json.loads(data[:end])
    if about["format"] != FORMAT:
        return None
    return about["inode"], about["ctime_ns"], about["size"]


def _stamp_now(files: Files, path: str) -> tuple[int, int, int]:
    with OpenFile(files, path) as fd:
        return files.stamp(fd)


def _following_of(data: bytes) -> int | None:
    """The base offset of the next segment in a complete checksum file."""
    following = json.loads(data[: data.index(b"\n")]).get(_FOLLOWING)
    return following if isinstance(following, int) else None


def remove(files: Files, directory: str | os.PathLike[str], base_offset: int) -> None:
    path = path_of(directory, base_offset)
    if files.exists(path):
        files.remove(path)


def forget_following(files: Files, directory: str | os.PathLike[str], base_offset: int) -> bool:
    """Before later segments are removed: no checksum file may say that they follow.

    Removes the checksum files of this segment and of all later ones; whether any existed. The
    caller syncs the directory before it removes the first segment.
    """
    first = filenames.header_checksums_name(base_offset)
    names = [
        name
        for name in files.listdir(directory)
        if name.startswith(filenames.SEAL) and len(name) == len(first) and name >= first
    ]
    for name in names:
        files.remove(os.path.join(directory, name))
    return bool(names)


def drop_following(files: Files, directory: str | os.PathLike[str], base_offset: int) -> None:
    """Rewrite a checksum file without the next segment's base offset; keep its checksums."""
    path = path_of(directory, base_offset)
    data = files.read(path, limit=_MOST)
    if _following_of(data) is None:
        return
    line, _, groups = data[:-4].partition(b"\n")
    about = json.loads(line)
    del about[_FOLLOWING]
    data = json.dumps(about).encode() + b"\n" + groups
    files.write_atomically(path, data + crc32c(data).to_bytes(4, "big"))


def remove_others(
    files: Files, directory: str | os.PathLike[str], base_offsets: Iterable[int]
) -> None:
    """Remove the checksum files of all segments but these: those are gone. Logs errors."""
    kept = {filenames.header_checksums_name(base) for base in base_offsets}
    with _logged():
        for name in files.listdir(directory):
            if name.startswith(filenames.SEAL) and name not in kept:
                files.remove(os.path.join(directory, name))


def remove_gone(files: Files, directory: str | os.PathLike[str], base_offset: int) -> None:
    """Remove the checksum file of a segment that is gone. Logs errors."""
    with _logged():
        remove(files, directory, base_offset)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        _LOGGER.warning("header checksums of a segment that is gone are left: %s", error)
