"""Appends client batches: a leader validates them, a follower keeps them unchanged."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kstore._native.append.log_end cimport LogEnd
from kstore._native.append.producer_table cimport Verdict
from kstore._native.append.validate_batch cimport LeaderCheck, LeaderRules
from kstore._native.append.validate_messages cimport MessageCheck
from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.end_marker cimport Marker
from kstore._native.format.status cimport Status


cdef class BatchAppender(LogEnd):
    cdef BatchHeader* rows
    cdef Py_ssize_t row_capacity

    cdef int _rules(self, LeaderRules* rules) except -1
    cdef int _refuse(
        self, Status status, LeaderCheck* check, Py_ssize_t size, data, LeaderRules* rules
    ) except -1
    cdef object _append_compressed(
        self, data, Py_buffer* view, LeaderRules* rules, LeaderCheck* check
    )
    cdef object _append_checked(
        self, const uint8_t* data, Py_ssize_t size, LeaderCheck* check, const LeaderRules* rules
    )
    cdef object _append_stamped(self, const uint8_t* data, Py_ssize_t size, LeaderCheck* check)
    cdef object append_validated(self, batch, bint client, bint may_flush)
    cdef object append_marker(
        self, producer_id, producer_epoch, bint commit, coordinator_epoch, transaction_version,
        timestamp,
    )
    cdef object append_unchanged(self, batches)
    cdef object _append_changed(
        self, batch, Py_buffer* view, LeaderRules* rules, LeaderCheck* check, Status status
    )
    cdef object _append_messages(self, messages, Py_buffer* view, LeaderRules* rules)
    cdef object _decompress(
        self, data, Py_ssize_t size, LeaderRules* rules, LeaderCheck* check
    )
    cdef int _check_wrapper(self, data, LeaderRules* rules, MessageCheck* check) except -1
    cdef int _refuse_messages(
        self, Status status, MessageCheck* check, Py_ssize_t size, data, LeaderRules* rules
    ) except -1
    cdef object _rebuild_and_append(self, batches, int codec, int64_t now)
    cdef object _converter(self, batches, int codec)
    cdef object _append_rewritten(
        self, batches, int codec, LeaderRules* rules, MessageCheck* stamp_only
    )
    cdef object _check_producer(self, LeaderCheck* check, bint client)
    cdef int _refuse_producer(
        self, Verdict verdict, int64_t producer_id, int epoch, int sequence
    ) except -1
    cdef void _end_marker(self, uint8_t* batch, BatchHeader* header, Marker* marker) noexcept
    cdef object _append_trusted(self, data, bint is_own)
    cdef Py_ssize_t _append_run(
        self, const uint8_t* data, Py_ssize_t start, Py_ssize_t count
    ) except -1
    cdef Py_ssize_t _scan(
        self, const uint8_t* data, int64_t size, Status* status, int64_t* complete_size
    ) except -1
