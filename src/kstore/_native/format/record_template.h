/* Recognizes records of the same shape by comparison instead of parsing.
 *
 * Records from one program often differ only in their contents: they have the same fields, headers
 * and sizes at the same positions. A template has every byte of such a record that determines
 * positions (sizes, counts, and the continuation bits of its two deltas), with its position. If a
 * record has the same bytes at these positions, parsing it would give the same positions, and the
 * CPU can compute the next record's position without waiting for this one. Contents, attributes
 * and the values of the deltas are not compared.
 */
#ifndef KSTORE_RECORD_TEMPLATE_H
#define KSTORE_RECORD_TEMPLATE_H

#include "plain_record.h"

enum {
    TEMPLATE_WORDS = 24, /* of eight bytes; a record that needs more is parsed */
    TEMPLATE_COST = 16,  /* number of matching records that pay for a new template */
    TEMPLATE_CREDIT = 4 * TEMPLATE_COST
};

#define TEMPLATE_ALL UINT32_C(0xFFFFFFFF)
#define TEMPLATE_CONTINUATION UINT32_C(0x80808080) /* continuation bits of a varint */
#define TEMPLATE_NUMBER UINT32_C(0x7F7F7F7F)

typedef struct {
    uint64_t bytes, mask;
    int64_t position; /* from the record's start */
} template_word;

typedef struct {
    int64_t record_size;
    int64_t reach; /* bytes that a comparison reads; INT64_MAX: no template */
    int64_t last;  /* size of the last parsed record */
    int32_t alike; /* number of preceding parsed records of that size, in a row */
    int32_t credit;
    int32_t word_count;
    int32_t key_size;
    int32_t timestamp_position, offset_position;
    uint32_t timestamp_mask, offset_mask; /* of a delta's bytes, without continuation bits */
    template_word words[TEMPLATE_WORDS];
} record_template;

KSTORE_ALWAYS_INLINE void template_start(record_template *template) {
    template->reach = INT64_MAX;
    template->last = -1;
    template->alike = 0;
    template->credit = TEMPLATE_CREDIT;
}

/* Decode the masked bytes of a zig-zag varint. */
KSTORE_ALWAYS_INLINE int32_t template_number(const uint8_t *at, uint32_t mask) {
    uint32_t raw, bits;
    memcpy(&raw, at, 4);
    raw &= mask;
    bits = (raw & 0x7F) | (raw >> 1 & 0x3F80);
    if (KSTORE_RARE(mask > 0xFFFF))
        bits |= (raw >> 2 & 0x1FC000) | (raw >> 3 & 0xFE00000);
    return (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
}

/* Read the record at `at` if it matches the template; `end` is the end of the records. Does not
 * set the addresses of key and value. */
KSTORE_ALWAYS_INLINE int read_by_template(const uint8_t *at, const uint8_t *end,
                                             record_template *template, plain_record *out) {
    const template_word *expected = template->words;
    uint64_t word, wrong;
    if (KSTORE_RARE(template->reach > end - at))
        return 0;
    memcpy(&word, at, 8);
    wrong = (word ^ expected->bytes) & expected->mask;
    for (int32_t n = template->word_count - 1; n > 0; n--) {
        expected++;
        memcpy(&word, at + expected->position, 8);
        wrong |= (word ^ expected->bytes) & expected->mask;
    }
    if (KSTORE_RARE(wrong))
        return 0;
    template->credit++;
    out->timestamp_delta = template_number(
        at + template->timestamp_position, template->timestamp_mask);
    out->offset_delta = template_number(at + template->offset_position, template->offset_mask);
    out->key_size = template->key_size;
    out->end = at + template->record_size;
    return 1;
}

/* Add `size` bytes (1 to 4) at `at` of the record at `start` to the template, each under a mask;
 * words are little-endian, as in plain_varint. */
KSTORE_ALWAYS_INLINE int template_add(
    record_template *template, const uint8_t *start, const uint8_t *at, int64_t size,
    uint32_t mask) {
    template_word *expected = template->words + template->word_count - 1;
    int64_t position = at - start;
    if (position + size > expected->position + 8) {
        if (template->word_count == TEMPLATE_WORDS)
            return 0;
        expected++;
        template->word_count++;
        expected->position = position;
        expected->mask = 0;
        memcpy(&expected->bytes, at, 8);
    }
    expected->mask |= (uint64_t)(mask >> (32 - 8 * size)) << 8 * (position - expected->position);
    return 1;
}

/* Add one varint of the record at `start` to the template: all bits, or the continuation bits. */
KSTORE_ALWAYS_INLINE int template_add_varint(
    record_template *template, const uint8_t *start, const uint8_t **at, uint32_t mask,
    int32_t *number) {
    const uint8_t *from = *at;
    return plain_varint(at, number) && template_add(template, start, from, *at - from, mask);
}

/* Another process may change the bytes meanwhile, so check each position against `stop`. */
static inline int template_fill(
    record_template *template, const uint8_t *start, const uint8_t *stop) {
    const uint8_t *at = start;
    int32_t number, sizes;
    if (!template_add_varint(template, start, &at, TEMPLATE_ALL, &number))
        return 0;
    at++; /* attributes */
    template->timestamp_position = (int32_t)(at - start);
    if (!template_add_varint(template, start, &at, TEMPLATE_CONTINUATION, &number))
        return 0;
    template->timestamp_mask =
        TEMPLATE_NUMBER >> (32 - 8 * (at - start - template->timestamp_position));
    template->offset_position = (int32_t)(at - start);
    if (!template_add_varint(template, start, &at, TEMPLATE_CONTINUATION, &number))
        return 0;
    template->offset_mask = TEMPLATE_NUMBER >> (32 - 8 * (at - start - template->offset_position));
    if (!template_add_varint(template, start, &at, TEMPLATE_ALL, &template->key_size))
        return 0;
    at += template->key_size < 0 ? 0 : template->key_size;
    if (at > stop || !template_add_varint(template, start, &at, TEMPLATE_ALL, &number))
        return 0;
    at += number < 0 ? 0 : number;
    if (at > stop || !template_add_varint(template, start, &at, TEMPLATE_ALL, &sizes) ||
        sizes > TEMPLATE_WORDS * 8)
        return 0;
    for (sizes *= 2; sizes > 0; sizes--) {
        if (at > stop || !template_add_varint(template, start, &at, TEMPLATE_ALL, &number))
            return 0;
        at += number < 0 ? 0 : number;
    }
    return at == stop;
}

/* Build a template from the valid record from `at` to `stop`. A comparison reads eight bytes at
 * each position, so the last records before `end` give none. */
static __attribute__((noinline)) void template_build(
    record_template *template, const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    template->credit -= TEMPLATE_COST;
    template->word_count = 1; /* the first word is at the start of the record */
    template->words->position = 0;
    template->words->mask = 0;
    template->reach = INT64_MAX;
    if (end - stop < PLAIN_RECORD_ROOM)
        return;
    memcpy(&template->words->bytes, at, 8);
    if (!template_fill(template, at, stop))
        return;
    template->record_size = stop - at;
    template->reach = template->record_size + 8;
}

/* Call this for each record that had to be parsed. The third of one size in a row builds a
 * template: two are often a coincidence. */
KSTORE_ALWAYS_INLINE void template_observe(
    record_template *template, const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    template->alike = stop - at == template->last ? template->alike + 1 : 0;
    template->last = stop - at;
    if (KSTORE_RARE(template->alike >= 2) && template->credit >= TEMPLATE_COST)
        template_build(template, at, stop, end);
}

#endif
