"""Appends this process's own records: one native call encodes and writes a batch.

The steady state (no roll, no flush due) is one native call, including write(2). Rare cases call
back into Python: `prepare` if the writer is not ready (files closed, process forked, earlier
failure), `roll` if the next batch does not fit.

:mod:`kstore._native.append.batch_appender` appends client batches;
:mod:`kstore._native.append.log_end` has what all appends share. The functions at the end are the
append methods of a log.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int16_t, int64_t, uint64_t

from kstore._native.append.batch_appender cimport BatchAppender
from kstore._native.append.encode cimport BatchBuffer
from kstore._native.append.log_end cimport LAST_RECORD_TIMESTAMP, int64_of
from kstore._native.format.cursor cimport wrapping_add
from kstore._native.format.layout cimport LOG_APPEND_TIME_BIT
from kstore._native.format.record cimport Record


cdef tuple key_and_value(object item):
    """The key and value of an item of `extend` that is no Record: a value, or a pair."""
    if not isinstance(item, tuple):
        return None, item
    if len(item) != 2:
        raise TypeError(
            f"a tuple is a pair (key, value), not {len(item)} items: a record with headers or a "
            "timestamp is kstore.Record(value=..., key=..., headers=..., timestamp=...)"
        )
    return item


cdef class RecordAppender(BatchAppender):
    """Appends to one log. The caller holds the log's lock, unless a method says it acquires it.

    A log sets where to write (`attach`), how (`configure`), and the callbacks.
    """

    cdef BatchBuffer buffer

    def __cinit__(self, *_):
        self.buffer = BatchBuffer()

    def append_values(self, list values, Py_ssize_t start, timestamp):
        """Append values from start as one batch of up to batch.size bytes; returns their number.

        The caller holds the lock. Each value is a bytes-like object or None.
        """
        cdef Py_ssize_t taken
        if self.busy or not self.ready:
            self._begin_append()
        if self.key_required:
            self.refuse_own("key", 0, 0)
        self.buffer.reset()
        taken = self.buffer.put_values(values, start, self._timestamp(timestamp), self.batch_size)
        self._append_buffer()
        return taken

    def append_records(self, list records, Py_ssize_t start, timestamp):
        """As append_values, for a list with Records or (key, value) pairs, and possibly values."""
        cdef Py_ssize_t n = start
        cdef Py_ssize_t size
        cdef int64_t largest
        cdef int64_t when
        cdef int64_t fallback = self._timestamp(timestamp)
        if self.busy or not self.ready:
            self._begin_append()
        self.buffer.reset()
        while n < len(records):
            size = self.buffer.size
            largest = self.buffer.max_timestamp
            item = records[n]
            if type(item) is Record:
                if self.key_required and item.key is None:
                    self.refuse_own("key", 0, 0)
                when = fallback
                if item.timestamp != -1:        # none
                    when = item.timestamp
                    if <uint64_t>when > <uint64_t>LAST_RECORD_TIMESTAMP:
                        self.refuse_own("timestamp", when, 0)
                    self._check_age(when)
                self.buffer.put(item.value, item.key, item.headers, when)
            else:
                key, value = key_and_value(item)
                if self.key_required and key is None:
                    self.refuse_own("key", 0, 0)
                self.buffer.put(value, key, None, fallback)
            if self.buffer.size > self.batch_size and n > start:
                self.buffer.size = size         # exceeds batch.size: it starts the next batch
                self.buffer.max_timestamp = largest
                self.buffer.count -= 1
                break
            n += 1
        self._append_buffer()
        return n - start

    cdef int64_t _timestamp(self, timestamp) except? -1:
        cdef int64_t ms
        if timestamp is None:
            return self._now()
        ms = int64_of(timestamp) if type(timestamp) is int else -1
        if <uint64_t>ms > <uint64_t>LAST_RECORD_TIMESTAMP:
            ms = self._to_record_timestamp(timestamp)       # raises, unless it is a datetime
        self._check_age(ms)
        return ms

    cdef int _check_age(self, int64_t ms) except -1:
        cdef int64_t now
        if self.before_max_ms == INT64_MAX and self.after_max_ms == INT64_MAX:
            return 0
        now = self._now()
        if not self.log_append_time and (
            now - ms > self.before_max_ms or ms - now > self.after_max_ms
        ):
            self.refuse_own("age", ms, now)
        return 0

    cdef int _append_buffer(self) except -1:
        """Append the batch in buffer: roll if due, finish, write, publish, index."""
        cdef BatchBuffer buffer = self.buffer
        cdef int16_t attributes = self.codec
        cdef int64_t last
        if self.message_magic != 2:
            buffer.finish_batch(self.next_offset, -1, 0)
            self._rebuild_and_append(
                PyMemoryView_FromMemory(<char*>buffer.data, buffer.size, PyBUF_READ),
                self.codec, self._now())
            return 0
        if self.codec != 0:
            buffer.replace_records(self.compress(self.codec, 2, buffer.records))
        if self.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
            buffer.max_timestamp = self._now()
        if buffer.size > self.max_message_bytes:
            self.refuse_own("batch", buffer.size, self.max_message_bytes)
        last = wrapping_add(self.next_offset, buffer.count - 1)
        self._make_room(buffer.size, self.next_offset, last, buffer.max_timestamp)
        buffer.finish_batch(self.next_offset, self.leader_epoch, attributes)
        self._write(buffer.data, buffer.size, NULL, 0)
        self._publish(buffer.size, last, buffer.max_timestamp)
        return 0


# --- methods of a log, for the body of its class (kstore.log.writable_log) --------------------

# The class uses these functions as methods: without a Python frame, which would cost a seventh of
# a small append (decision 25). The log's appender is `log._appender`.


def append(log, value, *, key=None, headers=None, timestamp=None):
    """Log.append: one record as one batch; returns its offset. Acquires the log's lock."""
    cdef RecordAppender to = <RecordAppender?>log._appender
    cdef int64_t offset
    cdef bint flush
    to.lock.acquire_native(True)
    try:
        if to.busy or not to.ready:
            to._begin_append()
        if key is None and to.key_required:
            to.refuse_own("key", 0, 0)
        to.buffer.reset()
        to.buffer.put(value, key, headers, to._timestamp(timestamp))
        to._append_buffer()
        offset = to.next_offset - 1
        flush = to.next_offset >= to.flush_at
    finally:
        to.lock.release_native()
    if flush:
        to.flush_due()
    return offset


cdef extern from *:
    """
    static vectorcallfunc kstore_append;        /* the function itself */
    static PyObject *kstore_check_arguments;    /* raises for arguments that do not fit */

    static PyObject *kstore_append_or_explain(
        PyObject *function, PyObject *const *arguments, size_t flags, PyObject *names)
    {
        PyObject *offset = kstore_append(function, arguments, flags, names);
        PyObject *kind, *error, *traceback, *fits;
        if (offset != NULL || !PyErr_ExceptionMatches(PyExc_TypeError))
            return offset;
        PyErr_Fetch(&kind, &error, &traceback);
        fits = PyObject_CallFunction(kstore_check_arguments, "nO",
            PyVectorcall_NARGS(flags), names == NULL ? Py_None : names);
        if (fits != NULL) {
            Py_DECREF(fits);
            PyErr_Restore(kind, error, traceback);
            return NULL;
        }
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
        return NULL;
    }

    static void kstore_explain(PyObject *function, PyObject *check)
    {
        vectorcallfunc *call = (vectorcallfunc *)
            ((char *)function + Py_TYPE(function)->tp_vectorcall_offset);
        if (kstore_append == NULL)
            kstore_append = *call;
        Py_INCREF(check);
        kstore_check_arguments = check;
        *call = kstore_append_or_explain;
    }
    """
    void kstore_explain(object function, object check)


def explain_append(check):
    """Let `check(number of positional arguments, names of the others)` raise for wrong ones.

    It is called after a TypeError of `append`. `**unknown` would make a dict for every record;
    this costs a call of a C function.
    """
    kstore_explain(append, check)


def append_unless_blocked(log, int64_t size, append):
    """`append()`, which appends so many bytes, with the log's lock held; None where it may block.

    It may block if another thread holds the lock, if the bytes do not fit into the segment, or if
    a sync may be due. The log's files must be open (`ready`).
    """
    cdef RecordAppender to = <RecordAppender?>log._appender
    if not to.lock.acquire_native(False):
        return None
    try:
        if to.flush_at != INT64_MAX or to.active.size + size > to.segment_bytes:
            return None
        return append()
    finally:
        to.lock.release_native()


def append_as_leader(log, batch, *, bint flush=True):
    """Log.append_as_leader: a client batch, validated as Kafka's leader does."""
    return (<RecordAppender?>log._appender).append_validated(batch, True, flush)


def append_as_coordinator(log, batch):
    """Log.append_as_coordinator: a batch from this process's own coordinator."""
    return (<RecordAppender?>log._appender).append_validated(batch, False, True)


def append_end_marker(
    log, producer_id, producer_epoch, *, commit, coordinator_epoch=0, transaction_version=0,
    timestamp=-1,
):
    """Log.append_end_marker: the control batch that ends a transaction."""
    return (<RecordAppender?>log._appender).append_marker(
        producer_id, producer_epoch, commit, coordinator_epoch, transaction_version, timestamp)


def append_as_follower(log, batches):
    """Log.append_as_follower: complete batches, with the offsets that a leader assigned."""
    return (<RecordAppender?>log._appender).append_unchanged(batches)
