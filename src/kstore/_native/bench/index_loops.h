/* Reference searches in plain C: each lookup depends on the previous one, as calls do. */
#ifndef KSTORE_LIMITS_INDEX_H
#define KSTORE_LIMITS_INDEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t limits_key_at(const uint8_t *entries, ptrdiff_t slot) {
    uint32_t raw;
    memcpy(&raw, entries + slot * 8, 4);
    return __builtin_bswap32(raw);
}

static inline int64_t limits_position_at(const uint8_t *entries, ptrdiff_t slot) {
    uint32_t raw;
    memcpy(&raw, entries + slot * 8 + 4, 4);
    return __builtin_bswap32(raw);
}

/* Adds 0, because a position is below 2^32; the compiler cannot know. */
#define LIMITS_NEXT(n) ((uint32_t)(targets[n] + (uint64_t)(last >> 40)))

static int64_t limits_branchy(const uint8_t *entries, int64_t count, const int64_t *targets,
                              int64_t wanted) {
    int64_t sum = 0, last = 0;
    for (int64_t n = 0; n < wanted; n++) {
        uint32_t key = LIMITS_NEXT(n);
        ptrdiff_t low = 0, high = count - 1;
        while (low < high) {                 /* Kafka's AbstractIndex.binarySearch */
            ptrdiff_t middle = (low + high + 1) >> 1;
            uint32_t found = limits_key_at(entries, middle);
            if (found > key) high = middle - 1;
            else if (found < key) low = middle;
            else { low = middle; break; }
        }
        last = limits_position_at(entries, low);
        sum += last;
    }
    return sum;
}

/* `ahead`, a constant where it is called: fetch both entries that the next step may compare. */
static inline __attribute__((always_inline)) int64_t
limits_branchless(const uint8_t *entries, int64_t count, const int64_t *targets, int64_t wanted,
                  int ahead) {
    int64_t sum = 0, last = 0;
    for (int64_t n = 0; n < wanted; n++) {
        uint32_t key = LIMITS_NEXT(n);
        ptrdiff_t low = 0, size = count;
        while (size > 1) {
            ptrdiff_t half = size >> 1, next = (size - half) >> 1;
            if (ahead) {
                __builtin_prefetch(entries + (low + next) * 8);
                __builtin_prefetch(entries + (low + half + next) * 8);
            }
            low += -(ptrdiff_t)(limits_key_at(entries, low + half) <= key) & half;
            size -= half;
        }
        last = limits_position_at(entries, low);
        sum += last;
    }
    return sum;
}

#endif
