/* Stands in front of libc and counts allocations and copied bytes between start and stop.
 *
 * A copy counts from LEAST bytes on: below that an interpreter's own small moves would drown what
 * is done with records, and compilers make some of them without a call. */

#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

enum { LEAST = 64 };
enum { ALLOCATIONS, ALLOCATED, COPIES, COPIED, KINDS };

static volatile int counting;
static int64_t counts[KINDS];

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void counters_start(void) {
    for (int kind = 0; kind < KINDS; kind++)
        counts[kind] = 0;
    counting = 1;
}

void counters_stop(int64_t *into) {
    counting = 0;
    for (int kind = 0; kind < KINDS; kind++)
        into[kind] = counts[kind];
}

static void allocated(size_t size) {
    if (counting) {
        __atomic_fetch_add(&counts[ALLOCATIONS], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts[ALLOCATED], (int64_t)size, __ATOMIC_RELAXED);
    }
}

void *malloc(size_t size) {
    allocated(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocated(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocated(size);
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    allocated(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **to, size_t alignment, size_t size) {
    void *made = memalign(alignment, size);
    if (made == NULL)
        return ENOMEM;
    *to = made;
    return 0;
}

static void copied(size_t size) {
    if (counting && size >= LEAST) {
        __atomic_fetch_add(&counts[COPIES], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts[COPIED], (int64_t)size, __ATOMIC_RELAXED);
    }
}

/* The copies themselves: never by a loop that the compiler would make a call of memcpy. */
static void forward(void *to, const void *from, size_t size) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

static void backward(void *to, const void *from, size_t size) {
    to = (char *)to + size - 1;
    from = (const char *)from + size - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

void *memcpy(void *to, const void *from, size_t size) {
    copied(size);
    forward(to, from, size);
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    copied(size);
    if ((uintptr_t)to - (uintptr_t)from >= size)
        forward(to, from, size);
    else
        backward(to, from, size);
    return to;
}

void *mempcpy(void *to, const void *from, size_t size) { return (char *)memcpy(to, from, size) + size; }
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room) {
    (void)room;
    return memcpy(to, from, size);
}
void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
    (void)room;
    return memmove(to, from, size);
}
void *__mempcpy_chk(void *to, const void *from, size_t size, size_t room) {
    (void)room;
    return mempcpy(to, from, size);
}
