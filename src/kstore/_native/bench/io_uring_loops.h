/* Writes through io_uring, without a library, with several blocks in flight. */
#ifndef KSTORE_LIMITS_RING_H
#define KSTORE_LIMITS_RING_H

#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "disk_loops.h"

#define LIMITS_DEPTH 64

typedef struct {
    int fd;
    uint8_t *rings, *entries;
    size_t rings_size, entries_size;
    uint32_t *sq_tail, *sq_array, *cq_head, *cq_tail;
    uint32_t sq_mask, cq_mask;
    struct io_uring_cqe *cqes;
    int fixed; /* the blocks are registered */
} limits_ring;

static void limits_ring_close(limits_ring *ring) {
    if (ring->rings)
        munmap(ring->rings, ring->rings_size);
    if (ring->entries)
        munmap(ring->entries, ring->entries_size);
    if (ring->fd >= 0)
        close(ring->fd);
}

static uint8_t *limits_ring_map(int fd, size_t size, off_t what) {
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    return found == MAP_FAILED ? NULL : found;
}

static int limits_ring_open(limits_ring *ring, int depth) {
    struct io_uring_params given;
    memset(&given, 0, sizeof given);
    memset(ring, 0, sizeof *ring);
    ring->fd = (int)syscall(__NR_io_uring_setup, depth, &given);
    if (ring->fd < 0)
        return errno;
    if (!(given.features & IORING_FEAT_SINGLE_MMAP))
        return ENOSYS; /* before Linux 5.4 */
    size_t sq = given.sq_off.array + given.sq_entries * sizeof(uint32_t);
    size_t cq = given.cq_off.cqes + given.cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_size = sq > cq ? sq : cq;
    ring->rings = limits_ring_map(ring->fd, ring->rings_size, IORING_OFF_SQ_RING);
    ring->entries_size = given.sq_entries * sizeof(struct io_uring_sqe);
    ring->entries = limits_ring_map(ring->fd, ring->entries_size, IORING_OFF_SQES);
    if (!ring->rings || !ring->entries)
        return ENOMEM;
    ring->sq_tail = (uint32_t *)(ring->rings + given.sq_off.tail);
    ring->sq_array = (uint32_t *)(ring->rings + given.sq_off.array);
    ring->sq_mask = given.sq_entries - 1;
    ring->cq_head = (uint32_t *)(ring->rings + given.cq_off.head);
    ring->cq_tail = (uint32_t *)(ring->rings + given.cq_off.tail);
    ring->cq_mask = given.cq_entries - 1;
    ring->cqes = (struct io_uring_cqe *)(ring->rings + given.cq_off.cqes);
    return 0;
}

static void limits_ring_put(limits_ring *ring, int fd, uint8_t *block, size_t size,
                            int64_t position, int slot) {
    uint32_t tail = *ring->sq_tail, at = tail & ring->sq_mask;
    struct io_uring_sqe *entry = (struct io_uring_sqe *)ring->entries + at;
    memset(entry, 0, sizeof *entry);
    entry->opcode = ring->fixed ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE;
    entry->fd = fd;
    memcpy(&entry->addr, &block, sizeof block); /* little-endian, for any pointer size */
    entry->len = (uint32_t)size;
    entry->off = (uint64_t)position;
    entry->user_data = (uint64_t)slot;
    entry->buf_index = (uint16_t)(ring->fixed ? slot : 0);
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* Collect completed writes and free their slots. `wrong` keeps the first error. */
static int limits_ring_take(limits_ring *ring, size_t size, int *free_slots, int freed,
                            int *wrong) {
    uint32_t head = *ring->cq_head;
    while (head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
        struct io_uring_cqe *entry = &ring->cqes[head & ring->cq_mask];
        if (entry->res != (int32_t)size && !*wrong)
            *wrong = entry->res < 0 ? -entry->res : ENOSPC;
        free_slots[freed++] = (int)entry->user_data;
        head++;
    }
    __atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
    return freed;
}

/* `blocks` has `depth` consecutive blocks. Returns 0 or an errno after all writes have ended.
 * `took` receives the nanoseconds from the first write to the end of the last, without setup and
 * close of the ring. */
static int limits_ring_write(int fd, uint8_t *blocks, size_t size, int depth,
                             const int64_t *positions, int64_t count, int64_t salt,
                             int64_t *took) {
    limits_ring ring;
    struct iovec registered[LIMITS_DEPTH];
    int free_slots[LIMITS_DEPTH], freed = 0;
    int wrong = limits_ring_open(&ring, depth);
    if (wrong) {
        limits_ring_close(&ring);
        return wrong;
    }
    for (int slot = 0; slot < depth; slot++) {
        registered[slot].iov_base = blocks + (size_t)slot * size;
        registered[slot].iov_len = size;
        free_slots[freed++] = slot;
    }
    /* fails if RLIMIT_MEMLOCK is too low: the kernel then pins pages for each write */
    ring.fixed = !syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, registered,
                          depth);
    int64_t began = limits_clock();
    unsigned unsent = 0;
    for (int64_t next = 0; freed < depth || (next < count && !wrong);) {
        while (freed && next < count && !wrong) {
            int slot = free_slots[--freed];
            int64_t stamp = positions[next] ^ salt;
            memcpy(registered[slot].iov_base, &stamp, 8);
            limits_ring_put(&ring, fd, registered[slot].iov_base, size, positions[next], slot);
            next++;
            unsent++;
        }
        long sent =
            syscall(__NR_io_uring_enter, ring.fd, unsent, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        if (sent >= 0) {
            unsent -= (unsigned)sent;
        } else if (errno != EINTR && errno != EAGAIN) {
            wrong = errno;
            limits_ring_close(&ring); /* the kernel cancels writes in flight */
            return wrong;
        }
        freed = limits_ring_take(&ring, size, free_slots, freed, &wrong);
    }
    *took = limits_clock() - began;
    limits_ring_close(&ring);
    return wrong;
}

#endif
