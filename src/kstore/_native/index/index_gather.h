/* 32 lookups in an offset index at once: 2 x 16 lanes of AVX-512 gathers, or 4 x 8 of AVX2. */

#ifndef KSTORE_INDEX_GATHER_H
#define KSTORE_INDEX_GATHER_H

#include <stddef.h>
#include <stdint.h>

enum { KSTORE_GATHER_LANES = 32 };

/*
 * Find the positions of KSTORE_GATHER_LANES offsets. sample[n] is the key of slot n * stride, for
 * every block that begins below count; 1 <= count < 2^31. Each lane's slot stays below count,
 * because low + size never exceeds the end of the searched range.
 */
typedef void (*kstore_gather)(
    const uint8_t *entries, ptrdiff_t count, const uint32_t *sample, ptrdiff_t stride,
    int64_t base_offset, const int64_t *offsets, int64_t *positions);

#if defined(__x86_64__)

#include <immintrin.h>

#define KSTORE_GATHER_TARGET __attribute__((target("avx512f,avx512bw")))
#define KSTORE_GATHER_AVX2 __attribute__((target("avx2")))

KSTORE_GATHER_TARGET
static inline __m512i kstore_gather_swapped(const uint8_t *entries, __m512i slots) {
    const __m512i order = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    return _mm512_shuffle_epi8(_mm512_i32gather_epi32(slots, entries, 8), order);
}

/* Relative offsets of 16 offsets, at most 2^31 - 1; ok is 0 in lanes below the base. */
KSTORE_GATHER_TARGET
static inline __m512i kstore_gather_wanted(const int64_t *offsets, int64_t base, __mmask16 *ok) {
    const __m512i start = _mm512_set1_epi64(base);
    const __m512i most = _mm512_set1_epi64(0x7fffffff);
    const __m512i first = _mm512_loadu_si512(offsets);
    const __m512i second = _mm512_loadu_si512(offsets + 8);
    __m256i low, high;
    *ok = (__mmask16)(_mm512_cmpge_epi64_mask(first, start)
                      | (unsigned)_mm512_cmpge_epi64_mask(second, start) << 8);
    low = _mm512_cvtepi64_epi32(_mm512_min_epu64(_mm512_sub_epi64(first, start), most));
    high = _mm512_cvtepi64_epi32(_mm512_min_epu64(_mm512_sub_epi64(second, start), most));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

KSTORE_GATHER_TARGET
static void kstore_gather_avx512(
    const uint8_t *entries, ptrdiff_t count, const uint32_t *sample, ptrdiff_t stride,
    int64_t base_offset, const int64_t *offsets, int64_t *positions)
{
    const ptrdiff_t blocks = (count + stride - 1) / stride;
    const ptrdiff_t width = count < stride ? count : stride;
    __m512i wanted[2], low[2];
    __mmask16 ok[2];
    ptrdiff_t size, half;
    int group;
    for (group = 0; group < 2; group++) {
        wanted[group] = kstore_gather_wanted(offsets + 16 * group, base_offset, &ok[group]);
        low[group] = _mm512_setzero_si512();
    }
    for (size = blocks; size > 1; size -= half) {
        half = size >> 1;
        for (group = 0; group < 2; group++) {
            const __m512i step = _mm512_set1_epi32((int)half);
            const __m512i middle = _mm512_add_epi32(low[group], step);
            const __m512i key = _mm512_i32gather_epi32(middle, sample, 4);
            const __mmask16 up = _mm512_cmple_epu32_mask(key, wanted[group]);
            low[group] = _mm512_mask_mov_epi32(low[group], up, middle);
        }
    }
    for (group = 0; group < 2; group++) {
        low[group] = _mm512_mullo_epi32(low[group], _mm512_set1_epi32((int)stride));
        low[group] = _mm512_min_epi32(low[group], _mm512_set1_epi32((int)(count - width)));
    }
    for (size = width; size > 1; size -= half) {
        half = size >> 1;
        for (group = 0; group < 2; group++) {
            const __m512i step = _mm512_set1_epi32((int)half);
            const __m512i middle = _mm512_add_epi32(low[group], step);
            const __m512i key = kstore_gather_swapped(entries, middle);
            const __mmask16 up = _mm512_cmple_epu32_mask(key, wanted[group]);
            low[group] = _mm512_mask_mov_epi32(low[group], up, middle);
        }
    }
    for (group = 0; group < 2; group++) {
        const __m512i key = kstore_gather_swapped(entries, low[group]);
        const __mmask16 exists = ok[group] & _mm512_cmple_epu32_mask(key, wanted[group]);
        __m512i found = kstore_gather_swapped(entries + 4, low[group]);
        found = _mm512_maskz_max_epi32(exists, found, _mm512_setzero_si512());
        _mm512_storeu_si512(
            positions + 16 * group, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(found)));
        _mm512_storeu_si512(
            positions + 16 * group + 8,
            _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(found, 1)));
    }
}

/* --- AVX2: only signed comparisons, and masks of entire lanes ------------------------------------ */

KSTORE_GATHER_AVX2
static inline __m256i kstore_gather8(const uint8_t *entries, __m256i slots) {
    const __m256i order = _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
                                           3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    return _mm256_shuffle_epi8(_mm256_i32gather_epi32((const int *)entries, slots, 8), order);
}

/* Unsigned key > wanted; wanted is below 2^31 and has its sign bit flipped. */
KSTORE_GATHER_AVX2
static inline __m256i kstore_above(__m256i key, __m256i wanted) {
    return _mm256_cmpgt_epi32(_mm256_xor_si256(key, _mm256_set1_epi32((int)0x80000000u)), wanted);
}

KSTORE_GATHER_AVX2
static void kstore_gather_avx2(
    const uint8_t *entries, ptrdiff_t count, const uint32_t *sample, ptrdiff_t stride,
    int64_t base_offset, const int64_t *offsets, int64_t *positions)
{
    enum { GROUPS = KSTORE_GATHER_LANES / 8 };
    const ptrdiff_t blocks = (count + stride - 1) / stride;
    const ptrdiff_t width = count < stride ? count : stride;
    const __m256i last = _mm256_set1_epi32((int)(count - width));
    uint32_t relative[KSTORE_GATHER_LANES], below[KSTORE_GATHER_LANES];
    __m256i wanted[GROUPS], low[GROUPS];
    ptrdiff_t size, half;
    int lane, group;
    for (lane = 0; lane < KSTORE_GATHER_LANES; lane++) {
        const uint64_t distance = (uint64_t)offsets[lane] - (uint64_t)base_offset;
        relative[lane] = (distance < 0x7fffffff ? (uint32_t)distance : 0x7fffffffu) ^ 0x80000000u;
        below[lane] = offsets[lane] < base_offset ? 0xffffffffu : 0;
    }
    for (group = 0; group < GROUPS; group++) {
        wanted[group] = _mm256_loadu_si256((const __m256i *)(relative + 8 * group));
        low[group] = _mm256_setzero_si256();
    }
    for (size = blocks; size > 1; size -= half) {
        half = size >> 1;
        for (group = 0; group < GROUPS; group++) {
            const __m256i step = _mm256_set1_epi32((int)half);
            const __m256i middle = _mm256_add_epi32(low[group], step);
            const __m256i key = _mm256_i32gather_epi32((const int *)sample, middle, 4);
            const __m256i above = kstore_above(key, wanted[group]);
            low[group] = _mm256_add_epi32(low[group], _mm256_andnot_si256(above, step));
        }
    }
    for (group = 0; group < GROUPS; group++) {
        low[group] = _mm256_mullo_epi32(low[group], _mm256_set1_epi32((int)stride));
        low[group] = _mm256_min_epi32(low[group], last);
    }
    for (size = width; size > 1; size -= half) {
        half = size >> 1;
        for (group = 0; group < GROUPS; group++) {
            const __m256i step = _mm256_set1_epi32((int)half);
            const __m256i key = kstore_gather8(entries, _mm256_add_epi32(low[group], step));
            const __m256i above = kstore_above(key, wanted[group]);
            low[group] = _mm256_add_epi32(low[group], _mm256_andnot_si256(above, step));
        }
    }
    for (group = 0; group < GROUPS; group++) {
        const __m256i above = kstore_above(kstore_gather8(entries, low[group]), wanted[group]);
        const __m256i under = _mm256_loadu_si256((const __m256i *)(below + 8 * group));
        __m256i found = kstore_gather8(entries + 4, low[group]);
        found = _mm256_max_epi32(found, _mm256_setzero_si256());
        found = _mm256_andnot_si256(_mm256_or_si256(above, under), found);
        _mm256_storeu_si256((__m256i *)(positions + 8 * group),
                            _mm256_cvtepi32_epi64(_mm256_castsi256_si128(found)));
        _mm256_storeu_si256((__m256i *)(positions + 8 * group + 4),
                            _mm256_cvtepi32_epi64(_mm256_extracti128_si256(found, 1)));
    }
}

/* The widest version that is allowed and that this CPU supports; NULL if none. */
static kstore_gather kstore_gather_of(int avx2, int avx512) {
    if (avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return kstore_gather_avx512;
    if ((avx2 || avx512) && __builtin_cpu_supports("avx2"))
        return kstore_gather_avx2;
    return NULL;
}

#else

static kstore_gather kstore_gather_of(int avx2, int avx512) {
    (void)avx2, (void)avx512;
    return NULL;
}

#endif

#endif
