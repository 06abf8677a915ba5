/* Memory that is reserved once and taken from the system page by page as it is touched.
 *
 * A table that is looked into at random spends most of its time on finding pages; beyond its
 * first bytes it asks for large ones, where the system has them.
 */
#ifndef KSTORE_RESERVE_H
#define KSTORE_RESERVE_H

#include <stddef.h>
#include <sys/mman.h>

#define RESERVE_LARGE ((size_t)2 << 20) /* a large page; below it a table has small ones */

/* All zeros; NULL if there is no room. start is what release_memory wants back. */
static inline void *reserve_memory(size_t size, void **start) {
    size_t whole = size + RESERVE_LARGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    *start = memory;
    memory += -(size_t)memory & (RESERVE_LARGE - 1);
#ifdef MADV_HUGEPAGE
    if (size > RESERVE_LARGE) /* only advice: where it is refused, small pages do */
        (void)madvise(memory + RESERVE_LARGE, size - RESERVE_LARGE, MADV_HUGEPAGE);
#endif
    return memory;
}

static inline void release_memory(void *start, size_t size) {
    munmap(start, size + RESERVE_LARGE);
}

#endif
