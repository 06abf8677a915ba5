/* Reads memory at full width: the ceiling of a checksum or a walk. */
#ifndef KSTORE_LIMITS_READ_H
#define KSTORE_LIMITS_READ_H

#include "../format/crc_table.h"

#ifdef KSTORE_X86
#include <immintrin.h>

__attribute__((target("avx512f"))) static uint64_t limits_read_512(const uint8_t *data,
                                                                  size_t size) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (; size >= 256; data += 256, size -= 256) {
        a = _mm512_xor_si512(a, _mm512_loadu_si512(data));
        b = _mm512_xor_si512(b, _mm512_loadu_si512(data + 64));
        c = _mm512_xor_si512(c, _mm512_loadu_si512(data + 128));
        d = _mm512_xor_si512(d, _mm512_loadu_si512(data + 192));
    }
    uint64_t words[8], sum = 0;
    _mm512_storeu_si512(words, _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
    for (int n = 0; n < 8; n++)
        sum ^= words[n];
    for (size_t n = 0; n < size; n++)
        sum ^= (uint64_t)data[n] << (8 * (n & 7));
    return sum;
}

__attribute__((target("avx2"))) static uint64_t limits_read_256(const uint8_t *data, size_t size) {
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (; size >= 128; data += 128, size -= 128) {
        a = _mm256_xor_si256(a, _mm256_loadu_si256((const __m256i *)data));
        b = _mm256_xor_si256(b, _mm256_loadu_si256((const __m256i *)(data + 32)));
        c = _mm256_xor_si256(c, _mm256_loadu_si256((const __m256i *)(data + 64)));
        d = _mm256_xor_si256(d, _mm256_loadu_si256((const __m256i *)(data + 96)));
    }
    uint64_t words[4], sum = 0;
    _mm256_storeu_si256((__m256i *)words,
                        _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)));
    for (int n = 0; n < 4; n++)
        sum ^= words[n];
    for (size_t n = 0; n < size; n++)
        sum ^= (uint64_t)data[n] << (8 * (n & 7));
    return sum;
}
#endif

static uint64_t limits_read_plain(const uint8_t *data, size_t size) {
    uint64_t sum = 0;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        sum ^= word;
    }
    for (size_t n = 0; n < size; n++)
        sum ^= (uint64_t)data[n] << (8 * n);
    return sum;
}

static uint64_t limits_read(const uint8_t *data, size_t size) {
#ifdef KSTORE_X86
    if (__builtin_cpu_supports("avx512f"))
        return limits_read_512(data, size);
    if (__builtin_cpu_supports("avx2"))
        return limits_read_256(data, size);
#endif
    return limits_read_plain(data, size);
}

#endif
