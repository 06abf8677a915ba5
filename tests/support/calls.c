/* A preloaded library that prints calls that change files, in strace's format: see syscalls.py.
   It writes to the descriptor in KSTORE_CALLS_FD. It identifies a file by the path of its
   descriptor before the call. It does not see system calls that bypass libc. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void say(const char *format, ...) {
    static int fd = -2;
    int error = errno;
    if (fd == -2) {
        const char *told = getenv("KSTORE_CALLS_FD");
        fd = told == NULL ? -1 : (int)strtol(told, NULL, 10);
    }
    if (fd >= 0) {
        va_list arguments;
        va_start(arguments, format);
        vdprintf(fd, format, arguments);
        va_end(arguments);
    }
    errno = error;
}

/* Writes the path of a descriptor to a buffer of PATH_MAX bytes; empty if it has none. */
static const char *path_of(int fd, char *buffer) {
    char link[64];
    int error = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, buffer, PATH_MAX - 1);
    buffer[size < 0 ? 0 : size] = 0;
    errno = error;
    return buffer;
}

/* --- opening ------------------------------------------------------------------------------- */

#define OPENING(name)                                                                            \
    int name(const char *path, int flags, ...) {                                                 \
        mode_t mode = 0;                                                                         \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                   \
            va_list arguments;                                                                   \
            va_start(arguments, flags);                                                          \
            mode = va_arg(arguments, mode_t);                                                    \
            va_end(arguments);                                                                   \
        }                                                                                        \
        int result = REAL(name)(path, flags, mode);                                              \
        if (flags & (O_CREAT | O_TRUNC))                                                         \
            say("open(\"%s\", %s%s) = %d\n", path, flags & O_CREAT ? "O_CREAT" : "",        \
                flags & O_TRUNC ? "|O_TRUNC" : "", result);                                      \
        return result;                                                                           \
    }

/* --- calls on descriptors ------------------------------------------------------------------- */

#define OF_FILE(type, name, said, parameters, arguments)                                         \
    type name parameters {                                                                       \
        char path[PATH_MAX];                                                                     \
        path_of(fd, path);                                                                       \
        type result = REAL(name) arguments;                                                      \
        say("%s(%d<%s>) = %ld\n", said, fd, path, (long)result);                                 \
        return result;                                                                           \
    }

/* These return an error number instead of setting errno. */
#define RESERVING(name, offset_type)                                                             \
    int name(int fd, offset_type offset, offset_type size) {                                     \
        char path[PATH_MAX];                                                                     \
        path_of(fd, path);                                                                       \
        int result = REAL(name)(fd, offset, size);                                               \
        say("%s(%d<%s>) = %d\n", #name, fd, path, result == 0 ? 0 : -1);                         \
        return result;                                                                           \
    }

#define MAPPING(name, offset_type)                                                               \
    void *name(void *at, size_t size, int protection, int flags, int fd, offset_type offset) {   \
        void *result = REAL(name)(at, size, protection, flags, fd, offset);                      \
        if (fd >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED)) {                      \
            char path[PATH_MAX];                                                                 \
            say("mmap(%d<%s>, PROT_WRITE, MAP_SHARED) = %d\n", fd, path_of(fd, path),            \
                result == MAP_FAILED ? -1 : 0);                                                  \
        }                                                                                        \
        return result;                                                                           \
    }

/* --- names --------------------------------------------------------------------------------- */

#define OF_NAME(name, parameters, arguments)                                                     \
    int name parameters {                                                                        \
        int result = REAL(name) arguments;                                                       \
        say("%s(\"%s\") = %d\n", #name, path, result);                                           \
        return result;                                                                           \
    }

#define OF_TWO_NAMES(name)                                                                       \
    int name(const char *path, const char *other) {                                              \
        int result = REAL(name)(path, other);                                                    \
        say("%s(\"%s\", \"%s\") = %d\n", #name, path, other, result);                            \
        return result;                                                                           \
    }

OPENING(open)
OPENING(open64)
OF_FILE(ssize_t, write, "write", (int fd, const void *data, size_t size), (fd, data, size))
OF_FILE(ssize_t, writev, "writev", (int fd, const struct iovec *parts, int count),
        (fd, parts, count))
OF_FILE(ssize_t, pwrite, "pwrite", (int fd, const void *data, size_t size, off_t at),
        (fd, data, size, at))
OF_FILE(ssize_t, pwrite64, "pwrite64", (int fd, const void *data, size_t size, off64_t at),
        (fd, data, size, at))
OF_FILE(ssize_t, pwritev, "pwritev", (int fd, const struct iovec *parts, int count, off_t at),
        (fd, parts, count, at))
OF_FILE(ssize_t, pwritev64, "pwritev",
        (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
OF_FILE(int, ftruncate, "ftruncate", (int fd, off_t size), (fd, size))
OF_FILE(int, ftruncate64, "ftruncate64", (int fd, off64_t size), (fd, size))
OF_FILE(int, fsync, "fsync", (int fd), (fd))
OF_FILE(int, fdatasync, "fdatasync", (int fd), (fd))
RESERVING(posix_fallocate, off_t)
RESERVING(posix_fallocate64, off64_t)
MAPPING(mmap, off_t)
MAPPING(mmap64, off64_t)
OF_NAME(truncate, (const char *path, off_t size), (path, size))
OF_NAME(unlink, (const char *path), (path))
OF_NAME(rmdir, (const char *path), (path))
OF_NAME(mkdir, (const char *path, mode_t mode), (path, mode))
OF_TWO_NAMES(rename)
OF_TWO_NAMES(link)
OF_TWO_NAMES(symlink)

/* os.link of Python 3.14 calls this instead of link. */
int linkat(int at, const char *path, int other_at, const char *other, int flags) {
    int result = REAL(linkat)(at, path, other_at, other, flags);
    say("linkat(%d, \"%s\", %d, \"%s\", %d) = %d\n", at, path, other_at, other, flags, result);
    return result;
}

ssize_t copy_file_range(int from, off64_t *from_at, int fd, off64_t *at, size_t size,
                        unsigned int flags) {
    char path[PATH_MAX];
    path_of(fd, path);
    ssize_t result = REAL(copy_file_range)(from, from_at, fd, at, size, flags);
    say("copy_file_range(%d<%s>) = %ld\n", fd, path, (long)result);
    return result;
}
