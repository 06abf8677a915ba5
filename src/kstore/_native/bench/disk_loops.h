/* Minimal loops around system calls and memory: the ceilings of the benchmarks.
 *
 * Each returns 0 or an errno. The first eight bytes of a block are its position, XOR a salt: a
 * reader can verify that every block of this run was written. */
#ifndef KSTORE_LIMITS_DISK_H
#define KSTORE_LIMITS_DISK_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "read_loops.h"

#define LIMITS_IOVECS 64

static int64_t limits_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int limits_split(struct iovec *into, uint8_t *block, size_t size, int iovecs) {
    if (iovecs < 1 || iovecs > LIMITS_IOVECS || size % (size_t)iovecs)
        return EINVAL;
    for (int n = 0; n < iovecs; n++) {
        into[n].iov_base = block + (size_t)n * (size / (size_t)iovecs);
        into[n].iov_len = size / (size_t)iovecs;
    }
    return 0;
}

/* Write the block at each position; fdatasync after every `sync_every` writes (0: never). `each`,
 * if not NULL, receives the nanoseconds of every write, including its sync. */
static int limits_write(int fd, uint8_t *block, size_t size, int iovecs, const int64_t *positions,
                        int64_t count, int64_t sync_every, int flags, int64_t salt,
                        int64_t *each) {
    struct iovec parts[LIMITS_IOVECS];
    int wrong = limits_split(parts, block, size, iovecs);
    int64_t before = each ? limits_clock() : 0;
    for (int64_t n = 0; n < count && !wrong; n++) {
        int64_t stamp = positions[n] ^ salt;
        memcpy(block, &stamp, 8);
        ssize_t done = pwritev2(fd, parts, iovecs, positions[n], flags);
        if (done != (ssize_t)size)
            return done < 0 ? errno : ENOSPC;
        if (sync_every && (n + 1) % sync_every == 0 && fdatasync(fd))
            return errno;
        if (each) {
            int64_t now = limits_clock();
            each[n] = now - before;
            before = now;
        }
    }
    return wrong;
}

/* Read a block at each position; if `sum` is not NULL, XOR all its words into it. */
static int limits_pread(int fd, uint8_t *block, size_t size, int iovecs, const int64_t *positions,
                        int64_t count, uint64_t *sum) {
    struct iovec parts[LIMITS_IOVECS];
    int wrong = limits_split(parts, block, size, iovecs);
    for (int64_t n = 0; n < count && !wrong; n++) {
        ssize_t done = preadv(fd, parts, iovecs, positions[n]);
        if (done != (ssize_t)size)
            return done < 0 ? errno : ENODATA;
        if (sum)
            *sum ^= limits_read(block, size);
    }
    return wrong;
}

#define LIMITS_STORE(SIZE)                                                                         \
    case SIZE:                                                                                     \
        for (int64_t n = 0; n < count; n++)                                                        \
            memcpy(target + positions[n], block, SIZE);                                            \
        return

/* Copy the block to each position of memory; small sizes without a call to memcpy. */
static void limits_store(uint8_t *target, const uint8_t *block, size_t size,
                         const int64_t *positions, int64_t count) {
    switch (size) {
        LIMITS_STORE(4);
        LIMITS_STORE(8);
        LIMITS_STORE(16);
        LIMITS_STORE(32);
        LIMITS_STORE(64);
        LIMITS_STORE(128);
    }
    for (int64_t n = 0; n < count; n++)
        memcpy(target + positions[n], block, size);
}

#define LIMITS_STORE_ALL(SIZE)                                                                     \
    case SIZE:                                                                                     \
        for (; room >= SIZE; target += SIZE, room -= SIZE)                                         \
            memcpy(target, block, SIZE);                                                           \
        return

/* Fill the memory with copies of the block. */
static void limits_store_all(uint8_t *target, size_t room, const uint8_t *block, size_t size) {
    switch (size) {
        LIMITS_STORE_ALL(4);
        LIMITS_STORE_ALL(8);
        LIMITS_STORE_ALL(16);
        LIMITS_STORE_ALL(32);
        LIMITS_STORE_ALL(64);
        LIMITS_STORE_ALL(128);
    }
    for (; size && room >= size; target += size, room -= size)
        memcpy(target, block, size);
}

/* As limits_store, with each block's position in its first eight bytes. */
static void limits_store_stamped(uint8_t *target, uint8_t *block, size_t size,
                                 const int64_t *positions, int64_t count, int64_t salt) {
    for (int64_t n = 0; n < count; n++) {
        int64_t stamp = positions[n] ^ salt;
        memcpy(block, &stamp, 8);
        memcpy(target + positions[n], block, size);
    }
}

/* Read size bytes at each position of memory; returns the XOR of all words. */
static uint64_t limits_load(const uint8_t *source, size_t size, const int64_t *positions,
                            int64_t count) {
    uint64_t sum = 0;
    if (size == 4) {
        uint32_t word;
        for (int64_t n = 0; n < count; n++) {
            memcpy(&word, source + positions[n], 4);
            sum ^= word;
        }
    } else if (size == 8) {
        uint64_t word;
        for (int64_t n = 0; n < count; n++) {
            memcpy(&word, source + positions[n], 8);
            sum ^= word;
        }
    } else {
        for (int64_t n = 0; n < count; n++)
            sum ^= limits_read_plain(source + positions[n], size);
    }
    return sum;
}

/* Number of resident pages of a mapping; -1 if mincore fails. */
static int64_t limits_resident(uint8_t *address, size_t size, size_t page) {
    unsigned char seen[4096];
    int64_t found = 0;
    for (size_t start = 0; start < size; start += page * sizeof seen) {
        size_t part = size - start < page * sizeof seen ? size - start : page * sizeof seen;
        if (mincore(address + start, part, seen))
            return -1;
        for (size_t n = 0; n < (part + page - 1) / page; n++)
            found += seen[n] & 1;
    }
    return found;
}

#endif
