/* Fast path for one record of a v2 batch.
 *
 * A record is plain if its lengths and deltas take few bytes, its value is not null and it has no
 * headers, as nearly every record. This reader returns 0 for any other record, and for a corrupt
 * one; parse_record (record_span.pxd) reads those, and determines the status.
 */
#ifndef KSTORE_PLAIN_RECORD_H
#define KSTORE_PLAIN_RECORD_H

#include <stdint.h>
#include <string.h>

enum {
    /* Bytes that the reader may read before it knows a record's size: a size of up to three
     * bytes, attributes, three numbers of up to four bytes, and four bytes of read-ahead. */
    PLAIN_RECORD_ROOM = 24
};

typedef struct {
    const uint8_t *key; /* also set if key_size is -1 (null) */
    const uint8_t *value;
    const uint8_t *end; /* the next record's first byte */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size;
    int32_t value_size;
} plain_record;

/* The size field of the previous record. Records of a batch often have the same size. Comparing
 * with it lets the CPU speculate the position of the next record, instead of waiting for a load
 * and the decoding of a varint. */
typedef struct {
    uint32_t raw; /* its first two bytes; more than 16 bits: none */
    int32_t width;
    int64_t record_size; /* size field included */
} plain_guess;

#define PLAIN_GUESS_NONE ((plain_guess){UINT32_MAX, 0, 0})

#define KSTORE_ALWAYS_INLINE static inline __attribute__((always_inline))
#define KSTORE_RARE(condition) __builtin_expect(!!(condition), 0)

/* Read a zig-zag varint of one to four bytes and advance *at; returns 0 if it is longer. */
KSTORE_ALWAYS_INLINE int plain_varint(const uint8_t **at, int32_t *out) {
    uint32_t raw, bits;
    memcpy(&raw, *at, 4);
    if (!(raw & 0x80)) {
        bits = raw & 0x7F;
        *at += 1;
    } else if (!(raw & 0x8000)) {
        bits = (raw & 0x7F) | (raw >> 1 & 0x3F80);
        *at += 2;
    } else if (!(raw & 0x800000)) {
        bits = (raw & 0x7F) | (raw >> 1 & 0x3F80) | (raw >> 2 & 0x1FC000);
        *at += 3;
    } else if (!(raw & 0x80000000)) {
        bits = (raw & 0x7F) | (raw >> 1 & 0x3F80) | (raw >> 2 & 0x1FC000) | (raw >> 3 & 0xFE00000);
        *at += 4;
    } else {
        return 0;
    }
    *out = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
    return 1;
}

/* Whether a header count and headers fill the bytes from `at` to `stop`; `end` is the end of the
 * records. May return 0 for valid headers. */
static inline int long_headers(const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    int32_t count, size;
    if (end - at < 4 || !plain_varint(&at, &count) || count < 0)
        return 0;
    for (; count > 0; count--) {
        if (end - at < 4 || !plain_varint(&at, &size) || size < 0 || size > stop - at)
            return 0;
        at += size;
        if (end - at < 4 || !plain_varint(&at, &size) || size < -1 || size > stop - at)
            return 0;
        at += size < 0 ? 0 : size;
    }
    return at == stop;
}

/* As long_headers; faster if count and sizes have one byte each and none is negative. One test
 * checks both, and the zig-zag value of such a count is the number of sizes that follow. */
KSTORE_ALWAYS_INLINE int short_headers(const uint8_t *at, const uint8_t *stop,
                                       const uint8_t *end) {
    const uint8_t *start = at;
    int32_t sizes;
    if (KSTORE_RARE(at >= stop || *at & 0x81))
        return long_headers(start, stop, end);
    for (sizes = *at++; sizes > 0; sizes--) {
        if (KSTORE_RARE(at >= stop || *at & 0x81))
            return long_headers(start, stop, end);
        at += 1 + (*at >> 1);
    }
    return at == stop;
}

/* Read the record at `at`; `end` is the end of the records. Returns 1 if the record is plain; with
 * `any`, also if its value is null or it has headers. */
KSTORE_ALWAYS_INLINE int read_short_record(const uint8_t *at, const uint8_t *end,
                                           plain_guess *guess, plain_record *out, int any) {
    uint16_t raw;
    int64_t left = end - at;
    if (KSTORE_RARE(left < PLAIN_RECORD_ROOM))
        return 0;
    memcpy(&raw, at, 2);
    if (KSTORE_RARE(raw != guess->raw)) {
        const uint8_t *body = at;
        int32_t size;
        if (KSTORE_RARE(raw & 1)) /* negative */
            return 0;
        /* The critical path to the next record: few steps for sizes of one or two bytes. */
        guess->raw = raw;
        if (!(raw & 0x80)) {
            guess->width = 1;
            guess->record_size = 1 + (raw >> 1 & 0x3F);
        } else if (!(raw & 0x8000)) {
            guess->width = 2;
            guess->record_size = 2 + (raw >> 1 & 0x3F) + (raw >> 2 & 0x1FC0);
        } else {
            if (!plain_varint(&body, &size) || body - at > 3)
                return 0;
            guess->raw = UINT32_MAX;
            guess->width = 3;
            guess->record_size = 3 + (int64_t)size;
        }
        /* Keeps the compiler from computing this before the comparison. */
        __asm__("" : "+r"(guess->record_size), "+r"(guess->width));
    }
    if (KSTORE_RARE(guess->record_size > left))
        return 0;
    const uint8_t *stop = at + guess->record_size;
    const uint8_t *body = at + guess->width + 1; /* attributes are unused */
    const uint8_t *key;
    int32_t timestamp_delta, size = -1;
    if (!plain_varint(&body, &timestamp_delta) || !plain_varint(&body, &out->offset_delta))
        return 0;
    if (*body == 1) { /* -1: null */
        key = body += 1;
    } else {
        if (!plain_varint(&body, &size) || size < 0 || size > end - body - 4)
            return 0;
        key = body;
        body += size;
    }
    out->key = key;
    out->key_size = size;
    if (!plain_varint(&body, &size))
        return 0;
    /* A plain value ends one byte before the record, and that byte is a header count of 0. This
     * also proves that no field above is beyond the record, because body only moves forward. */
    if (size < 0 || size != stop - body - 1 || KSTORE_RARE(stop[-1] != 0)) {
        if (!any || size < -1 || size > stop - body)
            return 0;
        if (!short_headers(body + (size < 0 ? 0 : size), stop, end))
            return 0;
    }
    out->value = body;
    out->value_size = size;
    out->timestamp_delta = timestamp_delta;
    out->end = stop;
    return 1;
}

KSTORE_ALWAYS_INLINE int read_plain_record(const uint8_t *at, const uint8_t *end,
                                           plain_guess *guess, plain_record *out) {
    return read_short_record(at, end, guess, out, 0);
}

#endif
