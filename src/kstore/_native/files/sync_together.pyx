"""fdatasync of many files at the same time, while other threads run Python."""

from libc.stdlib cimport calloc, free


cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <signal.h>
    #include <unistd.h>

    enum { SYNC_THREADS = 32, SYNC_STACK = 1 << 18 };

    typedef struct {
        const int *fds;
        int *errors;
        int count;
        int next;
    } sync_work;

    static void *sync_some(void *argument) {
        sync_work *work = (sync_work *)argument;
        int n;
        while ((n = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->count) {
            int failed;
            do
                failed = fdatasync(work->fds[n]) ? errno : 0;
            while (failed == EINTR);
            work->errors[n] = failed;
        }
        return NULL;
    }

    /* Where the system has no thread left, fewer threads sync more files each. */
    static void sync_together(const int *fds, int *errors, int count) {
        sync_work work = {fds, errors, count, 0};
        pthread_t threads[SYNC_THREADS];
        pthread_attr_t attributes;
        sigset_t all, before;
        int started = 0;
        if (count > 1 && pthread_attr_init(&attributes) == 0) {
            pthread_attr_setstacksize(&attributes, SYNC_STACK);
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
            while (started < SYNC_THREADS && started < count - 1) {
                if (pthread_create(&threads[started], &attributes, sync_some, &work) != 0)
                    break;
                started++;
            }
            pthread_sigmask(SIG_SETMASK, &before, NULL);
            pthread_attr_destroy(&attributes);
        }
        sync_some(&work);
        while (started > 0)
            pthread_join(threads[--started], NULL);
    }
    """
    void sync_together(const int* fds, int* errors, int count) nogil


def fdatasync_each(list descriptors):
    cdef int n, count = <int>len(descriptors)
    cdef int* fds
    if not count:
        return []
    fds = <int*>calloc(2 * count, sizeof(int))
    if fds == NULL:
        raise MemoryError()
    try:
        for n in range(count):
            fds[n] = descriptors[n]
        with nogil:
            sync_together(fds, fds + count, count)
        return [fds[count + n] for n in range(count)]
    finally:
        free(fds)
