"""Which pages a read needs: whether they are in memory, and how another thread loads them.

For a caller that must not wait for a disk. A read is nearly always within the pages from the
index entry's position on to the bytes that it may have.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t

from kstore._native.files.file_map cimport FileMap
from kstore._native.format.cursor cimport get_i32
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE
from kstore._native.index.index_lookup cimport floor_offset
from kstore._native.read.segment_view cimport SegmentList, SegmentView

cdef enum:
    WALKED = 8192                           # bytes of a walk from an index entry, nearly always
    MOST_CHECKED = 1 << 20                  # bytes behind those that a read may want at once
    RESIDENT_MS = 1000                      # how long pages stay in memory that were found there

cdef extern from *:
    """
    #include <time.h>
    static int64_t coarse_ms(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int64_t coarse_ms() nogil


def is_resident(SegmentList segments not None, int64_t offset, int64_t max_bytes):
    """Whether ``segments.read`` from offset on waits for no disk, nor the sending of its bytes.

    The index and the pages of the first MiB are in memory, or nothing is read. A first batch that
    is longer than max_bytes may reach beyond them.
    """
    if offset < segments.start_offset or offset >= segments.last.next_offset:
        return True
    cdef SegmentView view = <SegmentView>segments.views[max(segments._floor(offset), 0)]
    cdef FileMap log_map = view.log_map
    cdef int64_t position
    cdef int64_t end = view.size
    cdef int64_t now = 0
    if end == 0:
        return True
    if log_map is None or log_map.size < end:
        return False
    position = view._floor(offset, 0)
    if not view.sealed:
        # Appends leave their pages in memory: so have those behind a checked position.
        now = coarse_ms()
        if position >= view.resident_from and now - view.resident_at < RESIDENT_MS:
            return True
    if view.sealed or end - position > 2 * MOST_CHECKED:
        end = min(end, end_of_read(view, offset, position, max_bytes))
    if not log_map.is_resident(position, end):
        return False
    if not view.sealed and end == view.size:
        view.resident_from, view.resident_at = position, now
    return True


def load(SegmentList segments not None, int64_t offset, int64_t max_bytes):
    """Read into memory what ``is_resident`` asks for; waits, without the GIL.

    Raises what opening the segment raises; StorageError if the disk cannot read.
    """
    if offset < segments.start_offset or offset >= segments.last.next_offset:
        return
    cdef SegmentView view = <SegmentView>segments.views[max(segments._floor(offset), 0)]
    cdef FileMap log_map = view.log_map
    cdef int64_t position
    cdef int64_t end = view.size
    if end == 0:
        return
    while log_map is None or log_map.size < end:
        view.opener(view)
        log_map = view.log_map
        end = min(end, view.size)
    view.touched = True
    position = view._floor(offset, 0)
    log_map.load(position, min(end, end_of_read(view, offset, position, max_bytes)), view.path)


cdef int64_t end_of_read(
    SegmentView view, int64_t offset, int64_t position, int64_t max_bytes
) noexcept:
    """Where a read ends that begins at the index entry's position: the batch that holds offset
    begins at the next entry's, at the latest. May be beyond the segment's end."""
    cdef int64_t relative = min(max(offset - view.base_offset, 0), INT32_MAX)
    cdef Py_ssize_t slot = -1
    cdef int64_t start = position + MOST_CHECKED
    if view.entry_count:
        slot = floor_offset(view.entries, view.entry_count, <int32_t>relative)
    if slot + 1 < view.entry_count:
        start = max(position, get_i32(view.entries + (slot + 1) * OFFSET_INDEX_ENTRY_SIZE + 4))
    return start + WALKED + min(max(max_bytes, 0), MOST_CHECKED)
