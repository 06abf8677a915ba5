/* A fast keyed hash of byte strings for tables in memory: multiply and fold, 16 bytes a step.
 *
 * Every table has random secrets, so that no client can construct keys that collide. After equal
 * hashes, the tables compare the bytes.
 */
#ifndef KSTORE_MIX_HASH_H
#define KSTORE_MIX_HASH_H

#include <stdint.h>
#include <string.h>

static inline uint64_t mix_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t mix_word(const uint8_t *data, int size) {
    uint64_t eight;
    uint32_t four;
    if (size == 8) {
        memcpy(&eight, data, 8);
        return eight;
    }
    memcpy(&four, data, 4);
    return four;
}

static inline uint64_t mix_hash(
    const uint8_t *data, int64_t size, uint64_t seed, const uint64_t secret[2]
) {
    uint64_t low, high, value = seed ^ secret[0];
    int64_t left = size;
    for (; left > 16; left -= 16, data += 16)
        value = mix_fold(mix_word(data, 8) ^ secret[1], mix_word(data + 8, 8) ^ value);
    if (left >= 8) {
        low = mix_word(data, 8);
        high = mix_word(data + left - 8, 8);
    } else if (left >= 4) {
        low = mix_word(data, 4);
        high = mix_word(data + left - 4, 4);
    } else if (left > 0) {
        low = ((uint64_t)data[0] << 16) | ((uint64_t)data[left >> 1] << 8) | data[left - 1];
        high = 0;
    } else {
        low = high = 0;
    }
    value = mix_fold(low ^ secret[1], high ^ value);
    return mix_fold(value ^ secret[0] ^ (uint64_t)size, secret[1]);
}

#endif
