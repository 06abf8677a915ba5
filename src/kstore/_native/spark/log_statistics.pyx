"""Statistics of a log in one walk: counts, sizes, compression, distinct keys, time windows."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from kstore._native.compaction.offset_map cimport sip_hash_of, sip_key
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.end_marker cimport ABORT, COMMIT, control_type
from kstore._native.format.layout cimport (
    CODEC_MASK, CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, V2_HEADER_SIZE,
)
from kstore._native.format.record_span cimport Cursor, parse_header
from kstore._native.format.status cimport OK, BAD_MAGIC, BAD_OFFSET, BAD_SIZE, NO_MEMORY
from kstore._native.read.batch_walk cimport AT_END, COMPRESSED, DAMAGED, DECIDE, BatchWalk, Event
from kstore._native.spark.tally cimport Rows as TallyRows, Tally, add_runs

cdef extern from * nogil:
    """
    #define KSTORE_BIT_LENGTH(x) ((x) ? 64 - __builtin_clzll(x) : 0)
    """
    int bit_length "KSTORE_BIT_LENGTH" (uint64_t) noexcept

cdef enum:
    CODECS = 5
    FORMATS = 3
    REGISTER_BITS = 14
    REGISTERS = 1 << REGISTER_BITS
    BUCKETS = 40                # for sizes below 2^39, such as the sum of three 31-bit sizes

# Hash key of the keys' HyperLogLog. It never changes, so that registers of all walks can be merged.
# Keys constructed with it could only distort the estimate.
cdef sip_key KEY_HASH
KEY_HASH.k0 = <uint64_t>0x6B73746F72652073
KEY_HASH.k1 = <uint64_t>0x7461747320686C6C


# Distribution of sizes; one bucket for each bit length.
cdef struct Spread:
    int64_t total
    int64_t least
    int64_t most
    int64_t[BUCKETS] buckets


# Batches of one codec, or of one format.
cdef struct Kind:
    int64_t batches
    int64_t records
    int64_t size
    int64_t plain_size          # without compression


cdef inline void add_size(Spread* spread, int64_t size) noexcept nogil:
    spread.total += size
    spread.least = min(spread.least, size)
    spread.most = max(spread.most, size)
    spread.buckets[bit_length(<uint64_t>size)] += 1


cdef inline void add_kind(Kind* kind, int64_t records, int64_t size, int64_t plain) noexcept nogil:
    kind.batches += 1
    kind.records += records
    kind.size += size
    kind.plain_size += plain


cdef tuple spread_values(const Spread* spread):
    cdef int n
    return spread.total, spread.least, spread.most, [spread.buckets[n] for n in range(BUCKETS)]


cdef list kind_values(const Kind* kinds, int count):
    cdef int n
    return [
        (kinds[n].batches, kinds[n].records, kinds[n].size, kinds[n].plain_size)
        for n in range(count)
    ]


cdef class Survey(BatchWalk):
    cdef Tally tally
    cdef int64_t limit              # every offset is below
    cdef bint has_size              # the corrupt batch has a valid size field
    cdef int64_t next_offset        # after the previous record; -1 before the first
    cdef Spread batch_sizes, batch_records, record_sizes, key_sizes, value_sizes
    cdef Kind[CODECS] codecs
    cdef Kind[FORMATS] formats
    cdef uint8_t[REGISTERS] registers
    cdef readonly int64_t empty_batches, control_batches, transactional_batches
    cdef readonly int64_t idempotent_batches, log_append_time_batches
    cdef readonly int64_t control_records, commit_markers, abort_markers, transactional_records
    cdef readonly int64_t null_keys, null_values, tombstones
    cdef readonly int64_t records_with_headers, headers, header_bytes
    cdef readonly int64_t first_offset, end_offset, first_record, gaps, missing

    def __cinit__(self, Tally tally not None, decompress):
        self.tally = tally
        self.decompress = decompress
        self.batch_sizes.least = self.batch_records.least = self.record_sizes.least = INT64_MAX
        self.key_sizes.least = self.value_sizes.least = INT64_MAX
        self.first_offset = self.end_offset = self.first_record = self.next_offset = -1

    @property
    def last_record(self):
        return self.next_offset - 1 if self.next_offset >= 0 else -1

    @property
    def spreads(self):
        return {
            "batch_sizes": spread_values(&self.batch_sizes),
            "batch_records": spread_values(&self.batch_records),
            "record_sizes": spread_values(&self.record_sizes),
            "key_sizes": spread_values(&self.key_sizes),
            "value_sizes": spread_values(&self.value_sizes),
        }

    @property
    def by_codec(self):
        return kind_values(&self.codecs[0], CODECS)

    @property
    def by_format(self):
        return kind_values(&self.formats[0], FORMATS)

    @property
    def key_registers(self):
        return <bytes>(<char*>&self.registers[0])[:REGISTERS]

    def begin_segment(self, path, int64_t base_offset, int64_t limit):
        """Start another segment, whose offsets are all below limit."""
        self.begin(path, base_offset)
        self.limit = limit

    def run(self):
        """Walk to the end of the complete batches in the buffer."""
        cdef Event event
        while True:
            with nogil:
                event = self.walk()
            if event == COMPRESSED:
                event = self.survey_decompressed()
                if event == AT_END:
                    continue
            if event == DAMAGED:
                self.fail()
            return

    @property
    def declared_size(self):
        """Declared size of the batch at which run() raised; 0 if unreadable."""
        return self.batch.size if self.has_size else 0

    def resume_at(self, int64_t position):
        """Continue at a later position in the file; False if it is outside the buffer."""
        if not self.start + self.position < position <= self.start + self.end:
            return False
        self.position = position - self.start
        return True

    cdef Event walk(self) noexcept nogil:
        cdef Event event
        cdef const uint8_t* at
        cdef const uint8_t* stop
        while True:
            event = self.next_batch()
            self.has_size = event != AT_END and self.status not in (BAD_SIZE, BAD_MAGIC)
            if event != DECIDE:
                return event
            if self.batch.last_offset >= self.limit:
                self.status = BAD_OFFSET
                return DAMAGED
            if self.is_compressed():
                return COMPRESSED
            self.status = self.fill_uncompressed(&at, &stop)
            if self.status != OK:
                return DAMAGED
            event = self.survey_rows(at, stop, self.batch.size)
            if event != AT_END:
                return event

    cdef Event survey_decompressed(self) except *:
        cdef HeldBytes view
        cdef Event event
        decompressed = self.decompress_batch()
        view = hold_bytes(decompressed)
        with nogil:
            self.status = self.fill_decompressed(view.data, view.size)
            if self.status != OK:
                event = DAMAGED
            else:
                event = self.survey_rows(
                    view.data, view.data + view.size,
                    view.size + (V2_HEADER_SIZE if self.batch.magic == 2 else 0),
                )
        return event

    cdef Event survey_rows(
        self, const uint8_t* data, const uint8_t* stop, int64_t plain_size
    ) noexcept nogil:
        """Count a batch whose rows were parsed; returns AT_END, or DAMAGED."""
        cdef int64_t count = self.rows.count
        if count and self.rows.offsets[0] <= self.last_offset:
            self.status = BAD_OFFSET        # overlaps the previous batch
            return DAMAGED
        if self.batch.attributes & CONTROL_BIT and self.batch.magic == 2:
            self.survey_control(data)
        elif not self.survey_records(data, stop):
            self.status = NO_MEMORY
            return DAMAGED
        self.survey_offsets()
        self.survey_batch(plain_size)
        self.step()
        return AT_END

    cdef void survey_batch(self, int64_t plain_size) noexcept nogil:
        cdef int64_t count = self.rows.count, size = self.batch.size
        cdef int attributes = self.batch.attributes
        add_size(&self.batch_sizes, size)
        add_size(&self.batch_records, count)
        add_kind(&self.codecs[attributes & CODEC_MASK], count, size, plain_size)
        add_kind(&self.formats[self.batch.magic], count, size, plain_size)
        self.empty_batches += count == 0
        if self.batch.magic == 2:
            self.control_batches += attributes & CONTROL_BIT != 0
            if not attributes & CONTROL_BIT:
                self.idempotent_batches += self.batch.producer_id >= 0
                if attributes & TRANSACTIONAL_BIT:
                    self.transactional_batches += 1
                    self.transactional_records += count
        if self.batch.magic > 0:
            self.log_append_time_batches += attributes & LOG_APPEND_TIME_BIT != 0

    cdef void survey_offsets(self) noexcept nogil:
        """Count first and last offsets, and gaps between records (including control records)."""
        cdef int64_t n, offset
        cdef int64_t first = self.batch.base_offset
        if self.batch.magic < 2:            # a wrapper has only its last offset
            first = self.rows.offsets[0]
        if self.first_offset < 0:
            self.first_offset = first
        self.end_offset = self.batch.last_offset + 1
        for n in range(self.rows.count):
            offset = self.rows.offsets[n]
            if self.next_offset < 0:
                self.first_record = offset
            elif offset > self.next_offset:
                self.gaps += 1
                self.missing += offset - self.next_offset
            self.next_offset = offset + 1

    cdef void survey_control(self, const uint8_t* data) noexcept nogil:
        cdef int64_t n
        cdef int kind
        self.control_records += self.rows.count
        for n in range(self.rows.count):
            kind = control_type(data + self.rows.key_positions[n], self.rows.key_lengths[n])
            self.commit_markers += kind == COMMIT
            self.abort_markers += kind == ABORT

    cdef bint survey_records(self, const uint8_t* data, const uint8_t* stop) noexcept nogil:
        """Count client records; False without memory."""
        cdef int64_t n, size, count = self.rows.count
        cdef int32_t key, value
        cdef TallyRows rows
        rows.offsets = self.rows.offsets
        rows.timestamps = self.rows.timestamps
        rows.key_positions = self.rows.key_positions
        rows.key_lengths = self.rows.key_lengths
        rows.value_lengths = self.rows.value_lengths
        if add_runs(self.tally, &rows, count) < 0:
            return False
        self.records += count
        for n in range(count):
            key = self.rows.key_lengths[n]
            value = self.rows.value_lengths[n]
            size = 0
            if key >= 0:
                size += key
                add_size(&self.key_sizes, key)
                self.add_key(data + self.rows.key_positions[n] if key else NULL, key)
                self.tombstones += value < 0
            else:
                self.null_keys += 1
            if value >= 0:
                size += value
                add_size(&self.value_sizes, value)
            else:
                self.null_values += 1
            if self.rows.header_counts[n]:
                size += self.add_headers(
                    data + self.rows.header_positions[n], stop, self.rows.header_counts[n]
                )
            add_size(&self.record_sizes, size)
        return True

    cdef inline void add_key(self, const uint8_t* key, int64_t size) noexcept nogil:
        """HyperLogLog: a register has the longest run of leading zeros of its hashes."""
        cdef uint64_t hashed = sip_hash_of(&KEY_HASH, key, size).low
        cdef int64_t register = <int64_t>(hashed >> (64 - REGISTER_BITS))
        cdef uint64_t rest = hashed << REGISTER_BITS | <uint64_t>1 << (REGISTER_BITS - 1)
        cdef int rank = 65 - bit_length(rest)
        if rank > self.registers[register]:
            self.registers[register] = <uint8_t>rank

    cdef int64_t add_headers(
        self, const uint8_t* at, const uint8_t* stop, int32_t count
    ) noexcept nogil:
        """Size of names and values; the record was parsed before, so they are well-formed."""
        cdef Cursor cursor
        cdef int32_t _n, key_size, value_size
        cdef const uint8_t* key
        cdef const uint8_t* value
        cdef int64_t size = 0
        cursor.position = at
        cursor.end = stop
        for _n in range(count):
            if parse_header(&cursor, &key_size, &value_size, &key, &value) != OK:
                break
            size += key_size + max(value_size, 0)
        self.records_with_headers += 1
        self.headers += count
        self.header_bytes += size
        return size
