/* Which pages of a process are in memory, and a clock to remember it by. */
#ifndef KSTORE_RESIDENT_PAGES_H
#define KSTORE_RESIDENT_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGES_OF_A_CALL = 264 };  /* a read of 1 MiB, and a walk to it, in one call */

/* Whether all pages of these bytes are in memory; true where the system cannot say. */
static inline int pages_are_resident(const uint8_t *first, int64_t size) {
    static size_t page;
    unsigned char found[PAGES_OF_A_CALL];
    const size_t end = (size_t)first + (size > 0 ? (size_t)size : 0);
    size_t at = (size_t)first;
    if (!page) page = (size_t)sysconf(_SC_PAGESIZE);
    for (at -= at % page; at < end; at += PAGES_OF_A_CALL * page) {
        size_t left = end - at;
        if (left > PAGES_OF_A_CALL * page) left = PAGES_OF_A_CALL * page;
        if (mincore((void *)at, left, found)) return 1;
        for (size_t n = 0; n * page < left; n++)
            if (!(found[n] & 1)) return 0;
    }
    return 1;
}

/* Seconds, never below 2: an unset 0 is long ago. Begins again after 34 years. Without a system
 * call, and cheaper than clock_gettime. */
static inline int32_t coarse_seconds(void) { return (int32_t)(time(NULL) & 0x3fffffff) + 2; }

#endif
