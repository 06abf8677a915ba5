/* Finds the positions of batches (frames), header by header, in several interleaved chains.
 *
 * The position of a frame depends on the size of its predecessor, so one walk is a chain of
 * dependent loads, limited by memory latency. Chains from several known frames overlap their
 * cache misses. A chain stops at an invalid frame; the caller determines the status.
 */
#ifndef KSTORE_FRAME_WALK_H
#define KSTORE_FRAME_WALK_H

#include <stdint.h>
#include <string.h>

enum {
    FRAME_CHAINS = 16,      /* interleaved; 8 and 16 reach memory bandwidth */
    FRAME_SMALLEST = 26,    /* bytes of a frame: a v0 message without key and value */
    FRAME_AHEAD = 1024      /* bytes to prefetch ahead of a chain */
};

typedef struct {
    int64_t position; /* of the next frame; at the end, where the chain stopped */
    int64_t limit;    /* frames from here on belong to the next chain */
    uint32_t *out;    /* room for (limit - position) / FRAME_SMALLEST + 1 */
    int64_t count;
} frame_chain;

/* Size of the frame at data[position]; 0 if it is invalid or extends beyond the end. */
static inline int64_t frame_size(const uint8_t *data, int64_t position, int64_t end) {
    static const uint8_t smallest[3] = {14, 22, 49}; /* value of the size field, by magic */
    int64_t left = end - position;
    uint32_t raw;
    if (left < FRAME_SMALLEST)
        return 0;
    memcpy(&raw, data + position + 8, 4);
    int64_t size = (int32_t)__builtin_bswap32(raw);
    uint8_t magic = data[position + 16];
    if (magic > 2 || size < smallest[magic] || size > INT32_MAX - 12 || size + 12 > left)
        return 0;
    return size + 12;
}

/* Run every chain to its limit, or to an invalid frame. Writes positions relative to base. Each
 * chain starts below its limit. */
static void frame_walk(const uint8_t *data, int64_t base, int64_t end, frame_chain *chains,
                       int count) {
    frame_chain *live[FRAME_CHAINS];
    for (int n = 0; n < count; n++)
        live[n] = &chains[n];
    while (count) {
        for (int n = 0; n < count; n++) {
            frame_chain *chain = live[n];
            int64_t position = chain->position;
            int64_t size = frame_size(data, position, end);
            int64_t ahead = position + FRAME_AHEAD;
            __builtin_prefetch(data + (ahead < end ? ahead : position));
            if (__builtin_expect(size == 0, 0)) {
                live[n--] = live[--count];
                continue;
            }
            chain->out[chain->count++] = (uint32_t)(position - base);
            position += size;
            chain->position = position;
            if (__builtin_expect(position >= chain->limit, 0))
                live[n--] = live[--count];
        }
    }
}

static void frame_positions_32(int32_t *out, const uint32_t *from, int64_t count, int64_t base) {
    for (int64_t n = 0; n < count; n++)
        out[n] = (int32_t)(from[n] + base);
}

static void frame_positions_64(int64_t *out, const uint32_t *from, int64_t count, int64_t base) {
    for (int64_t n = 0; n < count; n++)
        out[n] = from[n] + base;
}

#endif
