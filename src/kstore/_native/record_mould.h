/* Records of a run that have the same shape, told by comparing instead of walking.
 *
 * Records that one program sends often differ in nothing but their contents: the same fields,
 * headers and sizes at the same places. A mould of such a record holds every byte that says where
 * something is (sizes, counts, and which bytes of its two deltas go on), each with its place. Of a
 * record that has the same bytes at these places a walk would find the same, so it need not be
 * made; and the next record's place is known without a look at this one. Contents, attributes and
 * the numbers of the deltas are not compared.
 */
#ifndef KSTORE_RECORD_MOULD_H
#define KSTORE_RECORD_MOULD_H

#include "plain_record.h"

enum {
    MOULD_PIECES = 24, /* of eight bytes: a record with more is walked */
    MOULD_PRICE = 16,  /* records that a new mould must have served to be worth its making */
    MOULD_CREDIT = 4 * MOULD_PRICE
};

#define MOULD_WHOLE UINT32_C(0xFFFFFFFF)
#define MOULD_LENGTH UINT32_C(0x80808080) /* the bits that say whether a varint goes on */
#define MOULD_NUMBER UINT32_C(0x7F7F7F7F)

typedef struct {
    uint64_t bytes, mask;
    int64_t place; /* from the record's start */
} mould_piece;

typedef struct {
    int64_t whole; /* bytes of the record */
    int64_t reach; /* bytes from its start that comparing reads; more than any run has: no mould */
    int64_t last;  /* whole size of the last record that was walked */
    int32_t alike; /* records walked before it, in a row, that had this size too */
    int32_t credit;
    int32_t pieces;
    int32_t key_size;
    int32_t timestamp_place, offset_place;
    uint32_t timestamp_mask, offset_mask; /* of a delta's bytes, without the bits that say more */
    mould_piece piece[MOULD_PIECES];
} record_mould;

KSTORE_ALWAYS_INLINE void mould_start(record_mould *mould) {
    mould->reach = INT64_MAX;
    mould->last = -1;
    mould->alike = 0;
    mould->credit = MOULD_CREDIT;
}

/* The number in a zig-zag varint's masked bytes. */
KSTORE_ALWAYS_INLINE int32_t mould_number(const uint8_t *at, uint32_t mask) {
    uint32_t raw, bits;
    memcpy(&raw, at, 4);
    raw &= mask;
    bits = (raw & 0x7F) | (raw >> 1 & 0x3F80);
    if (KSTORE_RARE(mask > 0xFFFF))
        bits |= (raw >> 2 & 0x1FC000) | (raw >> 3 & 0xFE00000);
    return (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
}

/* Read the record at `at`, of a run that ends at `end`, if it fits the mould; its key's and
 * value's places are not told. */
KSTORE_ALWAYS_INLINE int read_moulded_record(const uint8_t *at, const uint8_t *end,
                                             record_mould *mould, plain_record *out) {
    const mould_piece *piece = mould->piece;
    uint64_t word, wrong;
    if (KSTORE_RARE(mould->reach > end - at))
        return 0;
    memcpy(&word, at, 8);
    wrong = (word ^ piece->bytes) & piece->mask;
    for (int32_t n = mould->pieces - 1; n > 0; n--) {
        piece++;
        memcpy(&word, at + piece->place, 8);
        wrong |= (word ^ piece->bytes) & piece->mask;
    }
    if (KSTORE_RARE(wrong))
        return 0;
    mould->credit++;
    out->timestamp_delta = mould_number(at + mould->timestamp_place, mould->timestamp_mask);
    out->offset_delta = mould_number(at + mould->offset_place, mould->offset_mask);
    out->key_size = mould->key_size;
    out->end = at + mould->whole;
    return 1;
}

/* Compare `size` bytes at `at` of the record at `start`, each under a mask (1 to 4 bytes; the
 * numbers are little-endian, as in plain_varint). */
KSTORE_ALWAYS_INLINE int mould_add(record_mould *mould, const uint8_t *start, const uint8_t *at,
                                   int64_t size, uint32_t mask) {
    mould_piece *piece = mould->piece + mould->pieces - 1;
    int64_t place = at - start;
    if (place + size > piece->place + 8) {
        if (mould->pieces == MOULD_PIECES)
            return 0;
        piece++;
        mould->pieces++;
        piece->place = place;
        piece->mask = 0;
        memcpy(&piece->bytes, at, 8);
    }
    piece->mask |= (uint64_t)(mask >> (32 - 8 * size)) << 8 * (place - piece->place);
    return 1;
}

/* Take one varint of the record at `start` into a mould, whole or but for its number. */
KSTORE_ALWAYS_INLINE int mould_take(record_mould *mould, const uint8_t *start, const uint8_t **at,
                                    uint32_t mask, int32_t *number) {
    const uint8_t *from = *at;
    return plain_varint(at, number) && mould_add(mould, start, from, *at - from, mask);
}

/* The caller's bytes may change meanwhile, so that no place is looked at behind `stop`. */
static inline int mould_fill(record_mould *mould, const uint8_t *start, const uint8_t *stop) {
    const uint8_t *at = start;
    int32_t number, sizes;
    if (!mould_take(mould, start, &at, MOULD_WHOLE, &number))
        return 0;
    at++; /* attributes */
    mould->timestamp_place = (int32_t)(at - start);
    if (!mould_take(mould, start, &at, MOULD_LENGTH, &number))
        return 0;
    mould->timestamp_mask = MOULD_NUMBER >> (32 - 8 * (at - start - mould->timestamp_place));
    mould->offset_place = (int32_t)(at - start);
    if (!mould_take(mould, start, &at, MOULD_LENGTH, &number))
        return 0;
    mould->offset_mask = MOULD_NUMBER >> (32 - 8 * (at - start - mould->offset_place));
    if (!mould_take(mould, start, &at, MOULD_WHOLE, &mould->key_size))
        return 0;
    at += mould->key_size < 0 ? 0 : mould->key_size;
    if (at > stop || !mould_take(mould, start, &at, MOULD_WHOLE, &number))
        return 0;
    at += number < 0 ? 0 : number;
    if (at > stop || !mould_take(mould, start, &at, MOULD_WHOLE, &sizes) || sizes > MOULD_PIECES * 8)
        return 0;
    for (sizes *= 2; sizes > 0; sizes--) {
        if (at > stop || !mould_take(mould, start, &at, MOULD_WHOLE, &number))
            return 0;
        at += number < 0 ? 0 : number;
    }
    return at == stop;
}

/* Make a mould of the record from `at` to `stop`, which a walk found sound. Eight bytes are read at
 * each of its sizes, so that the last records of a run, which ends at `end`, make none. */
static __attribute__((noinline)) void mould_make(record_mould *mould, const uint8_t *at,
                                                 const uint8_t *stop, const uint8_t *end) {
    mould->credit -= MOULD_PRICE;
    mould->pieces = 1; /* at the start, whatever comes */
    mould->piece->place = 0;
    mould->piece->mask = 0;
    mould->reach = INT64_MAX;
    if (end - stop < PLAIN_RECORD_ROOM)
        return;
    memcpy(&mould->piece->bytes, at, 8);
    if (!mould_fill(mould, at, stop))
        return;
    mould->whole = stop - at;
    mould->reach = mould->whole + 8;
}

/* Note that a record had to be walked. The third of one size in a row makes a mould: two are often
 * a coincidence, for which a batch of changing records would pay. */
KSTORE_ALWAYS_INLINE void mould_note(record_mould *mould, const uint8_t *at, const uint8_t *stop,
                                     const uint8_t *end) {
    mould->alike = stop - at == mould->last ? mould->alike + 1 : 0;
    mould->last = stop - at;
    if (KSTORE_RARE(mould->alike >= 2) && mould->credit >= MOULD_PRICE)
        mould_make(mould, at, stop, end);
}

#endif
