"""Whether the batches of a scan are in order. Checksums do not cover base offsets."""

from libc.stdint cimport INT64_MAX, INT64_MIN

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.status cimport BAD_CRC, BAD_OFFSET, OK
from kstore._native.read.decode cimport Scan
from kstore._native.read.header_walk cimport next_batch_overlaps


cdef inline bint is_in_order(Scan* scan) noexcept nogil:
    """Whether the batch at scan.position fits between its neighbours; sets scan.status if not.

    A checksum does not cover the base offset, and the scan skips batches below start_offset
    without verifying them. If start_offset is in a gap after the last skipped batch, that batch
    is verified here: its offsets may be corrupt.
    """
    cdef BatchHeader* batch = &scan.batch
    cdef BatchHeader skipped
    cdef bint follows = scan.last_offset < INT64_MAX and batch.base_offset == scan.last_offset + 1
    if batch.base_offset <= scan.last_offset or batch.last_offset >= scan.next_offset:
        scan.status = BAD_OFFSET
        return False
    if scan.last_offset == INT64_MIN:
        follows = batch.base_offset <= scan.start_offset <= batch.last_offset
    if not follows and next_batch_overlaps(
        scan.data, scan.position + batch.size, scan.end, batch.last_offset
    ):
        scan.status = BAD_OFFSET
        return False
    if (
        scan.skipped_position >= 0 and batch.last_offset >= scan.start_offset
        and batch.base_offset > scan.start_offset and batch.magic == 2
    ):
        if (
            read_header(scan.data, scan.skipped_position, scan.end, &skipped) == OK
            and not crc_matches(scan.data, &skipped)
        ):
            scan.position = scan.skipped_position
            scan.batch = skipped
            scan.skipped_position = -1
            scan.last_offset = INT64_MIN
            scan.status = BAD_CRC
            return False
        scan.skipped_position = -1
    return True
