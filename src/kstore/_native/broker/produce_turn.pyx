"""Reads a connection once, and handles the plain Produce requests among the received bytes.

A plain request has one small uncompressed batch for one partition, which is appended at once and
acknowledged then (:mod:`kstore._native.broker.produce_frame`,
:mod:`kstore._native.append.batch_run`). Consecutive batches of a partition are written together,
and all answers leave in one send. The first request that is not plain, or that fails, ends the
turn: the caller handles it and the requests after it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from kstore._native.append.batch_appender cimport BatchAppender
from kstore._native.append.batch_run cimport BatchRun, RunBatch
from kstore._native.broker.produce_frame cimport (
    LAST_VERSION, LONGEST_ANSWER, LONGEST_NAME, TOPIC_ID_SINCE, PlainProduce, parse_frame,
    put_answer, topic_of,
)
from kstore._native.format.cursor cimport get_i32
from kstore._native.read.segment_view cimport SegmentList

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object dictionary, object key) except? NULL

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void* buffer, size_t size, int flags)
    ssize_t send(int fd, const void* buffer, size_t size, int flags)
    int MSG_NOSIGNAL

cdef enum:
    RECEIVE_SIZE = 1 << 17      # bytes of a turn; the smallest requests in them take 0.7 ms
    SIZE_PREFIX = 4


cdef class ProduceTarget:
    """A partition whose batches are appended at once, while it has this cluster image and log."""

    cdef object image, log, state, counters
    cdef BatchAppender appender
    cdef bint acknowledges_all

    def __cinit__(
        self, image, log, state, BatchAppender appender not None, counters,
        bint acknowledges_all,
    ):
        """state: of the log's writer; counters: of the topic, or None; acknowledges_all: acks=-1
        waits for no other replica."""
        self.image, self.log, self.state = image, log, state
        self.appender, self.counters = appender, counters
        self.acknowledges_all = acknowledges_all


cdef class ProduceTurn:
    """The requests of one connection at a time. One thread only."""

    cdef readonly bytes rest        # received bytes that are not handled
    cdef readonly bytes unsent      # answers that the socket did not take
    cdef readonly int handled       # requests of the turn
    cdef readonly bint is_complete  # the rest is empty, or the beginning of a short request
    cdef object metadata, find_target
    cdef dict hosted, busy
    cdef Py_ssize_t largest_batch, longest_part
    cdef BatchRun run
    cdef uint8_t* received
    cdef uint8_t* answers
    # The run, if begun: its partition, and what its requests have in common.
    cdef bint is_running
    cdef ProduceTarget target
    cdef uint8_t[LONGEST_NAME] name     # of the topic, or its id
    cdef Py_ssize_t name_size
    cdef bint has_id
    cdef int32_t partition
    cdef bint acknowledges_all
    cdef int64_t log_start
    # Requests by version, and bytes of answers: up to the last request, and to the last written run
    cdef int[LAST_VERSION + 1] versions, versions_done
    cdef Py_ssize_t answer_size, answer_size_done
    cdef Py_ssize_t run_end, position_done

    def __cinit__(
        self, dict hosted not None, dict busy not None, metadata, find_target,
        Py_ssize_t largest_batch, Py_ssize_t longest_part,
    ):
        """hosted: partitions by (topic, number), with `log` and `produce_target`; busy: the keys
        of partitions with work on other threads; find_target(topic, number, image): a
        ProduceTarget, or None; longest_part: bytes of an incomplete request that `receive` accepts
        as `left`."""
        self.hosted, self.busy = hosted, busy
        self.metadata, self.find_target = metadata, find_target
        self.largest_batch, self.longest_part = largest_batch, longest_part
        self.run = BatchRun()
        self.rest = self.unsent = b""
        self.received = <uint8_t*>malloc(RECEIVE_SIZE)
        self.answers = <uint8_t*>malloc(RECEIVE_SIZE)
        if self.received == NULL or self.answers == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.received)
        free(self.answers)

    def receive(self, int fd, bytes left not None, Py_ssize_t max_frame):
        """Read once, append the bytes to `left`, handle the requests, and send their answers.

        Returns the number of bytes read, 0 at the end of the stream or for a lost connection, -1
        if there are none yet.
        """
        cdef Py_ssize_t start = len(left)
        cdef ssize_t count
        self._begin_turn()
        if start >= RECEIVE_SIZE:
            raise ValueError(f"{start} bytes are left, of at most {RECEIVE_SIZE - 1}")
        memcpy(self.received, <const uint8_t*>left, start)
        with nogil:
            count = recv(fd, self.received + start, RECEIVE_SIZE - start, 0)
        if count <= 0:
            self.rest = left
            return -1 if count < 0 and (errno == EAGAIN or errno == EINTR) else 0
        self._handle(self.received, start + count, max_frame)
        self.rest = PyBytes_FromStringAndSize(
            <char*>self.received + self.position_done, start + count - self.position_done)
        if self.answer_size:
            self._send(fd)
        return count

    def handle_frame(self, frame):
        """The answer to one request, empty for acks=0; None if the caller must handle it.

        The frame is a request without its size prefix.
        """
        cdef Py_buffer view
        self._begin_turn()
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            self._take(<const uint8_t*>view.buf, view.len, view.len)
        finally:
            try:
                self._end_run()
            finally:
                PyBuffer_Release(&view)
        if not self.position_done:
            return None
        return PyBytes_FromStringAndSize(<char*>self.answers, self.answer_size)

    def requests_of_versions(self):
        """[(version, requests of the turn)]"""
        return [
            (version, self.versions_done[version])
            for version in range(LAST_VERSION + 1) if self.versions_done[version]
        ]

    cdef void _begin_turn(self) noexcept:
        self.rest = self.unsent = b""
        self.handled = 0
        self.is_complete = False
        self.answer_size = self.answer_size_done = self.position_done = 0
        memset(self.versions, 0, sizeof(self.versions))
        memset(self.versions_done, 0, sizeof(self.versions_done))

    cdef int _handle(self, const uint8_t* data, Py_ssize_t size, Py_ssize_t max_frame) except -1:
        """Handle complete plain requests; position_done is after the last one."""
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t frame_size
        try:
            while size - position >= SIZE_PREFIX:
                frame_size = get_i32(data + position)
                if not 0 <= frame_size <= min(max_frame, size - position - SIZE_PREFIX):
                    self.is_complete = (
                        0 <= frame_size <= min(max_frame, self.longest_part - SIZE_PREFIX))
                    break
                position += SIZE_PREFIX + frame_size
                if not self._take(data + position - frame_size, frame_size, position):
                    break
            else:
                self.is_complete = True
        finally:
            if not self._end_run():
                self.is_complete = False
        return 0

    cdef bint _take(self, const uint8_t* frame, Py_ssize_t size, Py_ssize_t end) except -1:
        """Add a request, which ends at `end`, to the run; False if the caller must handle it."""
        cdef PlainProduce request
        cdef RunBatch* batch
        if not parse_frame(frame, size, &request) or request.size > self.largest_batch:
            return False
        if self.answer_size > RECEIVE_SIZE - LONGEST_ANSWER:
            return False
        if not self._is_in_run(&request):
            if not self._end_run() or not self._begin_run(&request):
                return False
        if not -1 <= request.acks <= 1 or (request.acks == -1 and not self.acknowledges_all):
            return False
        batch = self.run.add(frame + request.position, request.size)
        if batch == NULL and self.run.count:
            if not self._write():
                return False
            batch = self.run.add(frame + request.position, request.size)
        if batch == NULL:
            return False
        self.versions[request.version] += 1
        if request.acks:
            self.answer_size += put_answer(
                self.answers + self.answer_size, &request, batch.first,
                batch.check.max_timestamp if self.target.appender.log_append_time else -1,
                self.log_start)
        self.run_end = end
        return True

    cdef bint _is_in_run(self, const PlainProduce* request) noexcept:
        return (
            self.is_running
            and request.partition == self.partition
            and request.name_size == self.name_size
            and (request.version >= TOPIC_ID_SINCE) == self.has_id
            and memcmp(request.name, self.name, self.name_size) == 0
        )

    cdef bint _begin_run(self, const PlainProduce* request) except -1:
        """Begin a run for the request's partition; False if the caller must append its batches."""
        cdef PyObject* found
        cdef object topic, key, image, hosted, target = None
        cdef SegmentList segments
        cdef bint has_id = request.version >= TOPIC_ID_SINCE
        topic = topic_of(request)
        image = self.metadata.image
        if has_id:
            topic = image.names_by_id.get(topic)
            if topic is None:
                return False
        key = topic, request.partition
        if self.busy and key in self.busy:
            return False
        found = PyDict_GetItemWithError(self.hosted, key)
        if found != NULL:
            hosted = <object>found
            target = hosted.produce_target
            if target is not None and (
                (<ProduceTarget?>target).image is not image
                or (<ProduceTarget>target).log is not hosted.log
            ):
                target = None
        if target is None:
            target = self.find_target(topic, request.partition, image)
            if target is None:
                return False
        self.target = <ProduceTarget?>target
        try:
            if not self.run.begin(self.target.appender):
                return False
        except Exception:               # the caller gets the same error, and reports it
            return False
        self.is_running = True
        self.name_size, self.partition = request.name_size, request.partition
        self.has_id = has_id
        memcpy(self.name, request.name, request.name_size)
        # The lock is held: neither changes before the end of the run.
        segments = <SegmentList?>self.target.state.segments
        self.log_start = segments.start_offset
        self.acknowledges_all = (
            self.target.acknowledges_all and self.target.state.high_watermark < 0)
        return True

    cdef bint _end_run(self) except -1:
        """Write the run's batches, if a run has begun; False if that fails."""
        if not self.is_running:
            return True
        try:
            return self._write()
        finally:
            self.is_running = False
            self.run.end()

    cdef bint _write(self) except -1:
        """Write the run's batches; False if none of them is in the log: the caller appends them
        again one by one, and reports the error."""
        cdef int count = self.run.count
        cdef int64_t size = self.run.size
        cdef int64_t first = self.run.batches[0].first
        if count == 0:
            return True
        try:
            self.run.write()
        except Exception:
            if self.run.is_published:
                raise
        if not self.run.is_published:
            self.answer_size = self.answer_size_done
            memcpy(self.versions, self.versions_done, sizeof(self.versions))
            return False
        self.position_done = self.run_end
        self.answer_size_done = self.answer_size
        memcpy(self.versions_done, self.versions, sizeof(self.versions))
        self.handled += count
        if self.target.counters is not None:
            self.target.counters.batches_appended(count, size, self.run.next_offset - first)
        return True

    cdef int _send(self, int fd) except -1:
        cdef ssize_t sent
        cdef size_t size = self.answer_size
        with nogil:
            sent = send(fd, self.answers, size, MSG_NOSIGNAL)
        if sent < <ssize_t>size:        # after an error, the caller's own send gets it again
            sent = max(sent, 0)
            self.unsent = PyBytes_FromStringAndSize(<char*>self.answers + sent, size - sent)
        return 0
