"""Encodes records into a v2 record batch.

A BatchBuffer owns one growing buffer, which it reuses for each batch. It changes its state after
a record is complete, so an exception leaves it unchanged.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo, PyBuffer_Release
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from kstore._native.format.argument cimport (
    data_to_bytes, encode_header_name, get_data, header_items, header_pair,
)
from kstore._native.format.batch_header cimport BatchHeader, write_header
from kstore._native.format.cursor cimport put_varint
from kstore._native.format.layout cimport V2_HEADER_SIZE
from kstore._native.format.record_span cimport (
    RecordSpan, put_record, record_body_size, zigzag_size,
)
from kstore._native.format.status cimport raise_named

cdef int64_t INT32_MAX = 0x7FFFFFFF
cdef int64_t NO_LIMIT = 0x7FFFFFFFFFFFFFFF


cdef list _flatten_headers(object headers, RecordSpan* span):
    """[name, value, name, value ...] as bytes or None; sets the span's header sizes."""
    cdef list flat = []
    cdef int64_t size = 0
    cdef bytes text
    if type(headers) is not tuple and type(headers) is not list:
        headers = header_items(headers)
    for pair in headers:
        if type(pair) is not tuple or len(<tuple>pair) != 2:
            pair = header_pair(pair)
        name, value = <tuple>pair
        if isinstance(name, str):
            text = encode_header_name(name)
        else:
            text = data_to_bytes(name, "header name")
        size += zigzag_size(PyBytes_GET_SIZE(text)) + PyBytes_GET_SIZE(text)
        flat.append(text)
        if value is None:
            size += 1
            flat.append(None)
            continue
        text = data_to_bytes(value, "header value")
        size += zigzag_size(PyBytes_GET_SIZE(text)) + PyBytes_GET_SIZE(text)
        flat.append(text)
    if size > INT32_MAX:
        raise_named("MessageTooLargeError", f"headers of {size} bytes are beyond 2147483647")
    span.header_count = <int32_t>(len(flat) // 2)
    span.header_size = <int32_t>size
    return flat


cdef uint8_t* _put_headers(uint8_t* at, list flat) noexcept:
    cdef object item
    cdef Py_ssize_t size
    for item in flat:
        if item is None:
            at = put_varint(at, -1)
            continue
        size = PyBytes_GET_SIZE(item)
        at = put_varint(at, size)
        memcpy(at, PyBytes_AS_STRING(item), size)
        at += size
    return at


@cython.final
cdef class BatchBuffer:
    """Builds one batch at a time; not safe to share between threads."""

    def __cinit__(self, Py_ssize_t capacity=16384):
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.size = V2_HEADER_SIZE
        self.grow(max(capacity, 256))
        self.reset()

    def __dealloc__(self):
        free(self.data)

    cpdef void reset(self) noexcept:
        """Drop the records and keep the memory."""
        self.size = V2_HEADER_SIZE
        self.count = 0
        self.replaced = False
        self.base_timestamp = -1
        self.max_timestamp = -1

    cdef int grow(self, int64_t room) except -1:
        """Reserve room more bytes; the only code that reallocates."""
        cdef int64_t wanted = self.size + room
        cdef int64_t capacity
        cdef void* data
        if wanted <= self.capacity:
            return 0
        if wanted - 64 > INT32_MAX:     # 64: put_span reserves up to that much more than it needs
            raise_named("MessageTooLargeError", "a batch is at most 2147483647 bytes")
        if self.views:
            raise BufferError("the batch cannot grow while a view of its records is open")
        capacity = max(wanted, 2 * self.capacity)
        data = realloc(self.data, capacity)
        if data == NULL:
            raise MemoryError
        self.data = <uint8_t*>data
        self.capacity = capacity
        return 0

    cdef int put_span(
        self, RecordSpan* span, int64_t timestamp, list headers, int64_t size_limit
    ) except -1:
        """Append one record; runs no Python code, so the span's pointers stay valid.

        Returns 0 if the batch has records and would exceed size_limit, else 1.
        """
        cdef int64_t base = self.base_timestamp if self.count else timestamp
        cdef int64_t body
        cdef uint8_t* end
        if timestamp < -1:
            raise_named("InvalidTimestampError", f"timestamp {timestamp} is below -1 (none)")
        if self.replaced:
            raise ValueError("the records were replaced: reset before putting more")
        span.attributes = 0
        span.timestamp_delta = timestamp - base
        span.offset_delta = self.count
        body = record_body_size(span)
        if self.count and self.size + body + zigzag_size(body) > size_limit:
            return 0
        if self.size + body + 10 > INT32_MAX:
            raise_named(
                "MessageTooLargeError", f"a record of {body} bytes takes the batch beyond 2 GiB"
            )
        self.grow(body + 16)
        end = put_record(self.data + self.size, span, body)
        if headers is not None:
            end = _put_headers(end, headers)
        self.size = end - self.data
        if self.count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        return 1

    cpdef int put(self, object value, object key, object headers, int64_t timestamp) except -1:
        self.add(value, key, headers, timestamp, NO_LIMIT)
        return 0

    def put_within(self, value, key, headers, int64_t timestamp, int64_t size_limit):
        return self.add(value, key, headers, timestamp, size_limit) == 1

    cdef int add(
        self, object value, object key, object headers, int64_t timestamp, int64_t size_limit
    ) except -1:
        cdef int added
        cdef RecordSpan span
        cdef Py_buffer value_view, key_view
        cdef bint release_value = False, release_key = False
        cdef list flat = None
        span.headers = NULL
        span.header_count = 0
        span.header_size = 0
        span.value_size = -1
        span.key_size = -1
        if PyBytes_CheckExact(value) and PyBytes_GET_SIZE(value) <= INT32_MAX:
            span.value = <const uint8_t*>PyBytes_AS_STRING(value)
            span.value_size = <int32_t>PyBytes_GET_SIZE(value)
        elif value is not None:
            get_data(value, "value", &value_view)
            release_value = True
            span.value = <const uint8_t*>value_view.buf
            span.value_size = <int32_t>value_view.len
        try:
            if key is not None:
                if PyBytes_CheckExact(key) and PyBytes_GET_SIZE(key) <= INT32_MAX:
                    span.key = <const uint8_t*>PyBytes_AS_STRING(key)
                    span.key_size = <int32_t>PyBytes_GET_SIZE(key)
                else:
                    get_data(key, "key", &key_view)
                    release_key = True
                    span.key = <const uint8_t*>key_view.buf
                    span.key_size = <int32_t>key_view.len
            if headers is not None:
                flat = _flatten_headers(headers, &span)
            added = self.put_span(&span, timestamp, flat, size_limit)
        finally:
            if release_value:
                PyBuffer_Release(&value_view)
            if release_key:
                PyBuffer_Release(&key_view)
        return added

    cpdef Py_ssize_t put_values(
        self, list values, Py_ssize_t start, int64_t timestamp, Py_ssize_t size_limit
    ) except -1:
        """Append values without keys and headers, with one timestamp; returns their number."""
        cdef Py_ssize_t n = start, taken
        cdef object value
        if start < 0:
            raise ValueError("start is negative")
        if timestamp < -1:
            raise_named("InvalidTimestampError", f"timestamp {timestamp} is below -1 (none)")
        if self.replaced:
            raise ValueError("the records were replaced: reset before putting more")
        while n < PyList_GET_SIZE(values):
            taken = self.put_plain(values, n, timestamp, size_limit)
            n += taken
            if taken == 0:
                # put_plain stopped at another type, the end of its memory, or the limit.
                value = values[n]
                if not self.add(value, None, None, timestamp, size_limit):
                    break
                n += 1
        return n - start

    cdef Py_ssize_t put_plain(
        self, list values, Py_ssize_t start, int64_t timestamp, int64_t size_limit
    ) noexcept:
        """Append bytes objects from start, as many as fit in the allocated memory and the limit.

        The loop runs no Python code, so it keeps its state in local variables.
        """
        cdef Py_ssize_t n, end = PyList_GET_SIZE(values), size
        cdef int64_t delta = timestamp - self.base_timestamp if self.count else 0
        cdef int64_t fixed = 3 + zigzag_size(delta), body
        cdef int64_t used = self.size, most = min(size_limit, self.capacity - 16)
        cdef int32_t count = self.count
        cdef uint8_t* at = self.data + used
        cdef PyObject* item
        for n in range(start, end):
            item = PyList_GET_ITEM(values, n)
            if not PyBytes_CheckExact(<object>item):
                break
            size = PyBytes_GET_SIZE(<object>item)
            body = fixed + zigzag_size(count) + zigzag_size(size) + size
            used += body + zigzag_size(body)
            if used > most or used > INT32_MAX:
                break
            at = put_varint(at, body)
            at[0] = 0
            at = put_varint(at + 1, delta)
            at = put_varint(at, count)
            at[0] = 1                       # null key
            at = put_varint(at + 1, size)
            memcpy(at, PyBytes_AS_STRING(<object>item), size)
            at[size] = 0                    # no headers
            at += size + 1
            count += 1
        else:
            n = end
        n -= start
        if n > 0:
            if self.count == 0:
                self.base_timestamp = timestamp
                self.max_timestamp = timestamp
            elif timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
            self.size = at - self.data
            self.count = count
            return n
        return 0

    cdef void finish_batch(
        self, int64_t base_offset, int32_t leader_epoch, int16_t attributes
    ) noexcept nogil:
        """Write the header and its CRC: data[0:size] is then a complete batch."""
        cdef BatchHeader header
        header.base_offset = base_offset
        header.last_offset = base_offset + (self.count - 1 if self.count else 0)
        header.size = <int32_t>self.size
        header.leader_epoch = leader_epoch
        header.attributes = attributes
        header.base_timestamp = self.base_timestamp
        header.max_timestamp = self.max_timestamp
        header.producer_id = self.producer_id
        header.producer_epoch = self.producer_epoch
        header.base_sequence = self.base_sequence
        header.count = self.count
        write_header(self.data, &header)

    # --- Python interface ---------------------------------------------------------------

    def __len__(self):
        return self.count

    @property
    def byte_size(self):
        return self.size

    @property
    def first_timestamp(self):
        return self.base_timestamp

    @property
    def largest_timestamp(self):
        return self.max_timestamp

    def set_producer(self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence):
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence

    def finish(self, int64_t base_offset=0, int32_t leader_epoch=-1, int16_t attributes=0):
        with nogil:
            self.finish_batch(base_offset, leader_epoch, attributes)
        return memoryview(self)

    def to_bytes(self, int64_t base_offset=0, int32_t leader_epoch=-1, int16_t attributes=0):
        with nogil:
            self.finish_batch(base_offset, leader_epoch, attributes)
        return PyBytes_FromStringAndSize(<char*>self.data, self.size)

    @property
    def records(self):
        return memoryview(self)[V2_HEADER_SIZE:]

    def replace_records(self, records):
        cdef Py_buffer view
        if self.views:
            raise BufferError("the records cannot be replaced while a view of them is open")
        get_data(records, "records", &view)
        try:
            if V2_HEADER_SIZE + view.len > INT32_MAX:
                raise_named("MessageTooLargeError", "a batch is at most 2147483647 bytes")
            if V2_HEADER_SIZE + view.len > self.size:
                self.grow(V2_HEADER_SIZE + view.len - self.size)
            memcpy(self.data + V2_HEADER_SIZE, view.buf, view.len)
            self.size = V2_HEADER_SIZE + view.len
            self.replaced = True
        finally:
            PyBuffer_Release(&view)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.views -= 1
