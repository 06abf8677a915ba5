"""Record: one message with its offset in the log."""

cimport cython
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_SetItemString
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.type cimport PyType_Modified
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from kstore._native.format.argument cimport (
    encode_header_name, header_items, header_pair, raise_not_bytes,
)
from kstore._native.format.cursor cimport Cursor
from kstore._native.format.integer cimport integer_of
from kstore._native.format.record_span cimport parse_header
from kstore._native.format.status cimport OK, TRUNCATED, Status, raise_for_status, raise_named
from kstore._native.format.subclass_tuple cimport new_subclass_tuple

_OF_ITS_LOG = (
    "a record of a log does not know its partition: log.topic and log.partition do; the records "
    "of a consumer have both")

# The partitions of consumers' records, each once as (topic, partition). A record stores an index
# into this list, which fits into its padding, instead of a reference. Never shrinks.
cdef list _origins = [None]
cdef dict _origin_numbers = {}
cdef enum:
    FEW_HEADERS = 32                # up to which a name is searched from the last header on
_KINDS = ("NoTimestampType", "CreateTime", "LogAppendTime")     # Kafka's names, from -1


class RecordHeaders(tuple):
    """The headers of a record: (name, value) pairs, found by name too."""

    __slots__ = ()

    def __getitem__(self, index):
        if not isinstance(index, str):
            return tuple.__getitem__(self, index)
        if len(self) > FEW_HEADERS:
            return _values_by_name(self)[index]
        for name, value in reversed(self):
            if name == index:
                return value
        raise KeyError(index)

    def __contains__(self, item):
        if isinstance(item, str):
            return any(name == item for name, _ in self)
        return tuple.__contains__(self, item)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def items(self):
        return self

    def keys(self):
        return dict(iter(self)).keys()


cdef object _last_values = (None, None)


def _values_by_name(headers):
    """The last value of each name; kept until it is asked of others, so that `dict(headers)`, which
    asks for each name by itself, reads many headers once."""
    global _last_values
    of, values = _last_values
    if of is not headers:
        values = dict(iter(headers))
        _last_values = headers, values
    return values


cdef object _NO_HEADERS = RecordHeaders()
cdef object _headers_type = RecordHeaders      # not looked up by name


cdef tuple parse_headers(const uint8_t* at, const uint8_t* end, int32_t count):
    """Headers as RecordHeaders; invalid UTF-8 in a name is replaced as in Java."""
    cdef Cursor cursor
    cdef int32_t n, key_size = 0, value_size = 0
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef Status status
    if count <= 0:
        return <tuple>_NO_HEADERS
    if count > (end - at) // 2:         # each takes two bytes or more
        raise_for_status(TRUNCATED, None, -1, -1)
    # Filled in place: a call of the class takes three times the instructions.
    headers = new_subclass_tuple(_headers_type, count)
    cursor.position = at
    cursor.end = end
    for n in range(count):
        status = parse_header(&cursor, &key_size, &value_size, &key, &value)
        if status != OK:
            raise_for_status(status, None, -1, -1)
        name = (<const char*>key)[:key_size].decode("utf-8", "replace")
        pair = (
            name,
            None if value_size < 0
            else PyBytes_FromStringAndSize(<const char*>value, value_size),
        )
        Py_INCREF(pair)
        PyTuple_SET_ITEM(headers, n, pair)
    return <tuple>headers


cdef int _check_bytes(str name, object data) except -1:
    if data is None or isinstance(data, bytes):
        return 0
    raise_not_bytes(name, data)


cdef object _milliseconds(object when):
    """The timestamp of a record: of an aware datetime, rounded down; None is -1."""
    if when is None:
        return -1
    if hasattr(when, "utcoffset"):
        if when.utcoffset() is None:
            raise_named(
                "InvalidTimestampError",
                f"{when!r} has no time zone; datetime.now(UTC) has one, and when.astimezone() "
                "takes it for local time",
            )
        from datetime import UTC, datetime, timedelta
        when = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    try:
        return integer_of("timestamp", when, INT64_MIN, INT64_MAX)
    except ValueError as error:
        raise_named("InvalidTimestampError", f"{error} (Kafka's int64)")


@cython.final
@cython.no_gc           # has only bytes and tuples of str and bytes: no reference cycles
@cython.freelist(256)
cdef class Record:
    """One record, of a log or for a log: Record(value=b"12.50", key=b"alice").

    Immutable, hashable, comparable, picklable. Attributes: offset, timestamp (ms since 1970, -1
    for none), key, value, headers ((name, value) pairs), leader_epoch, timestamp_type, datetime.
    A record to append needs no offset; without a timestamp it gets the time of the append.
    """

    def __init__(
        self, offset=-1, timestamp=None, key=None, value=None, headers=None, *,
        str timestamp_type="CreateTime", leader_epoch=-1,
    ):
        if self.is_initialized:
            raise AttributeError("a Record is immutable")
        if isinstance(offset, (bytes, str)):
            raise TypeError("name the fields of a record: kstore.Record(value=..., key=...)")
        self.timestamp = _milliseconds(timestamp)
        _check_bytes("key", key)
        _check_bytes("value", value)
        cdef list pairs = []
        for pair in () if headers is None else header_items(headers):
            pair = header_pair(pair)
            if not isinstance(pair[0], str):
                raise TypeError(
                    f"the name of a record's header is str, not {type(pair[0]).__name__}")
            encode_header_name(pair[0])
            _check_bytes("header value", pair[1])
            pairs.append(pair)
        if timestamp_type not in _KINDS:
            raise ValueError(f"timestamp_type is one of {', '.join(_KINDS)}")
        self.timestamp_kind = _KINDS.index(timestamp_type) - 1
        self.offset = integer_of("offset", offset, INT64_MIN, INT64_MAX)
        self.leader_epoch = <int32_t>integer_of("leader_epoch", leader_epoch, INT32_MIN, INT32_MAX)
        self.key = key
        self.value = value
        self.headers = RecordHeaders(pairs)
        self.is_initialized = True

    @property
    def timestamp_type(self):
        return _KINDS[self.timestamp_kind + 1]

    @property
    def datetime(self):
        if <int64_t>self.timestamp < 0:
            return None
        from datetime import UTC, datetime, timedelta
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.timestamp)
        except OverflowError:
            raise_named(
                "InvalidTimestampError", f"{self.timestamp} ms is beyond the year 9999")

    @property
    def topic(self):
        if not self.origin:
            raise AttributeError(_OF_ITS_LOG)
        return _origins[self.origin][0]

    @property
    def partition(self):
        if not self.origin:
            raise AttributeError(_OF_ITS_LOG)
        return _origins[self.origin][1]

    def replace(self, **changes):
        for name in changes:
            if name not in _FIELDS:
                raise TypeError(f"replace() takes {', '.join(_FIELDS)}, not {name!r}")
        return Record(**(dict(zip(_FIELDS, _fields(self), strict=True)) | changes))

    __replace__ = replace   # of copy.replace()

    def __eq__(self, other):
        if type(other) is not Record:
            return NotImplemented
        return _fields(self) == _fields(<Record>other)

    def __hash__(self):
        return hash(_fields(self))

    def __reduce__(self):
        fields = _fields(self)
        return _restore, fields + (_origins[self.origin],) if self.origin else fields

    def __repr__(self):
        fields = [f"offset={self.offset}", f"timestamp={self.timestamp}"]
        if self.key is not None:
            fields.append(f"key={self.key!r}")
        fields.append(f"value={self.value!r}")
        if self.headers:
            fields.append(f"headers={self.headers!r}")
        return f"Record({', '.join(fields)})"


cdef tuple _FIELDS = (
    "offset", "timestamp", "key", "value", "headers", "timestamp_type", "leader_epoch",
)


cdef tuple _fields(Record record):
    return (
        record.offset, record.timestamp, record.key, record.value, record.headers,
        _KINDS[record.timestamp_kind + 1], record.leader_epoch,
    )


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char* name
        int type
        Py_ssize_t offset
        int flags
        const char* doc
    int T_OBJECT_EX
    int READONLY
    object PyDescr_NewMember(PyTypeObject* type, PyMemberDef* member)

cdef extern from *:
    """
    static const char* const kstore_record_members[] = {"key", "value", "timestamp", "headers"};
    """
    const char** kstore_record_members

cdef PyMemberDef[4] _members


cdef int _add_members() except -1:
    """Add member descriptors for key, value, timestamp and headers to Record, as for slots."""
    cdef Record record = Record(1, 2, b"key", b"value", [("name", None)])
    cdef PyTypeObject* kind = <PyTypeObject*>Record
    cdef Py_ssize_t first = <char*>&record.mark - <char*><void*>record + sizeof(int64_t)
    cdef int n
    for n in range(4):
        _members[n].name = kstore_record_members[n]
        _members[n].type = T_OBJECT_EX
        _members[n].offset = first + n * <Py_ssize_t>sizeof(void*)
        _members[n].flags = READONLY
        PyDict_SetItemString(
            <object>kind.tp_dict, kstore_record_members[n], PyDescr_NewMember(kind, &_members[n])
        )
    PyType_Modified(Record)
    plain = <object>record
    assert (plain.key, plain.value, plain.timestamp, plain.headers) == (
        b"key", b"value", 2, (("name", None),)
    ), "the compiler has changed the order of Record's fields"
    return 0

_add_members()


def _restore(offset, timestamp, key, value, headers, timestamp_type, leader_epoch, origin=None):
    """Unpickle a Record."""
    record = Record(
        offset, timestamp, key, value, headers,
        timestamp_type=timestamp_type, leader_epoch=leader_epoch,
    )
    if origin is not None:
        name_partition([record], *origin)
    return record


def name_partition(list records not None, topic, int32_t partition):
    """Let records know their topic and partition; only for new ones, which no other code has."""
    topic = str(topic)  # a topic's own name is of a subclass
    origin = _origin_numbers.get((topic, partition))
    if origin is None:
        origin = len(_origins)
        _origins.append((topic, partition))
        _origin_numbers[topic, partition] = origin
    cdef int32_t number = origin
    for record in records:
        (<Record?>record).origin = number


def holds_records_or_pairs(list items not None):
    """Whether any item is a Record or a tuple (then append_records must take the list)."""
    for item in items:
        if PyBytes_CheckExact(item):
            continue
        if type(item) is Record or isinstance(item, tuple):
            return True
    return False
