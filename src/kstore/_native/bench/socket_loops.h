/* Minimal loops that send a file to a socket, and receive it; each returns 0 or an errno. */
#ifndef KSTORE_LIMITS_SOCKETS_H
#define KSTORE_LIMITS_SOCKETS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

static int limits_send_all(int out, const uint8_t *data, size_t size, int flags) {
    while (size) {
        ssize_t done = send(out, data, size, flags | MSG_NOSIGNAL);
        if (done < 0) {
            if (errno == EINTR)
                continue;
            return errno;
        }
        data += done;
        size -= (size_t)done;
    }
    return 0;
}

static int limits_sendfile(int out, int in, int64_t size, int64_t chunk) {
    off_t at = 0;
    while (at < size) {
        int64_t left = chunk < size - at ? chunk : size - at;
        while (left) {
            ssize_t done = sendfile(out, in, &at, (size_t)left);
            if (done <= 0) {
                if (done < 0 && errno == EINTR)
                    continue;
                return done < 0 ? errno : ENODATA;
            }
            left -= done;
        }
    }
    return 0;
}

/* Read chunks into the buffer and send them. */
static int limits_read_send(int out, int in, uint8_t *buffer, int64_t size, int64_t chunk) {
    for (int64_t at = 0; at < size;) {
        ssize_t done = pread(in, buffer, (size_t)(chunk < size - at ? chunk : size - at), at);
        if (done <= 0)
            return done < 0 ? errno : ENODATA;
        int wrong = limits_send_all(out, buffer, (size_t)done, 0);
        if (wrong)
            return wrong;
        at += done;
    }
    return 0;
}

/* Send memory in chunks; `step` 0: the same chunk repeatedly. */
static int limits_memory_send(int out, const uint8_t *data, int64_t size, int64_t chunk,
                              int64_t step) {
    for (int64_t at = 0; at < size; at += chunk) {
        int64_t part = chunk < size - at ? chunk : size - at;
        int wrong = limits_send_all(out, data + (step ? at : 0), (size_t)part, 0);
        if (wrong)
            return wrong;
    }
    return 0;
}

/* File to pipe, pipe to socket. */
static int limits_splice(int out, int in, const int *ends, int64_t size, int64_t chunk) {
    loff_t at = 0;
    while (at < size) {
        size_t part = (size_t)(chunk < size - at ? chunk : size - at);
        ssize_t held = splice(in, &at, ends[1], NULL, part, SPLICE_F_MOVE);
        if (held <= 0)
            return held < 0 ? errno : ENODATA;
        while (held) {
            ssize_t done = splice(ends[0], NULL, out, NULL, (size_t)held, SPLICE_F_MOVE);
            if (done <= 0)
                return done < 0 ? errno : EPIPE;
            held -= done;
        }
    }
    return 0;
}

/* Read the notifications of completed sends: count them, and those that the kernel copied
 * nevertheless. */
static int limits_completions(int out, int64_t *finished, int64_t *copied) {
    char control[256];
    for (;;) {
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(out, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : errno;
        for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part;
             part = CMSG_NXTHDR(&message, part)) {
            struct sock_extended_err said;
            if (part->cmsg_len < CMSG_LEN(sizeof said))
                continue;
            memcpy(&said, CMSG_DATA(part), sizeof said);
            if (said.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
                continue;
            int64_t count = (int64_t)(said.ee_data - said.ee_info) + 1;
            *finished += count;
            if (said.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
                *copied += count;
        }
    }
}

static int limits_zerocopy_send(int out, const uint8_t *data, int64_t size, int64_t chunk,
                                int64_t *sends, int64_t *copied) {
    int one = 1;
    int64_t finished = 0;
    if (setsockopt(out, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one))
        return errno;
    for (int64_t at = 0; at < size || finished < *sends;) {
        size_t part = (size_t)(chunk < size - at ? chunk : size - at);
        int full = 0;
        if (part) {
            ssize_t done = send(out, data + at, part, MSG_ZEROCOPY | MSG_NOSIGNAL);
            if (done >= 0) {
                at += done;
                *sends += 1;
            } else if (errno == ENOBUFS) { /* too many incomplete sends */
                full = 1;
            } else if (errno != EINTR) {
                return errno;
            }
        }
        if (full || !part) {
            struct pollfd wait = {.fd = out, .events = 0};
            if (poll(&wait, 1, 10000) == 0)
                return ETIMEDOUT;
        }
        int wrong = limits_completions(out, &finished, copied);
        if (wrong)
            return wrong;
    }
    return 0;
}

/* Receive until the peer closes; `drop`: the kernel discards the bytes. */
static int limits_receive(int in, uint8_t *buffer, size_t room, int drop, int64_t *received) {
    for (;;) {
        ssize_t done = recv(in, buffer, room, drop ? MSG_TRUNC : 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : 0;
        *received += done;
    }
}

#endif
