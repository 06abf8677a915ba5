/* CRC by carry-less multiplication: 128-bit folding (PCLMULQDQ), for both polynomials.
 *
 * A 16-byte register represents a polynomial of degree 127; in reflected order its low half is
 * the high half of the polynomial. To fold it over D bits of message,
 *     low * x**(64 + D)  +  high * x**D        (modulo the polynomial)
 * is added to the 16 bytes at that distance. The product of two reflected words is one bit too
 * low, hence the "- 1" in fold_over_bits(). Folds are independent of each other, so several
 * registers hide the latency of the multiplication.
 */
#ifndef KSTORE_CRC_FOLD_H
#define KSTORE_CRC_FOLD_H

#include "crc_sse42.h"
#include "crc_table.h"

#ifdef KSTORE_X86

#include <immintrin.h>

typedef struct {
    uint64_t low;  /* multiplies the low word of a register  */
    uint64_t high; /* multiplies its high word */
} fold_pair;

typedef struct {
    crc_table table;
    /* over[n]: a fold over n * 16 bytes; the distances in use are 1..4, 8, 16 and 32 registers */
    fold_pair over[33];
    fold_pair lanes[4]; /* fold the four lanes of a 64-byte register into the last */
    uint64_t reduce96;  /* 128 to 96 bits */
    uint64_t reduce64;  /* 96 to 64 bits */
    uint64_t quotient;  /* Barrett: x**64 divided by the polynomial, 33 bits */
    uint64_t divisor;   /* Barrett: the polynomial, 33 bits */
} crc_folder;

static uint64_t fold_constant(unsigned power, uint32_t polynomial) {
    return (uint64_t)crc_power(power, polynomial) << 32;
}

static fold_pair fold_over_bits(unsigned bits, uint32_t polynomial) {
    fold_pair pair = {fold_constant(64 + bits - 1, polynomial),
                      fold_constant(bits - 1, polynomial)};
    return pair;
}

static void crc_folder_fill(crc_folder *folder, uint32_t polynomial) {
    crc_table_fill(&folder->table, polynomial);
    for (unsigned n = 1; n <= 32; n++)
        folder->over[n] = fold_over_bits(128 * n, polynomial);
    for (unsigned lane = 0; lane < 3; lane++)
        folder->lanes[lane] = folder->over[3 - lane];
    folder->lanes[3].low = folder->lanes[3].high = 0; /* not folded */
    folder->reduce96 = fold_constant(95, polynomial);
    folder->reduce64 = fold_constant(63, polynomial);
    folder->divisor = (uint64_t)polynomial << 1 | 1;
    /* Long division of x**64: bit i of the reflected quotient is the coefficient of x**(32-i). */
    uint64_t quotient = 1;
    uint32_t rest = polynomial; /* x**32 modulo the polynomial */
    for (int i = 1; i <= 32; i++) {
        quotient |= (uint64_t)(rest & 1) << i;
        rest = crc_times_x(rest, polynomial);
    }
    folder->quotient = quotient;
}

#define FOLD_TARGET __attribute__((target("sse4.2,pclmul")))
#define FOLD_INLINE FOLD_TARGET static inline __attribute__((always_inline))

FOLD_INLINE __m128i fold_load(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)at); }

FOLD_INLINE __m128i fold_factor(fold_pair pair) {
    return _mm_set_epi64x((int64_t)pair.high, (int64_t)pair.low);
}

/* Fold `from` over the distance of `factor` onto `onto`. */
FOLD_INLINE __m128i fold_onto(__m128i from, __m128i factor, __m128i onto) {
    __m128i low = _mm_clmulepi64_si128(from, factor, 0x00);
    __m128i high = _mm_clmulepi64_si128(from, factor, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/* The state after the last 16 bytes, given as a polynomial. */
FOLD_INLINE uint32_t fold_finish(const crc_folder *folder, int castagnoli, __m128i last) {
    if (castagnoli) { /* the crc32 instruction is exactly this reduction */
        uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(last));
        return (uint32_t)_mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(last, 1));
    }
    __m128i by96 = _mm_cvtsi64_si128((int64_t)folder->reduce96);
    __m128i by64 = _mm_cvtsi64_si128((int64_t)folder->reduce64);
    __m128i high = _mm_slli_si128(_mm_srli_si128(last, 8), 4); /* times x**32 */
    __m128i rest = _mm_xor_si128(_mm_clmulepi64_si128(last, by96, 0x00), high);
    __m128i folded = _mm_clmulepi64_si128(rest, by64, 0x00);
    __m128i word = _mm_srli_si128(_mm_xor_si128(folded, rest), 8);
    /* Barrett: quotient = high half * (x**64 / P); the rest is word - quotient * P. */
    const __m128i half = _mm_set_epi32(0, 0, 0, -1);
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(word, half),
                                     _mm_cvtsi64_si128((int64_t)folder->quotient), 0x00);
    __m128i back = _mm_clmulepi64_si128(_mm_and_si128(q, half),
                                        _mm_cvtsi64_si128((int64_t)folder->divisor), 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(word, back), 1);
}

/* 0..15 bytes: rotate-and-split. The register and the tail together are 16 + size bytes; their
 * last 16 stay, their first `size` are folded over 16. */
static const uint8_t fold_slide[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};

FOLD_INLINE __m128i fold_tail(const crc_folder *folder, __m128i last, const uint8_t *data,
                              size_t size) {
    if (size == 0)
        return last;
    /* data - 16 is in the message: at least one complete register precedes */
    __m128i ending = fold_load(data + size - 16);
    __m128i kept = _mm_shuffle_epi8(last, fold_load(fold_slide + 16 + size));
    __m128i moved = _mm_shuffle_epi8(last, fold_load(fold_slide + size));
    /* bytes of `ending` before the tail are already in `last`: zero them */
    __m128i mask = _mm_cmpgt_epi8(
        _mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        _mm_set1_epi8((char)(15 - (int)size)));
    ending = _mm_or_si128(_mm_and_si128(mask, ending), kept);
    return fold_onto(moved, fold_factor(folder->over[1]), ending);
}

/* Eight registers, then one. Needs at least 16 bytes. */
FOLD_INLINE uint32_t fold_run(const crc_folder *folder, int castagnoli, uint32_t state,
                              const uint8_t *data, size_t size) {
    const __m128i by1 = fold_factor(folder->over[1]);
    __m128i seed = _mm_cvtsi32_si128((int)state);
    __m128i last;
    if (size >= 128) {
        __m128i lane[8];
        for (int n = 0; n < 8; n++)
            lane[n] = fold_load(data + 16 * n);
        lane[0] = _mm_xor_si128(lane[0], seed);
        const __m128i by8 = fold_factor(folder->over[8]);
        for (data += 128, size -= 128; size >= 128; data += 128, size -= 128)
            for (int n = 0; n < 8; n++)
                lane[n] = fold_onto(lane[n], by8, fold_load(data + 16 * n));
        const __m128i by4 = fold_factor(folder->over[4]);
        for (int n = 0; n < 4; n++)
            lane[n] = fold_onto(lane[n], by4, lane[n + 4]);
        const __m128i by2 = fold_factor(folder->over[2]);
        for (int n = 0; n < 2; n++)
            lane[n] = fold_onto(lane[n], by2, lane[n + 2]);
        last = fold_onto(lane[0], by1, lane[1]);
    } else {
        last = _mm_xor_si128(fold_load(data), seed);
        data += 16;
        size -= 16;
    }
    for (; size >= 16; data += 16, size -= 16)
        last = fold_onto(last, by1, fold_load(data));
    return fold_finish(folder, castagnoli, fold_tail(folder, last, data, size));
}

FOLD_TARGET static uint32_t crc32c_pclmul_state(const crc_folder *folder, uint32_t state,
                                                const uint8_t *data, size_t size) {
    return size < 64 ? sse42_tail(state, data, size) : fold_run(folder, 1, state, data, size);
}

FOLD_TARGET static uint32_t crc32_pclmul_state(const crc_folder *folder, uint32_t state,
                                               const uint8_t *data, size_t size) {
    return size < 16 ? crc_table_state(&folder->table, state, data, size)
                     : fold_run(folder, 0, state, data, size);
}

#endif /* KSTORE_X86 */

#endif
