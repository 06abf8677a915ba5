"""Scans the batches of a buffer, by threads: headers as a table, checksums, or only positions.

A frame is a batch or a message v0 or v1, by its size field alone.
"""

from cpython.number cimport PyNumber_Index
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.buffer_view cimport fill_view
from kstore._native.format.status cimport Status, OK, NO_MEMORY

import kstore._native.format.status as statuses

cdef extern from * nogil:
    """
    #define kstore_atomic_next(counter) __atomic_fetch_add((counter), 1, __ATOMIC_RELAXED)
    """
    int64_t atomic_next "kstore_atomic_next"(int64_t* counter)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(
        pthread_t* thread, void* attributes, void* (*run)(void*) noexcept nogil, void* argument
    )
    int pthread_join(pthread_t thread, void** result)

cdef extern from "format/frame_walk.h" nogil:
    enum:
        FRAME_CHAINS
        FRAME_SMALLEST
    ctypedef struct frame_chain:
        int64_t position
        int64_t limit
        uint32_t* out
        int64_t count
    int64_t frame_size(const uint8_t* data, int64_t position, int64_t end)
    void frame_walk(const uint8_t* data, int64_t base, int64_t end, frame_chain* at, int count)
    void frame_positions_32(int32_t* out, const uint32_t* start, int64_t count, int64_t base)
    void frame_positions_64(int64_t* out, const uint32_t* start, int64_t count, int64_t base)


# --- ranges and seeds ---------------------------------------------------------------------

cdef list pick_seeds(object seeds, int64_t start, int64_t end, int64_t stride):
    """Select ascending seeds within the range, about a stride apart."""
    cdef list picked = []
    cdef int64_t last = start, seed
    cdef Py_ssize_t count, step, n
    if seeds is None:
        return picked
    count = len(seeds)
    step = max(1, <Py_ssize_t>(count * stride // max(<int64_t>1, end - start)))
    for n in range(0, count, step):
        seed = PyNumber_Index(seeds[n])
        if last < seed < end:
            picked.append(seed)
            last = seed
    return picked


cdef int64_t checked_end(int64_t start, int64_t end, int64_t size) except -1:
    if end == -1:
        end = size
    if not 0 <= start <= end <= size:
        raise ValueError(f"range {start} to {end} is not inside the buffer of {size} bytes")
    return end


# --- frame positions -----------------------------------------------------------------------

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void* address, size_t size, int advice)
    enum:
        MADV_FREE
        MADV_HUGEPAGE

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef enum:
    HUGE_PAGE = 2097152
    MAX_SPARE = 67108864        # bytes kept for the next large walk
    WALK_STRIDE = 262144        # minimum bytes between two seeds, if seeds are dense

# The memory of the last released large result. The kernel zeroes new memory page by page, which
# costs a tenth of a walk; this memory keeps its pages, unless the kernel reclaims them (MADV_FREE).
cdef void* _spare = NULL
cdef size_t _spare_size = 0


cdef void keep_memory(void* data, size_t size) noexcept:
    global _spare, _spare_size
    if size < 2 * HUGE_PAGE or size > MAX_SPARE or size <= _spare_size:
        free(data)
        return
    free(_spare)
    madvise(data, size, MADV_FREE)      # advice only: ignore a failure
    _spare = data
    _spare_size = size


cdef void* reuse_memory(size_t size) noexcept:
    """Returns spare memory of size to twice that, or NULL."""
    global _spare, _spare_size
    cdef void* data = _spare
    if size < 2 * HUGE_PAGE or size > _spare_size or size < _spare_size // 2:
        return NULL
    _spare = NULL
    _spare_size = 0
    return data


cdef class FramePositions:
    """Positions of frames: one malloc'd array behind the buffer protocol."""

    cdef void* data
    cdef int64_t count, capacity
    cdef Py_ssize_t item_size
    cdef Py_ssize_t[1] shape
    cdef Py_ssize_t[1] strides
    cdef readonly int status
    cdef readonly int64_t stop

    def __dealloc__(self):
        keep_memory(self.data, self.capacity * self.item_size)

    def __len__(self):
        return self.count

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, flags, self, self.data, self.item_size, b"i" if self.item_size == 4
                  else b"q", self.count, self.shape, self.strides, self.item_size)

    cdef bint reserve(self, int64_t capacity) noexcept nogil:
        """Allocate memory for capacity positions; False without memory.

        A large array uses huge pages: page faults of 4 KiB would cost a tenth of the walk.
        """
        cdef size_t size = capacity * self.item_size
        cdef void* grown
        if size < 2 * HUGE_PAGE:
            grown = realloc(self.data, size)
        else:
            size = (size + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
            grown = aligned_alloc(HUGE_PAGE, size)
            if grown != NULL:
                madvise(grown, size, MADV_HUGEPAGE)     # advice only: ignore a failure
                if self.count:
                    memcpy(grown, self.data, self.count * self.item_size)
                free(self.data)
        if grown == NULL:
            return False
        self.data = grown
        self.capacity = size // self.item_size
        return True

    cdef bint reuse(self, int64_t capacity) noexcept:
        """Move to the memory of an earlier result, if some of that capacity is spare."""
        cdef size_t size = _spare_size
        cdef void* data = reuse_memory(capacity * self.item_size)
        if data == NULL:
            return False
        if self.count:
            memcpy(data, self.data, self.count * self.item_size)
        free(self.data)
        self.data = data
        self.capacity = size // self.item_size
        return True

    cdef bint append(self, const uint32_t* positions, int64_t count, int64_t base) noexcept nogil:
        """Append positions; False without memory."""
        if self.count + count > self.capacity and not self.reserve(2 * (self.count + count)):
            return False
        if self.item_size == 4:
            frame_positions_32(<int32_t*>self.data + self.count, positions, count, base)
        else:
            frame_positions_64(<int64_t*>self.data + self.count, positions, count, base)
        self.count += count
        return True


cdef Status stop_status(const uint8_t* data, int64_t position, int64_t end) noexcept nogil:
    """Why the walk stops at a position; OK at the end."""
    cdef BatchHeader header
    if position == end:
        return OK
    return read_header(data, position, end, &header)


cdef struct Group:              # interleaved chains
    frame_chain[FRAME_CHAINS] chains
    int64_t[FRAME_CHAINS] starts
    int count


cdef Status walk_group(
    const uint8_t* data,
    int64_t* position,
    int64_t end,
    Group* group,
    uint32_t* scratch,
    FramePositions out,
) noexcept nogil:
    """Walk all chains of a group, then concatenate their positions.

    A chain is correct if it starts where its predecessor ended. Otherwise its seed was wrong:
    walk its range again from the correct position.
    """
    cdef int n
    cdef frame_chain* chain
    cdef int64_t base = group.starts[0]
    for n in range(group.count):
        chain = &group.chains[n]
        chain.position = group.starts[n]
        chain.out = scratch + (chain.position - base) // FRAME_SMALLEST + n
        chain.count = 0
    frame_walk(data, base, end, group.chains, group.count)
    for n in range(group.count):
        chain = &group.chains[n]
        if position[0] >= chain.limit:
            continue
        if position[0] != group.starts[n]:
            chain.position = position[0]
            chain.count = 0
            frame_walk(data, base, end, chain, 1)
        if not out.append(chain.out, chain.count, base):
            return NO_MEMORY
        position[0] = chain.position
        if chain.position < chain.limit:
            return stop_status(data, chain.position, end)
    return OK


cdef int walk_all(
    const uint8_t* data, int64_t start, int64_t end, list seeds, FramePositions out
) except -1:
    cdef list starts = [start, *seeds]
    cdef Py_ssize_t total = len(starts), first = 0
    cdef int64_t position = start, last, room = 0, needed
    cdef uint32_t* scratch = NULL
    cdef uint32_t* grown
    cdef Group group
    cdef Status status = OK
    cdef int n
    try:
        while status == OK and position < end:
            if first < total and total > 1:
                group.count = <int>min(<Py_ssize_t>FRAME_CHAINS, total - first)
                for n in range(group.count):
                    group.starts[n] = starts[first + n]
                    group.chains[n].limit = (
                        starts[first + n + 1] if first + n + 1 < total else end
                    )
                first += group.count
            else:                       # no seeds: one chain, a range at a time
                group.count = 1
                group.starts[0] = position
                group.chains[0].limit = min(end, position + 16 * WALK_STRIDE)
            last = group.chains[group.count - 1].limit
            if last - group.starts[0] > INT32_MAX:
                total = 1               # seeds too far apart: continue without them
                continue
            needed = (last - group.starts[0]) // FRAME_SMALLEST + FRAME_CHAINS + 1
            if needed > room:
                grown = <uint32_t*>realloc(scratch, needed * sizeof(uint32_t))
                if grown == NULL:
                    raise MemoryError
                scratch = grown
                room = needed
            with nogil:
                status = walk_group(data, &position, end, &group, scratch, out)
            if first <= FRAME_CHAINS and status == OK and position < end and out.count:
                # Estimate the number of positions from the first group.
                needed = <int64_t>(1.02 * out.count * (end - start) / (position - start)) + 4096
                if needed > out.capacity and not out.reuse(needed) and not out.reserve(needed):
                    raise MemoryError
    finally:
        free(scratch)
    if status == NO_MEMORY:
        raise MemoryError
    out.status = status
    out.stop = position
    return 0


def walk_frames(buffer, seeds=None, *, int64_t start=0, int64_t end=-1):
    cdef HeldBytes view
    cdef FramePositions out = FramePositions.__new__(FramePositions)
    view = hold_bytes(buffer)
    end = checked_end(start, end, view.size)
    out.item_size = 4 if end <= INT32_MAX else 8
    walk_all(
        view.data, start, end, pick_seeds(seeds, start, end, WALK_STRIDE), out
    )
    return out


# --- the table of batches ------------------------------------------------------------------

cdef enum:
    MAX_THREADS = 64
    RANGES = 4                  # per thread, so that the threads share the work evenly


cdef struct ScanRange:          # a range that one thread scans
    int64_t start               # position of a batch, if the seed is correct
    int64_t limit               # batches from here on belong to the next range
    int64_t position            # end of the scan
    Status status
    BatchHeader* rows
    int64_t count, capacity


cdef struct Job:                # shared by the threads
    const uint8_t* data
    int64_t end
    bint check_crc
    ScanRange* ranges
    int64_t count
    int64_t next                # index of the next range; atomic


cdef BatchHeader* next_row(ScanRange* range_) noexcept nogil:
    cdef int64_t capacity
    cdef BatchHeader* grown
    if range_.count == range_.capacity:
        capacity = 64 if range_.capacity == 0 else 2 * range_.capacity
        grown = <BatchHeader*>realloc(range_.rows, capacity * sizeof(BatchHeader))
        if grown == NULL:
            return NULL
        range_.rows = grown
        range_.capacity = capacity
    return &range_.rows[range_.count]


cdef void scan_range(Job* job, ScanRange* range_) noexcept nogil:
    cdef BatchHeader* row
    range_.count = 0
    range_.position = range_.start
    range_.status = OK
    while range_.position < range_.limit:
        row = next_row(range_)
        if row == NULL:
            range_.status = NO_MEMORY
            return
        memset(row, 0, sizeof(BatchHeader))
        range_.status = read_header(job.data, range_.position, job.end, row)
        if range_.status != OK:
            return
        if job.check_crc:
            row.crc_state = 1 if crc_matches(job.data, row) else -1
        range_.position += row.size
        range_.count += 1


cdef void* scan_worker(void* argument) noexcept nogil:
    cdef Job* job = <Job*>argument
    cdef int64_t n
    while True:
        n = atomic_next(&job.next)
        if n >= job.count:
            return NULL
        scan_range(job, &job.ranges[n])


cdef void scan_ranges(Job* job, int threads) noexcept nogil:
    """Scan all ranges in several threads, including this one, then check them in order.

    A range is correct if it starts where its predecessor ended. Otherwise its seed was wrong:
    scan it again from the correct position.
    """
    cdef pthread_t[MAX_THREADS] started
    cdef int count = 0, n
    cdef int64_t index
    cdef int64_t position = job.ranges[0].start
    while count < threads - 1:
        if pthread_create(&started[count], NULL, scan_worker, job) != 0:
            break                       # no more threads: the others do the work
        count += 1
    scan_worker(job)
    for n in range(count):
        pthread_join(started[n], NULL)
    for index in range(job.count):
        if position != job.ranges[index].start:
            job.ranges[index].start = position
            scan_range(job, &job.ranges[index])
        position = job.ranges[index].position
        if job.ranges[index].status != OK:
            job.count = index + 1
            return


cdef list split_points(
    const uint8_t* data, int64_t start, int64_t end, int ranges, object seeds
):
    """Positions of frames, from seeds or a header walk, that split the range evenly."""
    cdef int64_t stride = max(<int64_t>1, (end - start) // ranges)
    cdef int64_t position = start, size
    cdef int64_t due = start + stride
    cdef list points = []
    if ranges == 1:
        return points
    if seeds is not None:
        return pick_seeds(seeds, start, end, stride)
    while position < end:
        if position >= due:
            points.append(position)
            due = position + stride
        size = frame_size(data, position, end)
        if size == 0:
            break
        position += size
    return points


cdef BatchHeader _row              # for the offsets of its fields


cdef class BatchTable:
    """One row for every batch; each attribute is a column."""

    cdef BatchHeader* rows
    cdef int64_t count
    cdef readonly int status
    cdef readonly int64_t start, stop
    cdef readonly int64_t bad_crc_count

    def __dealloc__(self):
        free(self.rows)

    def __len__(self):
        return self.count

    def __repr__(self):
        return (
            f"BatchTable({self.count} batches, {self.start} to {self.stop}, "
            f"{statuses.name(self.status)}, {self.bad_crc_count} with a wrong CRC)"
        )

    cdef object column(self, const char* form, Py_ssize_t size, Py_ssize_t field_offset):
        cdef _BatchColumn column = _BatchColumn.__new__(_BatchColumn)
        column.table = self
        column.form = form
        column.item_size = size
        column.field_offset = field_offset
        return memoryview(column)

    cdef int gather(self, Job* job) except -1:
        """Move the rows of all ranges to the table."""
        cdef int64_t n, total = 0, at = 0
        cdef ScanRange* range_
        for n in range(job.count):
            if job.ranges[n].status == NO_MEMORY:
                raise MemoryError
            total += job.ranges[n].count
        if job.count == 1:
            self.rows = job.ranges[0].rows
            job.ranges[0].rows = NULL
        elif total:
            self.rows = <BatchHeader*>malloc(total * sizeof(BatchHeader))
            if self.rows == NULL:
                raise MemoryError
            for n in range(job.count):
                range_ = &job.ranges[n]
                if range_.count:
                    memcpy(self.rows + at, range_.rows, range_.count * sizeof(BatchHeader))
                    at += range_.count
        self.count = total
        for n in range(total):
            self.bad_crc_count += self.rows[n].crc_state == -1
        self.stop = job.ranges[job.count - 1].position
        self.status = job.ranges[job.count - 1].status
        return 0

    @property
    def base_offset(self):
        return self.column(b"q", 8, <char*>&_row.base_offset - <char*>&_row)

    @property
    def last_offset(self):
        return self.column(b"q", 8, <char*>&_row.last_offset - <char*>&_row)

    @property
    def position(self):
        return self.column(b"q", 8, <char*>&_row.position - <char*>&_row)

    @property
    def base_timestamp(self):
        return self.column(b"q", 8, <char*>&_row.base_timestamp - <char*>&_row)

    @property
    def max_timestamp(self):
        return self.column(b"q", 8, <char*>&_row.max_timestamp - <char*>&_row)

    @property
    def producer_id(self):
        return self.column(b"q", 8, <char*>&_row.producer_id - <char*>&_row)

    @property
    def size(self):
        return self.column(b"i", 4, <char*>&_row.size - <char*>&_row)

    @property
    def count(self):
        return self.column(b"i", 4, <char*>&_row.count - <char*>&_row)

    @property
    def leader_epoch(self):
        return self.column(b"i", 4, <char*>&_row.leader_epoch - <char*>&_row)

    @property
    def base_sequence(self):
        return self.column(b"i", 4, <char*>&_row.base_sequence - <char*>&_row)

    @property
    def crc(self):
        return self.column(b"I", 4, <char*>&_row.crc - <char*>&_row)

    @property
    def producer_epoch(self):
        return self.column(b"h", 2, <char*>&_row.producer_epoch - <char*>&_row)

    @property
    def attributes(self):
        return self.column(b"h", 2, <char*>&_row.attributes - <char*>&_row)

    @property
    def magic(self):
        return self.column(b"b", 1, <char*>&_row.magic - <char*>&_row)

    @property
    def crc_state(self):
        return self.column(b"b", 1, <char*>&_row.crc_state - <char*>&_row)

cdef class _BatchColumn:
    """A strided view of one field of all rows; keeps the table alive."""

    cdef BatchTable table
    cdef const char* form
    cdef Py_ssize_t item_size, field_offset
    cdef Py_ssize_t[1] shape
    cdef Py_ssize_t[1] strides

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef char* first = NULL
        if self.table.count:
            first = <char*>self.table.rows + self.field_offset
        fill_view(view, flags, self, first, self.item_size, self.form, self.table.count,
                  self.shape, self.strides, sizeof(BatchHeader))


def scan(
    buffer, int64_t start=0, int64_t end=-1, *, bint check_crc=True, int threads=1, seeds=None
):
    cdef HeldBytes view = hold_bytes(buffer)
    cdef Job job
    cdef BatchTable table = BatchTable.__new__(BatchTable)
    cdef list points
    cdef int64_t n
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads must be 1 to {MAX_THREADS}, not {threads}")
    job.ranges = NULL
    job.count = 0
    try:
        job.end = checked_end(start, end, view.size)
        job.data = view.data
        job.check_crc = check_crc
        job.next = 0
        points = split_points(
            job.data, start, job.end, 1 if threads == 1 else threads * RANGES, seeds
        )
        points = [start, *points, job.end]
        job.ranges = <ScanRange*>calloc(len(points) - 1, sizeof(ScanRange))
        if job.ranges == NULL:
            raise MemoryError
        job.count = len(points) - 1
        for n in range(job.count):
            job.ranges[n].start = points[n]
            job.ranges[n].limit = points[n + 1]
        n = job.count
        with nogil:
            scan_ranges(&job, threads)
        table.start = start
        table.gather(&job)
        job.count = n
    finally:
        if job.ranges != NULL:
            for n in range(len(points) - 1):
                free(job.ranges[n].rows)
            free(job.ranges)
    return table
