/* For LD_PRELOAD: fsync(2) and fdatasync(2) of a process take at least SLOW_SYNC_US microseconds.
 *
 * A stand-in for disks whose cache survives no power failure, whose syncs take 1 to 5 ms. Syncs of
 * several threads overlap, as those of a file system do that share a commit of its journal. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static int sync_slowly(const char *name, int fd)
{
    const char *microseconds = getenv("SLOW_SYNC_US");
    int (*sync_file)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec until;
    int result, error;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += microseconds ? atol(microseconds) * 1000 : 0;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    result = sync_file(fd);
    error = errno;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    errno = error;
    return result;
}

int fsync(int fd)
{
    return sync_slowly("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_slowly("fdatasync", fd);
}
