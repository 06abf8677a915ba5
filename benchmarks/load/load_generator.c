/*
 * Sends prebuilt request frames over N connections with K in flight and counts the responses.
 *
 *   load_generator MODE port=P connections=N in_flight=K count=C error_at=E
 *                  [records_at=R offset_at=O first=F end=X produce_error_at=E warm=W pause_us=U]
 *                  FRAME...
 *
 * FRAME is a file with one complete request, with size prefix, for each connection; for `parked`
 * the first is the Fetch and the second the Produce. The correlation id is written into each copy.
 *
 *   send     each connection sends count / N frames, up to K ahead of the responses
 *   fetch    the same, and the fetch offset (at O in the frame) advances with the responses:
 *            a response has the size of the records at R and the records at R + 4; at offset X
 *            the connection restarts at 0
 *   parked   a Fetch waits at the end of the log while a Produce is sent; measures the time from
 *            the Produce to the response of the Fetch
 *
 * Positions in a response are relative to its correlation id. A response with an unexpected
 * correlation id, or with an error code at E, ends the program with status 1. It prints one line
 * of JSON: requests, bytes (of records in `fetch`, otherwise of requests), seconds, latencies in
 * ns (p50, p99, p999, longest), CPU seconds of this process, last offset of each connection.
 * The first W responses of each connection are not measured.
 */
/*
 * It decodes nothing else, so that a run measures the broker and not the client.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVE = 1 << 18, MOST = 256, CORRELATION_AT = 8 };

static long port, connections = 1, in_flight = 1, count = 1, error_at = -1, records_at = -1,
    offset_at = -1, first_offset, end_offset = INT64_MAX, produce_error_at, warm, pause_us = 500;
static int is_parked_mode;

struct connection {
    int fd;
    unsigned char *frames; /* in_flight copies, one after the other */
    size_t size;
    long written, queued, answered; /* frames: written, queued, with a response */
    size_t part;                    /* bytes written of the current frame */
    uint64_t *sent_at;
    unsigned char *answer; /* the response being received, with its size prefix */
    size_t have, room;
    int64_t next_offset;
    int is_writable_wanted;
};

static uint64_t *latencies;
static long measured;
static uint64_t bytes, started;
static long started_answers;
static double started_cpu;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static uint32_t get32(const unsigned char *from) {
    uint32_t value;
    memcpy(&value, from, 4);
    return ntohl(value);
}

static void put32(unsigned char *to, uint32_t value) {
    value = htonl(value);
    memcpy(to, &value, 4);
}

static uint64_t get64(const unsigned char *from) {
    uint64_t value;
    memcpy(&value, from, 8);
    return be64toh(value);
}

static void put64(unsigned char *to, uint64_t value) {
    value = htobe64(value);
    memcpy(to, &value, 8);
}

static void open_connection(struct connection *one, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    one->size = (size_t)ftell(file);
    rewind(file);
    one->frames = malloc(one->size * (size_t)in_flight);
    if (fread(one->frames, 1, one->size, file) != one->size) fail("%s: short", path);
    fclose(file);
    if (one->size < 14 || get32(one->frames) != one->size - 4) fail("%s: no frame", path);
    for (long n = 1; n < in_flight; n++)
        memcpy(one->frames + (size_t)n * one->size, one->frames, one->size);
    one->sent_at = calloc((size_t)in_flight, sizeof *one->sent_at);
    one->room = 1 << 21;
    one->answer = malloc(one->room);

    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one->fd, (struct sockaddr *)&to, sizeof to)) fail("connect: %s", strerror(errno));
    int on = 1;
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(one->fd, F_SETFL, O_NONBLOCK);
}

/* Writes queued frames while the socket accepts them, with one call per run of the ring. */
static void write_frames(struct connection *one) {
    while (one->queued) {
        long slot = one->written % in_flight;
        long run = one->queued < in_flight - slot ? one->queued : in_flight - slot;
        size_t from = (size_t)slot * one->size + one->part;
        ssize_t done = write(one->fd, one->frames + from, (size_t)run * one->size - one->part);
        if (done < 0) {
            if (errno == EAGAIN) return;
            fail("write: %s", strerror(errno));
        }
        one->part += (size_t)done;
        long complete = (long)(one->part / one->size);
        one->part %= one->size;
        one->written += complete;
        one->queued -= complete;
    }
}

static void queue_frame(struct connection *one) {
    long number = one->written + one->queued, slot = number % in_flight;
    unsigned char *frame = one->frames + (size_t)slot * one->size;
    put32(frame + CORRELATION_AT, (uint32_t)number);
    if (offset_at >= 0) put64(frame + offset_at, (uint64_t)one->next_offset);
    one->sent_at[slot] = now();
    one->queued++;
}

/* The offset after the last complete batch of a Fetch response. */
static int64_t offset_behind(const unsigned char *records, size_t size, int64_t next) {
    size_t at = 0;
    while (at + 61 <= size) {
        size_t batch = get32(records + at + 8) + 12;
        if (at + batch > size) break;
        next = (int64_t)get64(records + at) + (int64_t)get32(records + at + 23) + 1;
        at += batch;
    }
    return next;
}

static void take_answer(struct connection *one, const unsigned char *answer, size_t size) {
    if (get32(answer) != (uint32_t)one->answered)
        fail("correlation id %u after %ld answers", get32(answer), one->answered);
    if ((size_t)error_at + 2 > size) fail("an answer of %zu bytes", size);
    int code = (int16_t)(answer[error_at] << 8 | answer[error_at + 1]);
    if (code) fail("error code %d after %ld answers", code, one->answered);
    int is_measured = started != 0;
    if (is_measured && !is_parked_mode) {
        uint64_t sent = one->sent_at[one->answered % in_flight];
        latencies[measured++] = now() - sent;
    }
    if (records_at >= 0) {
        if ((size_t)records_at + 4 > size) fail("an answer of %zu bytes", size);
        size_t records = get32(answer + records_at);
        if (records > size - (size_t)records_at - 4) fail("%zu bytes of records", records);
        if (is_measured) bytes += records;
        int64_t behind = offset_behind(answer + records_at + 4, records, one->next_offset);
        one->next_offset = behind >= end_offset ? 0 : behind;
    } else if (is_measured) {
        bytes += one->size;
    }
    one->answered++;
}

/* Receives available bytes; returns the number of completed responses. */
static long read_answers(struct connection *one) {
    long complete = 0;
    for (;;) {
        ssize_t got = recv(one->fd, one->answer + one->have, one->room - one->have, 0);
        if (got < 0 && errno == EAGAIN) return complete;
        if (got <= 0) fail("the connection was closed after %ld answers", one->answered);
        one->have += (size_t)got;
        size_t at = 0;
        while (one->have - at >= 4) {
            size_t size = get32(one->answer + at);
            if (size > 1u << 30) fail("an answer of %zu bytes", size);
            if (size + 4 > one->room) {
                memmove(one->answer, one->answer + at, one->have - at);
                one->have -= at;
                at = 0;
                one->room = size + 4;
                one->answer = realloc(one->answer, one->room);
            }
            if (one->have - at < size + 4) break;
            take_answer(one, one->answer + at + 4, size);
            at += size + 4;
            complete++;
        }
        if (at) memmove(one->answer, one->answer + at, one->have - at);
        one->have -= at;
        if (complete) return complete; /* send the next requests before receiving more */
    }
}

static void start_clock(long answers) {
    started = now();
    started_cpu = cpu();
    started_answers = answers;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t quantile(double share) {
    long at = (long)(share * (double)measured);
    return measured ? latencies[at < measured ? at : measured - 1] : 0;
}

static void report(long answers, const struct connection *all) {
    double seconds = (double)(now() - started) / 1e9, used = cpu() - started_cpu;
    qsort(latencies, (size_t)measured, sizeof *latencies, compare);
    printf("{\"requests\": %ld, \"bytes\": %llu, \"seconds\": %.6f, \"cpu\": %.4f, \"p50\": %llu, "
           "\"p99\": %llu, \"p999\": %llu, \"longest\": %llu, \"sent\": [",
           answers - started_answers, (unsigned long long)bytes, seconds, used,
           (unsigned long long)quantile(0.5), (unsigned long long)quantile(0.99),
           (unsigned long long)quantile(0.999), (unsigned long long)quantile(1));
    for (long n = 0; n < connections; n++) printf("%s%ld", n ? ", " : "", all[n].answered);
    puts("]}");
}

static void send_frames(struct connection *all) {
    int poll = epoll_create1(0);
    long each = count / connections, answers = 0, is_started = 0;
    for (long n = 0; n < connections; n++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[n]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[n].fd, &event);
        for (long k = 0; k < in_flight && k < each; k++) queue_frame(&all[n]);
    }
    if (!warm) start_clock(0), is_started = 1;
    for (long n = 0; n < connections; n++) write_frames(&all[n]);
    while (answers < each * connections) {
        struct epoll_event ready[64];
        int found = epoll_wait(poll, ready, 64, 30000);
        if (found == 0) fail("no answer for 30 s after %ld answers", answers);
        for (int n = 0; n < found; n++) {
            struct connection *one = ready[n].data.ptr;
            if (ready[n].events & ~(unsigned)EPOLLOUT) {
                long complete = read_answers(one);
                answers += complete;
                for (; complete && one->written + one->queued < each; complete--) queue_frame(one);
            }
            write_frames(one);
            if (one->is_writable_wanted != (one->queued > 0)) {
                one->is_writable_wanted = one->queued > 0;
                struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
                if (one->is_writable_wanted) event.events |= EPOLLOUT;
                epoll_ctl(poll, EPOLL_CTL_MOD, one->fd, &event);
            }
        }
        if (!is_started && answers >= warm * connections) start_clock(answers), is_started = 1;
    }
    report(answers, all);
}

/* Waits for one more response. */
static void await_answer(struct connection *one, int poll) {
    long before = one->answered;
    while (one->answered == before) {
        struct epoll_event ready[2];
        if (epoll_wait(poll, ready, 2, 30000) == 0) fail("no answer for 30 s");
        read_answers(one);
    }
}

static void send_to_parked(struct connection *fetch, struct connection *produce) {
    long fetch_error_at = error_at, fetch_records_at = records_at, fetch_offset_at = offset_at;
    int fetch_poll = epoll_create1(0), produce_poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(fetch_poll, EPOLL_CTL_ADD, fetch->fd, &event);
    epoll_ctl(produce_poll, EPOLL_CTL_ADD, produce->fd, &event);
    fetch->next_offset = first_offset;
    for (long n = 0; n < count + warm; n++) {
        if (n == warm) start_clock(n);
        error_at = fetch_error_at, records_at = fetch_records_at, offset_at = fetch_offset_at;
        queue_frame(fetch);
        write_frames(fetch);
        uint64_t until = now() + (uint64_t)pause_us * 1000;
        while (now() < until) continue;
        offset_at = -1;
        uint64_t sent = now();
        queue_frame(produce);
        write_frames(produce);
        int64_t before = fetch->next_offset;
        await_answer(fetch, fetch_poll);
        if (started) latencies[measured++] = now() - sent;
        if (fetch->next_offset != before + 1)
            fail("the parked Fetch at %lld was answered without the record", (long long)before);
        error_at = produce_error_at, records_at = -1;
        await_answer(produce, produce_poll);
    }
    report(count + warm, fetch);
}

static void set_option(const char *word) {
    static const struct { const char *name; long *value; } options[] = {
        {"port", &port}, {"connections", &connections}, {"in_flight", &in_flight},
        {"count", &count}, {"error_at", &error_at}, {"records_at", &records_at},
        {"offset_at", &offset_at}, {"end", &end_offset}, {"warm", &warm},
        {"pause_us", &pause_us}, {"first", &first_offset},
        {"produce_error_at", &produce_error_at},
    };
    size_t length = (size_t)(strchr(word, '=') - word);
    for (size_t n = 0; n < sizeof options / sizeof *options; n++)
        if (strlen(options[n].name) == length && !strncmp(options[n].name, word, length)) {
            *options[n].value = atol(word + length + 1);
            return;
        }
    fail("unknown option %s", word);
}

int main(int words, char **word) {
    if (words < 3) fail("usage: see the head of load_generator.c");
    const char *mode = word[1];
    int at = 2;
    for (; at < words && strchr(word[at], '='); at++) set_option(word[at]);
    if (connections > MOST || words - at != connections) fail("one frame for each connection");
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (long n = 0; n < connections; n++) open_connection(&all[n], word[at + n]);
    latencies = malloc(sizeof *latencies * (size_t)(count + warm + 1));
    is_parked_mode = !strcmp(mode, "parked");
    if (is_parked_mode && connections == 2) {
        send_to_parked(&all[0], &all[1]);
    } else if (!strcmp(mode, "send") || !strcmp(mode, "fetch")) {
        send_frames(all);
    } else {
        fail("unknown mode %s", mode);
    }
    return 0;
}
