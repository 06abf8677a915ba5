"""Whether the batches of a scan are in order: what no checksum says of them."""

from libc.stdint cimport INT64_MAX, INT64_MIN

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.status cimport BAD_CRC, BAD_OFFSET, OK
from kstore._native.read.decode cimport Scan
from kstore._native.read.header_walk cimport is_contradicted


cdef inline bint rises(Scan* scan) noexcept nogil:
    """Whether the batch at the position fits between its neighbours; else scan.status says why.

    Base offsets are outside checksums, and nothing of a batch that is stepped over is checked.
    So a batch that was stepped over is, if the wanted offset lies in a gap behind it.
    """
    cdef BatchHeader* batch = &scan.batch
    cdef BatchHeader front
    cdef bint follows = scan.seen < INT64_MAX and batch.base_offset == scan.seen + 1
    if batch.base_offset <= scan.seen or batch.last_offset >= scan.next_offset:
        scan.status = BAD_OFFSET
        return False
    if scan.seen == INT64_MIN:
        follows = batch.base_offset <= scan.start_offset <= batch.last_offset
    if not follows and is_contradicted(
        scan.data, scan.position + batch.size, scan.end, batch.last_offset
    ):
        scan.status = BAD_OFFSET
        return False
    if (
        scan.skipped >= 0 and batch.last_offset >= scan.start_offset
        and batch.base_offset > scan.start_offset and batch.magic == 2
    ):
        if read_header(scan.data, scan.skipped, scan.end, &front) == OK and not crc_matches(
            scan.data, &front
        ):
            scan.position = scan.skipped
            scan.batch = front
            scan.skipped = -1
            scan.seen = INT64_MIN
            scan.status = BAD_CRC
            return False
        scan.skipped = -1
    return True
