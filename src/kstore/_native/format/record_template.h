/* Records of a run that have the same shape, told by comparing instead of walking.
 *
 * Records that one program sends often differ in nothing but their contents: the same fields,
 * headers and sizes at the same places. A template of such a record holds every byte that says
 * where something is (sizes, counts, and which bytes of its two deltas continue), each with its
 * place. Of a record that has the same bytes at these places a walk would find the same, so it
 * need not be made; and the next record's place is known without a look at this one. Contents, attributes and
 * the numbers of the deltas are not compared.
 */
#ifndef KSTORE_RECORD_TEMPLATE_H
#define KSTORE_RECORD_TEMPLATE_H

#include "plain_record.h"

enum {
    TEMPLATE_PIECES = 24, /* of eight bytes: a record with more is walked */
    TEMPLATE_PRICE = 16,  /* records that a new template must have served to be worth its making */
    TEMPLATE_CREDIT = 4 * TEMPLATE_PRICE
};

#define TEMPLATE_WHOLE UINT32_C(0xFFFFFFFF)
#define TEMPLATE_LENGTH UINT32_C(0x80808080) /* the bits that say whether a varint continues */
#define TEMPLATE_NUMBER UINT32_C(0x7F7F7F7F)

typedef struct {
    uint64_t bytes, mask;
    int64_t place; /* from the record's start */
} template_piece;

typedef struct {
    int64_t whole; /* bytes of the record */
    int64_t reach; /* bytes from its start that comparing reads; INT64_MAX: there is no template */
    int64_t last;  /* whole size of the last record that was walked */
    int32_t alike; /* records walked before it, in a row, that had this size too */
    int32_t credit;
    int32_t pieces;
    int32_t key_size;
    int32_t timestamp_place, offset_place;
    uint32_t timestamp_mask, offset_mask; /* of a delta's bytes, without the bits that say more */
    template_piece piece[TEMPLATE_PIECES];
} record_template;

KSTORE_ALWAYS_INLINE void template_start(record_template *template) {
    template->reach = INT64_MAX;
    template->last = -1;
    template->alike = 0;
    template->credit = TEMPLATE_CREDIT;
}

/* The number in a zig-zag varint's masked bytes. */
KSTORE_ALWAYS_INLINE int32_t template_number(const uint8_t *at, uint32_t mask) {
    uint32_t raw, bits;
    memcpy(&raw, at, 4);
    raw &= mask;
    bits = (raw & 0x7F) | (raw >> 1 & 0x3F80);
    if (KSTORE_RARE(mask > 0xFFFF))
        bits |= (raw >> 2 & 0x1FC000) | (raw >> 3 & 0xFE00000);
    return (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
}

/* Read the record at `at`, of a run that ends at `end`, if it fits the template; its key's and
 * value's places are not told. */
KSTORE_ALWAYS_INLINE int read_like_template(const uint8_t *at, const uint8_t *end,
                                             record_template *template, plain_record *out) {
    const template_piece *piece = template->piece;
    uint64_t word, wrong;
    if (KSTORE_RARE(template->reach > end - at))
        return 0;
    memcpy(&word, at, 8);
    wrong = (word ^ piece->bytes) & piece->mask;
    for (int32_t n = template->pieces - 1; n > 0; n--) {
        piece++;
        memcpy(&word, at + piece->place, 8);
        wrong |= (word ^ piece->bytes) & piece->mask;
    }
    if (KSTORE_RARE(wrong))
        return 0;
    template->credit++;
    out->timestamp_delta = template_number(
        at + template->timestamp_place, template->timestamp_mask);
    out->offset_delta = template_number(at + template->offset_place, template->offset_mask);
    out->key_size = template->key_size;
    out->end = at + template->whole;
    return 1;
}

/* Compare `size` bytes at `at` of the record at `start`, each under a mask (1 to 4 bytes; the
 * numbers are little-endian, as in plain_varint). */
KSTORE_ALWAYS_INLINE int template_add(
    record_template *template, const uint8_t *start, const uint8_t *at, int64_t size,
    uint32_t mask) {
    template_piece *piece = template->piece + template->pieces - 1;
    int64_t place = at - start;
    if (place + size > piece->place + 8) {
        if (template->pieces == TEMPLATE_PIECES)
            return 0;
        piece++;
        template->pieces++;
        piece->place = place;
        piece->mask = 0;
        memcpy(&piece->bytes, at, 8);
    }
    piece->mask |= (uint64_t)(mask >> (32 - 8 * size)) << 8 * (place - piece->place);
    return 1;
}

/* Take one varint of the record at `start` into a template, whole or but for its number. */
KSTORE_ALWAYS_INLINE int template_take(
    record_template *template, const uint8_t *start, const uint8_t **at, uint32_t mask,
    int32_t *number) {
    const uint8_t *from = *at;
    return plain_varint(at, number) && template_add(template, start, from, *at - from, mask);
}

/* The caller's bytes may change meanwhile, so that no place is read behind `stop`. */
static inline int template_fill(
    record_template *template, const uint8_t *start, const uint8_t *stop) {
    const uint8_t *at = start;
    int32_t number, sizes;
    if (!template_take(template, start, &at, TEMPLATE_WHOLE, &number))
        return 0;
    at++; /* attributes */
    template->timestamp_place = (int32_t)(at - start);
    if (!template_take(template, start, &at, TEMPLATE_LENGTH, &number))
        return 0;
    template->timestamp_mask =
        TEMPLATE_NUMBER >> (32 - 8 * (at - start - template->timestamp_place));
    template->offset_place = (int32_t)(at - start);
    if (!template_take(template, start, &at, TEMPLATE_LENGTH, &number))
        return 0;
    template->offset_mask = TEMPLATE_NUMBER >> (32 - 8 * (at - start - template->offset_place));
    if (!template_take(template, start, &at, TEMPLATE_WHOLE, &template->key_size))
        return 0;
    at += template->key_size < 0 ? 0 : template->key_size;
    if (at > stop || !template_take(template, start, &at, TEMPLATE_WHOLE, &number))
        return 0;
    at += number < 0 ? 0 : number;
    if (at > stop || !template_take(template, start, &at, TEMPLATE_WHOLE, &sizes) ||
        sizes > TEMPLATE_PIECES * 8)
        return 0;
    for (sizes *= 2; sizes > 0; sizes--) {
        if (at > stop || !template_take(template, start, &at, TEMPLATE_WHOLE, &number))
            return 0;
        at += number < 0 ? 0 : number;
    }
    return at == stop;
}

/* Make a template of the record from `at` to `stop`, which a walk found sound. Eight bytes are
 * read at each of its sizes, so that the last records of a run, which ends at `end`, make none. */
static __attribute__((noinline)) void template_make(
    record_template *template, const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    template->credit -= TEMPLATE_PRICE;
    template->pieces = 1; /* at the start, whatever comes */
    template->piece->place = 0;
    template->piece->mask = 0;
    template->reach = INT64_MAX;
    if (end - stop < PLAIN_RECORD_ROOM)
        return;
    memcpy(&template->piece->bytes, at, 8);
    if (!template_fill(template, at, stop))
        return;
    template->whole = stop - at;
    template->reach = template->whole + 8;
}

/* Note that a record had to be walked. The third of one size in a row makes a template: two are
 * often a coincidence, for which a batch of changing records would pay. */
KSTORE_ALWAYS_INLINE void template_note(
    record_template *template, const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    template->alike = stop - at == template->last ? template->alike + 1 : 0;
    template->last = stop - at;
    if (KSTORE_RARE(template->alike >= 2) && template->credit >= TEMPLATE_PRICE)
        template_make(template, at, stop, end);
}

#endif
