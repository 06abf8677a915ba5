/* CRC by carry-less multiplication of 64-byte registers (AVX-512 VPCLMULQDQ).
 *
 * The folding of crc_fold.h in four lanes: 64 bytes cost two multiplications, so the limit is 32
 * bytes a cycle. Eight registers hide the latency; the rest uses four, then one. A tail of 1..63
 * bytes costs one byte rotation (VBMI) and one more fold.
 */
#ifndef KSTORE_CRC_AVX512_H
#define KSTORE_CRC_AVX512_H

#include "crc_fold.h"

#ifdef KSTORE_X86

#define WIDE_ALIGN_FROM 4096

#define WIDE_TARGET                                                                              \
    __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,bmi2")))
#define WIDE_INLINE WIDE_TARGET static inline __attribute__((always_inline))

WIDE_INLINE __m512i wide_load(const uint8_t *at) { return _mm512_loadu_si512(at); }

WIDE_INLINE __m512i wide_factor(fold_pair pair) {
    return _mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)pair.high, (int64_t)pair.low));
}

WIDE_INLINE __m512i wide_onto(__m512i from, __m512i factor, __m512i onto) {
    __m512i low = _mm512_clmulepi64_epi128(from, factor, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(from, factor, 0x11);
    return _mm512_ternarylogic_epi64(low, high, onto, 0x96); /* exclusive or of three */
}

/* Fold the four lanes into the last one. */
WIDE_INLINE __m128i wide_narrow(const crc_folder *folder, __m512i last) {
    __m512i factor = _mm512_loadu_si512(folder->lanes);
    __m512i low = _mm512_clmulepi64_epi128(last, factor, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(last, factor, 0x11);
    __m512i own = _mm512_maskz_mov_epi64(0xC0, last);
    __m512i sum = _mm512_ternarylogic_epi64(low, high, own, 0x96);
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum),
                                    _mm512_extracti64x4_epi64(sum, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Index vector of a rotation to the left by `size` bytes. */
WIDE_INLINE __m512i wide_rotation(size_t size) {
    static const uint8_t counting[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    return _mm512_add_epi8(_mm512_loadu_si512(counting), _mm512_set1_epi8((char)size));
}

/* The last `size` (1..63) bytes of a message whose bytes so far are in `last`: rotated by
 * `size`, its high bytes are the ones to fold over 64 and its low ones stay before the tail.
 * Lanes that are masked off are not read, so nothing before the message is touched. */
WIDE_INLINE __m512i wide_tail(const crc_folder *folder, __m512i last, const uint8_t *data,
                              size_t size) {
    __mmask64 ending = ~(__mmask64)0 << (64 - size);
    __m512i turned = _mm512_permutexvar_epi8(wide_rotation(size), last);
    __m512i moved = _mm512_maskz_mov_epi8(ending, turned);
    __m512i onto = _mm512_mask_loadu_epi8(turned, ending, data + size - 64);
    return wide_onto(moved, wide_factor(folder->over[4]), onto);
}

/* 4..63 bytes: leading zeros do not change a CRC, so load the message at the register's end. */
WIDE_INLINE __m512i wide_short(uint32_t state, const uint8_t *data, size_t size) {
    __mmask64 ending = ~(__mmask64)0 << (64 - size);
    __m512i seed = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
    seed = _mm512_permutexvar_epi8(wide_rotation(size), seed);
    return _mm512_xor_si512(seed, _mm512_maskz_loadu_epi8(ending, data + size - 64));
}

/* Needs at least 64 bytes. */
WIDE_INLINE uint32_t wide_run(const crc_folder *folder, int castagnoli, uint32_t state,
                              const uint8_t *data, size_t size) {
    const __m512i by1 = wide_factor(folder->over[4]);
    __m512i seed = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
    __m512i last;
    if (size >= 256) {
        const __m512i by4 = wide_factor(folder->over[16]);
        __m512i a = _mm512_xor_si512(wide_load(data), seed), b = wide_load(data + 64);
        __m512i c = wide_load(data + 128), d = wide_load(data + 192);
        size_t head = -(uintptr_t)data & 63;
        if (head && size >= WIDE_ALIGN_FROM) {
            /* Loads that cross a cache line halve the speed beyond L1. So the first register
             * has only the `head` bytes before a boundary, after zeros; the seed belongs
             * to the first four bytes of the message, which may end in the second register. */
            __mmask64 ending = ~(__mmask64)0 << (64 - head);
            __m512i turned = _mm512_permutexvar_epi8(wide_rotation(head), seed);
            data += (ptrdiff_t)head - 64;
            size += 64 - head;
            a = _mm512_xor_si512(_mm512_maskz_mov_epi8(ending, turned),
                                 _mm512_maskz_loadu_epi8(ending, data));
            b = _mm512_xor_si512(_mm512_maskz_mov_epi8(~ending, turned), wide_load(data + 64));
            c = wide_load(data + 128);
            d = wide_load(data + 192);
        }
        if (size >= 512) {
            const __m512i by8 = wide_factor(folder->over[32]);
            __m512i e = wide_load(data + 256), f = wide_load(data + 320);
            __m512i g = wide_load(data + 384), h = wide_load(data + 448);
            for (data += 512, size -= 512; size >= 512; data += 512, size -= 512) {
                a = wide_onto(a, by8, wide_load(data));
                b = wide_onto(b, by8, wide_load(data + 64));
                c = wide_onto(c, by8, wide_load(data + 128));
                d = wide_onto(d, by8, wide_load(data + 192));
                e = wide_onto(e, by8, wide_load(data + 256));
                f = wide_onto(f, by8, wide_load(data + 320));
                g = wide_onto(g, by8, wide_load(data + 384));
                h = wide_onto(h, by8, wide_load(data + 448));
            }
            a = wide_onto(a, by4, e);
            b = wide_onto(b, by4, f);
            c = wide_onto(c, by4, g);
            d = wide_onto(d, by4, h);
        } else {
            data += 256;
            size -= 256;
        }
        if (size >= 256) {
            a = wide_onto(a, by4, wide_load(data));
            b = wide_onto(b, by4, wide_load(data + 64));
            c = wide_onto(c, by4, wide_load(data + 128));
            d = wide_onto(d, by4, wide_load(data + 192));
            data += 256;
            size -= 256;
        }
        const __m512i by2 = wide_factor(folder->over[8]);
        last = wide_onto(wide_onto(a, by2, c), by1, wide_onto(b, by2, d));
    } else {
        last = _mm512_xor_si512(wide_load(data), seed);
        data += 64;
        size -= 64;
    }
    for (; size >= 64; data += 64, size -= 64)
        last = wide_onto(last, by1, wide_load(data));
    if (size)
        last = wide_tail(folder, last, data, size);
    return fold_finish(folder, castagnoli, wide_narrow(folder, last));
}

WIDE_TARGET static uint32_t crc32c_avx512_state(const crc_folder *folder, uint32_t state,
                                                const uint8_t *data, size_t size) {
    return size < 64 ? sse42_tail(state, data, size) : wide_run(folder, 1, state, data, size);
}

WIDE_TARGET static uint32_t crc32_avx512_state(const crc_folder *folder, uint32_t state,
                                               const uint8_t *data, size_t size) {
    if (size >= 64)
        return wide_run(folder, 0, state, data, size);
    if (size < 4)
        return crc_table_bytes(&folder->table, state, data, size);
    return fold_finish(folder, 0, wide_narrow(folder, wide_short(state, data, size)));
}

#endif /* KSTORE_X86 */

#endif
