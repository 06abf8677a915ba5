/* SipHash-2-4 with 128 bits of output (Aumasson and Bernstein).
 *
 * A keyed hash: without the key, an attacker cannot choose inputs that collide.
 */
#ifndef KSTORE_SIPHASH_H
#define KSTORE_SIPHASH_H

#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t low;
    uint64_t high;
} sip_hash;

typedef struct {
    uint64_t k0;
    uint64_t k1;
} sip_key;

#define SIP_ROTATE(x, by) (((x) << (by)) | ((x) >> (64 - (by))))
#define SIP_ROUND                                                                                  \
    do {                                                                                           \
        v0 += v1, v2 += v3;                                                                        \
        v1 = SIP_ROTATE(v1, 13) ^ v0, v3 = SIP_ROTATE(v3, 16) ^ v2;                                \
        v0 = SIP_ROTATE(v0, 32);                                                                   \
        v2 += v1, v0 += v3;                                                                        \
        v1 = SIP_ROTATE(v1, 17) ^ v2, v3 = SIP_ROTATE(v3, 21) ^ v0;                                \
        v2 = SIP_ROTATE(v2, 32);                                                                   \
    } while (0)

static inline sip_hash sip_hash_of(const sip_key *key, const uint8_t *data, int64_t size) {
    uint64_t v0 = 0x736f6d6570736575ULL ^ key->k0;
    uint64_t v1 = 0x646f72616e646f6dULL ^ key->k1 ^ 0xee; /* 0xee: 128-bit output */
    uint64_t v2 = 0x6c7967656e657261ULL ^ key->k0;
    uint64_t v3 = 0x7465646279746573ULL ^ key->k1;
    uint64_t word, last = (uint64_t)size << 56;
    const uint8_t *end = data + (size & ~(int64_t)7);
    int64_t left = size & 7;
    sip_hash out;
    while (data < end) {
        memcpy(&word, data, 8);
        v3 ^= word;
        SIP_ROUND;
        SIP_ROUND;
        v0 ^= word;
        data += 8;
    }
    if (left & 4) {
        uint32_t four;
        memcpy(&four, data, 4);
        last |= four;
        data += 4;
    }
    for (int64_t n = left & 4; n < left; n++)
        last |= (uint64_t)*data++ << (8 * n);
    v3 ^= last;
    SIP_ROUND;
    SIP_ROUND;
    v0 ^= last;
    v2 ^= 0xee;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    out.low = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= 0xdd;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    out.high = v0 ^ v1 ^ v2 ^ v3;
    return out;
}

/* Home slot of a hash among count slots, by its upper bits. */
static inline int64_t sip_home(uint64_t low, int64_t count) {
    return (int64_t)(((unsigned __int128)low * (uint64_t)count) >> 64);
}

#endif
