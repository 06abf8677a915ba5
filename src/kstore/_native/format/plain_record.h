/* One record of a v2 batch read the quick way: the shape that nearly every record has.
 *
 * A record is plain if its lengths and deltas take few bytes, its value is not null and it has
 * no headers. Whatever is not certainly a sound plain record is left to take_record (record_span.pxd),
 * which alone says what is wrong with it: this reader only ever says yes or "not me".
 */
#ifndef KSTORE_PLAIN_RECORD_H
#define KSTORE_PLAIN_RECORD_H

#include <stdint.h>
#include <string.h>

enum {
    /* Bytes that may be read from a record's start before its size is known: a size of at
     * most three bytes, attributes, three numbers of at most four, and four bytes of read-ahead. */
    PLAIN_RECORD_ROOM = 24
};

typedef struct {
    const uint8_t *key; /* where it would be, if key_size is -1 (null) */
    const uint8_t *value;
    const uint8_t *end; /* the next record's first byte */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size;
    int32_t value_size;
} plain_record;

/* The size field of the record before. Records of one batch often have the same, and where the
 * next one starts hangs on it: comparing (and being right) lets the CPU begin with the next
 * record at once instead of after a load and the decoding of a varint. */
typedef struct {
    uint32_t raw; /* its first two bytes; more than 16 bits: none */
    int32_t width;
    int64_t whole; /* of the record, size field included */
} plain_guess;

#define PLAIN_GUESS_NONE ((plain_guess){UINT32_MAX, 0, 0})

#define KSTORE_ALWAYS_INLINE static inline __attribute__((always_inline))
#define KSTORE_RARE(condition) __builtin_expect(!!(condition), 0)

/* Zig-zag varint of one to four bytes at *at, which moves behind it; 0 if it is longer. */
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

/* Whether headers, their count first, fill the bytes from `at` to `stop`, of a run that ends at
 * `end`; 0 also where that is not certain. */
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

/* The same, quicker where count and sizes take one byte each and none is negative: one test says
 * both, and such a count is, in zig-zag, the number of sizes that follow. */
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

/* Read the record at `at`, of a run of records that ends at `end`; 1 if it is plain, or with
 * `any` if it is at least short: its value may be null then, and it may have headers. */
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
        /* The way to the next record: as few steps as will do for one byte and for two. */
        guess->raw = raw;
        if (!(raw & 0x80)) {
            guess->width = 1;
            guess->whole = 1 + (raw >> 1 & 0x3F);
        } else if (!(raw & 0x8000)) {
            guess->width = 2;
            guess->whole = 2 + (raw >> 1 & 0x3F) + (raw >> 2 & 0x1FC0);
        } else {
            if (!plain_varint(&body, &size) || body - at > 3)
                return 0;
            guess->raw = UINT32_MAX;
            guess->width = 3;
            guess->whole = 3 + (int64_t)size;
        }
        /* Keeps the compiler from computing this without asking first. */
        __asm__("" : "+r"(guess->whole), "+r"(guess->width));
    }
    if (KSTORE_RARE(guess->whole > left))
        return 0;
    const uint8_t *stop = at + guess->whole;
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
    /* The value ends one byte before the record does, and that byte counts no headers. This says
     * too that nothing above was read from beyond the record: body has only moved forward. */
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
