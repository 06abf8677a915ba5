/* Reserves address space; the kernel allocates each page at its first access.
 *
 * Random access to a large table spends most of its time on TLB misses, so the memory after the
 * first large page requests transparent huge pages.
 */
#ifndef KSTORE_RESERVE_H
#define KSTORE_RESERVE_H

#include <stddef.h>
#include <sys/mman.h>

#define RESERVE_LARGE ((size_t)2 << 20) /* a large page; smaller tables use small pages */

/* Returns zeroed memory, NULL on failure. Pass *start to release_memory. */
static inline void *reserve_memory(size_t size, void **start) {
    size_t reserved = size + RESERVE_LARGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    *start = memory;
    memory += -(size_t)memory & (RESERVE_LARGE - 1);
#ifdef MADV_HUGEPAGE
    if (size > RESERVE_LARGE) /* advice only: ignore a failure */
        (void)madvise(memory + RESERVE_LARGE, size - RESERVE_LARGE, MADV_HUGEPAGE);
#endif
    return memory;
}

static inline void release_memory(void *start, size_t size) {
    munmap(start, size + RESERVE_LARGE);
}

#endif
