/* CRC-32C by the crc32 instruction of SSE4.2, three independent streams at a time.
 *
 * The instruction has a latency of 3 cycles and a throughput of one per cycle, so three streams
 * triple the speed. To combine their states, the earlier ones are shifted over the later one's
 * bytes: a multiplication by a fixed power of x, four table lookups.
 */
#ifndef KSTORE_CRC_SSE42_H
#define KSTORE_CRC_SSE42_H

#include "crc_table.h"

#ifdef KSTORE_X86

#include <nmmintrin.h>

#define SSE42_LONG 4096 /* bytes of one stream per round, for long input */
#define SSE42_SHORT 256 /* the same for short input */

static uint32_t sse42_shift_long[4][256];
static uint32_t sse42_shift_short[4][256];

static void sse42_fill_shift(uint32_t table[4][256], unsigned bytes) {
    uint32_t factor = crc_power(8 * bytes, CRC_CASTAGNOLI);
    for (int k = 0; k < 4; k++)
        for (uint32_t n = 0; n < 256; n++)
            table[k][n] = crc_multiply(factor, n << (8 * k), CRC_CASTAGNOLI);
}

static void crc_sse42_fill(void) {
    sse42_fill_shift(sse42_shift_long, SSE42_LONG);
    sse42_fill_shift(sse42_shift_short, SSE42_SHORT);
}

static inline uint32_t sse42_shift(uint32_t table[4][256], uint32_t state) {
    return table[0][state & 0xFF] ^ table[1][(state >> 8) & 0xFF] ^
           table[2][(state >> 16) & 0xFF] ^ table[3][state >> 24];
}

__attribute__((target("sse4.2"))) static inline uint64_t sse42_word(uint64_t state,
                                                                   const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return _mm_crc32_u64(state, word);
}

/* One stream, for input that is too short to split. */
__attribute__((target("sse4.2"))) static inline uint32_t sse42_tail(uint32_t state,
                                                                    const uint8_t *data,
                                                                    size_t size) {
    uint64_t wide = state;
    for (; size >= 8; data += 8, size -= 8)
        wide = sse42_word(wide, data);
    state = (uint32_t)wide;
    if (size & 4) {
        uint32_t word;
        memcpy(&word, data, 4);
        state = _mm_crc32_u32(state, word);
        data += 4;
    }
    if (size & 2) {
        uint16_t word;
        memcpy(&word, data, 2);
        state = _mm_crc32_u16(state, word);
        data += 2;
    }
    return size & 1 ? _mm_crc32_u8(state, *data) : state;
}

/* One round: three streams of `stride` bytes each, combined. */
__attribute__((target("sse4.2"))) static inline uint32_t
sse42_round(uint32_t state, const uint8_t *data, size_t stride, uint32_t shift[4][256]) {
    uint64_t first = state, second = 0, third = 0;
    for (size_t n = 0; n < stride; n += 8) {
        first = sse42_word(first, data + n);
        second = sse42_word(second, data + stride + n);
        third = sse42_word(third, data + 2 * stride + n);
    }
    second ^= sse42_shift(shift, (uint32_t)first);
    return (uint32_t)third ^ sse42_shift(shift, (uint32_t)second);
}

__attribute__((target("sse4.2"))) static uint32_t
crc32c_sse42_state(uint32_t state, const uint8_t *data, size_t size) {
    for (; size >= 3 * SSE42_LONG; data += 3 * SSE42_LONG, size -= 3 * SSE42_LONG)
        state = sse42_round(state, data, SSE42_LONG, sse42_shift_long);
    for (; size >= 3 * SSE42_SHORT; data += 3 * SSE42_SHORT, size -= 3 * SSE42_SHORT)
        state = sse42_round(state, data, SSE42_SHORT, sse42_shift_short);
    return sse42_tail(state, data, size);
}

#endif /* KSTORE_X86 */

#endif
