/*
 * A broker without storage, which shows the limit of the load generator or any client.
 *
 *   null_broker PORT [BATCH_BYTES [LOG RECORDS]]
 * It has one thread, and serves ApiVersions 0 (error 35 for newer versions), Metadata 1-4 (the
 * requested topics, each with PARTITIONS partitions), InitProducerId 0-1, Produce 3-8 (it counts
 * records without keeping them) and Fetch 4-11 of one partition. A Fetch below the end offset gets
 * up to 1 MiB of synthetic batches of about BATCH_BYTES by sendfile(2); at the end it gets a batch
 * header upon the next Produce. Other requests close the connection.
 *
 * With LOG, a file of batches of exactly BATCH_BYTES with RECORDS records each and their offsets,
 * every topic has one partition, which is that file, and the oldest versions of the requests of a
 * consumer with a group are served: each member is the only one of its group.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PARTITIONS = 16,
    SLOTS = 1 << 16,
    FILE_BYTES = 256 << 20,
    CHUNK = 1 << 20,
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_LIST_OFFSETS = 2,
    API_METADATA = 3,
    API_OFFSET_COMMIT = 8,
    API_OFFSET_FETCH = 9,
    API_FIND_COORDINATOR = 10,
    API_JOIN_GROUP = 11,
    API_HEARTBEAT = 12,
    API_LEAVE_GROUP = 13,
    API_SYNC_GROUP = 14,
    API_VERSIONS = 18,
    API_INIT_PRODUCER_ID = 22,
};

struct connection {
    int fd;
    unsigned char *frame;
    size_t have, room;
    unsigned char out[1 << 16];
    size_t out_size, out_done;
    off_t file_at;
    size_t file_left;
    int is_parked;
    struct connection *next; /* of all */
};

struct reader {
    const unsigned char *at, *end;
    int is_short;
};

static struct connection *all;
static int64_t ends[SLOTS];
static int file_descriptor = -1;
static size_t file_size, batch_size = 16384;
static off_t file_position;
static int64_t log_records; /* of a batch of LOG; 0 without one */
static int port, poll_descriptor;

/* The end offset of a partition; two topics that share a slot by chance share their ends. */
static int64_t *end_of(const unsigned char *topic, uint32_t size, uint32_t partition) {
    uint32_t hash = 2166136261u ^ partition;
    while (size--) hash = (hash ^ *topic++) * 16777619u;
    return &ends[hash % SLOTS];
}

static uint32_t take(struct reader *in, int size) {
    uint32_t value = 0;
    if (in->end - in->at < size) {
        in->is_short = 1;
        return 0;
    }
    while (size--) value = value << 8 | *in->at++;
    return value;
}

static const unsigned char *skip(struct reader *in, int64_t size) {
    const unsigned char *from = in->at;
    if (size < 0) size = 0;
    if (in->end - in->at < size) {
        in->is_short = 1;
        return from;
    }
    in->at += size;
    return from;
}

static void put(struct connection *one, uint64_t value, int size) {
    if (one->out_size + (size_t)size > sizeof one->out) abort();
    for (int n = size - 1; n >= 0; n--) one->out[one->out_size++] = (unsigned char)(value >> 8 * n);
}

static void put_bytes(struct connection *one, const void *from, size_t size) {
    if (one->out_size + size > sizeof one->out) abort();
    memcpy(one->out + one->out_size, from, size);
    one->out_size += size;
}

static void put_text(struct connection *one, const char *text) {
    put(one, strlen(text), 2);
    put_bytes(one, text, strlen(text));
}

/* The file of batches for Fetch responses, many times larger than the CPU cache. */
static void make_file(void) {
    file_descriptor = memfd_create("batches", 0);
    unsigned char *batch = calloc(1, batch_size);
    uint32_t length = htonl((uint32_t)batch_size - 12), deltas = htonl(0);
    memcpy(batch + 8, &length, 4);
    batch[16] = 2;
    memcpy(batch + 23, &deltas, 4);
    while (file_size + batch_size <= FILE_BYTES) {
        if (write(file_descriptor, batch, batch_size) != (ssize_t)batch_size) abort();
        file_size += batch_size;
    }
    free(batch);
}

/* The file of batches that a consumer reads, and its end offset. */
static int open_log(const char *path) {
    struct stat found;
    file_descriptor = open(path, O_RDONLY);
    if (file_descriptor < 0 || fstat(file_descriptor, &found)) return 0;
    file_size = (size_t)found.st_size;
    return log_records > 0 && file_size % batch_size == 0;
}

static int64_t log_end(void) { return (int64_t)(file_size / batch_size) * log_records; }

static size_t begin(struct connection *one, uint32_t correlation) {
    size_t at = one->out_size;
    put(one, 0, 4);
    put(one, correlation, 4);
    return at;
}

static void finish(struct connection *one, size_t at, size_t more) {
    uint32_t size = htonl((uint32_t)(one->out_size - at - 4 + more));
    memcpy(one->out + at, &size, 4);
}

static void answer_versions(struct connection *one, int version) {
    static const short ranges[][3] = {{API_PRODUCE, 3, 8}, {API_FETCH, 4, 11},
        {API_METADATA, 1, 4}, {API_VERSIONS, 0, 0}, {API_INIT_PRODUCER_ID, 0, 1},
        {API_LIST_OFFSETS, 1, 1}, {API_OFFSET_COMMIT, 2, 2}, {API_OFFSET_FETCH, 1, 1},
        {API_FIND_COORDINATOR, 0, 0}, {API_JOIN_GROUP, 0, 0}, {API_HEARTBEAT, 0, 0},
        {API_LEAVE_GROUP, 0, 0}, {API_SYNC_GROUP, 0, 0}};
    size_t count = log_records ? sizeof ranges / sizeof *ranges : 5;
    put(one, version ? 35 : 0, 2);
    put(one, count, 4);
    for (size_t n = 0; n < count; n++)
        for (int field = 0; field < 3; field++) put(one, (uint16_t)ranges[n][field], 2);
}

static void answer_metadata(struct connection *one, int version, struct reader *in) {
    if (version >= 3) put(one, 0, 4);
    put(one, 1, 4);
    put(one, 1, 4);
    put_text(one, "127.0.0.1");
    put(one, (uint32_t)port, 4);
    put(one, 0xffff, 2);
    if (version >= 2) put(one, 0xffff, 2);
    put(one, 1, 4);
    int32_t topics = (int32_t)take(in, 4);
    if (topics < 0) topics = 0;
    put(one, (uint32_t)topics, 4);
    for (int32_t n = 0; n < topics && !in->is_short; n++) {
        uint32_t size = take(in, 2);
        const unsigned char *name = skip(in, size);
        put(one, 0, 2);
        put(one, size, 2);
        put_bytes(one, name, size);
        put(one, 0, 1);
        uint32_t partitions = log_records ? 1 : PARTITIONS;
        put(one, partitions, 4);
        for (uint32_t partition = 0; partition < partitions; partition++) {
            put(one, 0, 2);
            put(one, partition, 4);
            put(one, 1, 4);
            for (int list = 0; list < 2; list++) {
                put(one, 1, 4);
                put(one, 1, 4);
            }
        }
    }
}

static void write_out(struct connection *one);

static void wake_parked(void) {
    for (struct connection *one = all; one; one = one->next)
        if (one->is_parked) {
            one->is_parked = 0;
            write_out(one);
        }
}

/* Returns 0 for acks=0, which gets no response. */
static int answer_produce(struct connection *one, int version, struct reader *in) {
    int16_t transactional = (int16_t)take(in, 2);
    skip(in, transactional);
    int acks = (int16_t)take(in, 2);
    take(in, 4);
    uint32_t topics = take(in, 4);
    put(one, topics, 4);
    for (uint32_t n = 0; n < topics && !in->is_short; n++) {
        uint32_t size = take(in, 2);
        const unsigned char *name = skip(in, size);
        put(one, size, 2);
        put_bytes(one, name, size);
        uint32_t partitions = take(in, 4);
        put(one, partitions, 4);
        for (uint32_t p = 0; p < partitions && !in->is_short; p++) {
            uint32_t index = take(in, 4);
            uint32_t records = take(in, 4);
            const unsigned char *batch = skip(in, (int32_t)records);
            uint32_t deltas;
            memcpy(&deltas, batch + 23, 4);
            put(one, index, 4);
            put(one, 0, 2);
            int64_t *end = end_of(name, size, index);
            put(one, (uint64_t)*end, 8);
            *end += ntohl(deltas) + 1;
            put(one, UINT64_MAX, 8);
            if (version >= 5) put(one, 0, 8);
            if (version >= 8) put(one, 0, 4), put(one, 0xffff, 2);
        }
    }
    put(one, 0, 4);
    return acks != 0;
}

/* Writes the response up to its records, which sendfile adds. */
static void answer_fetch(struct connection *one, size_t at, int version, struct reader *in) {
    skip(in, 4 + 4 + 4);
    uint32_t limit = take(in, 4);
    skip(in, 1 + (version >= 7 ? 8 : 0) + 4);
    uint32_t name_size = take(in, 2);
    const unsigned char *name = skip(in, name_size);
    skip(in, 4);
    uint32_t partition = take(in, 4);
    skip(in, version >= 9 ? 4 : 0);
    int64_t offset = (int64_t)take(in, 4) << 32;
    offset |= take(in, 4);
    if (file_descriptor < 0) make_file();
    int64_t end = log_records ? log_end() : *end_of(name, name_size, partition);
    put(one, 0, 4);
    if (version >= 7) put(one, 0, 2), put(one, 0, 4);
    put(one, 1, 4);
    put(one, name_size, 2);
    put_bytes(one, name, name_size);
    put(one, 1, 4);
    put(one, partition, 4);
    put(one, 0, 2);
    put(one, (uint64_t)end, 8);
    put(one, (uint64_t)end, 8);
    if (version >= 5) put(one, 0, 8);
    put(one, 0xffffffff, 4);
    if (version >= 11) put(one, 0xffffffff, 4);
    one->is_parked = offset >= end;
    if (log_records && offset < end) {
        size_t from = (size_t)(offset / log_records) * batch_size;
        size_t most = limit < CHUNK ? limit : CHUNK, size = file_size - from;
        if (size > most) size = most - most % batch_size;
        one->file_at = (off_t)from;
        put(one, size, 4);
        one->file_left = size;
        finish(one, at, size);
        return;
    }
    if (offset >= end - 1) { /* the header of a batch of one record */
        put(one, 61, 4);
        put(one, (uint64_t)offset, 8);
        put(one, 49, 4);
        put(one, 0, 4);
        put(one, 2, 1);
        for (int n = 17; n < 61; n++) put(one, 0, 1);
        finish(one, at, 0);
        return;
    }
    size_t size = limit < CHUNK ? limit : CHUNK;
    size -= size % batch_size;
    if (file_position + (off_t)size > (off_t)file_size) file_position = 0;
    one->file_at = file_position;
    file_position += (off_t)size;
    put(one, size, 4);
    one->file_left = size;
    finish(one, at, size);
}

static void answer_find_coordinator(struct connection *one) {
    put(one, 0, 2);
    put(one, 1, 4);
    put_text(one, "127.0.0.1");
    put(one, (uint32_t)port, 4);
}

/* The member is the leader, with the first protocol that it names. */
static void answer_join(struct connection *one, struct reader *in) {
    skip(in, (int16_t)take(in, 2)); /* the group */
    skip(in, 4);
    skip(in, (int16_t)take(in, 2)); /* the member */
    skip(in, (int16_t)take(in, 2)); /* the type */
    skip(in, 4);
    uint32_t name_size = take(in, 2);
    const unsigned char *name = skip(in, name_size);
    uint32_t size = take(in, 4);
    const unsigned char *metadata = skip(in, (int32_t)size);
    if (in->is_short) return;
    put(one, 0, 2);
    put(one, 1, 4);
    put(one, name_size, 2);
    put_bytes(one, name, name_size);
    put_text(one, "member");
    put_text(one, "member");
    put(one, 1, 4);
    put_text(one, "member");
    put(one, size, 4);
    put_bytes(one, metadata, size);
}

static void answer_sync(struct connection *one, struct reader *in) {
    skip(in, (int16_t)take(in, 2));
    skip(in, 4);
    skip(in, (int16_t)take(in, 2));
    skip(in, 4);
    skip(in, (int16_t)take(in, 2));
    uint32_t size = take(in, 4);
    const unsigned char *assignment = skip(in, (int32_t)size);
    if (in->is_short) return;
    put(one, 0, 2);
    put(one, size, 4);
    put_bytes(one, assignment, size);
}

/* ListOffsets, OffsetFetch and OffsetCommit, which name one topic with one partition. */
static void answer_offsets(struct connection *one, uint32_t key, struct reader *in) {
    if (key == API_LIST_OFFSETS) skip(in, 4);
    else skip(in, (int16_t)take(in, 2)); /* the group */
    if (key == API_OFFSET_COMMIT) {
        skip(in, 4);
        skip(in, (int16_t)take(in, 2)); /* the member */
        skip(in, 8);
    }
    uint32_t topics = take(in, 4);
    put(one, topics, 4);
    if (!topics) return;
    uint32_t size = take(in, 2);
    const unsigned char *name = skip(in, size);
    skip(in, 4);
    uint32_t partition = take(in, 4);
    if (in->is_short) return;
    put(one, size, 2);
    put_bytes(one, name, size);
    put(one, 1, 4);
    put(one, partition, 4);
    if (key == API_OFFSET_FETCH) put(one, UINT64_MAX, 8), put(one, 0, 2); /* none, no metadata */
    put(one, 0, 2);
    if (key == API_LIST_OFFSETS) {
        take(in, 4);
        int is_earliest = take(in, 4) == 0xfffffffe;
        put(one, UINT64_MAX, 8);
        put(one, is_earliest ? 0 : (uint64_t)log_end(), 8);
    }
}

/* Returns 0 for a request that is not one of a consumer with a group. */
static int answer_consumer(struct connection *one, uint32_t key, struct reader *in) {
    switch (key) {
    case API_FIND_COORDINATOR: answer_find_coordinator(one); break;
    case API_JOIN_GROUP: answer_join(one, in); break;
    case API_SYNC_GROUP: answer_sync(one, in); break;
    case API_HEARTBEAT: put(one, 0, 2); break;
    case API_LEAVE_GROUP: put(one, 0, 2); break;
    case API_LIST_OFFSETS:
    case API_OFFSET_FETCH:
    case API_OFFSET_COMMIT: answer_offsets(one, key, in); break;
    default: return 0;
    }
    return 1;
}

/* Returns 0 if the connection must be closed. */
static int answer(struct connection *one, const unsigned char *frame, size_t size) {
    struct reader in = {frame, frame + size, 0};
    uint32_t key = take(&in, 2), version = take(&in, 2), correlation = take(&in, 4);
    int16_t client = (int16_t)take(&in, 2);
    skip(&in, client);
    size_t at = begin(one, correlation);
    int is_sent = 1;
    switch (key) {
    case API_PRODUCE: is_sent = answer_produce(one, (int)version, &in); break;
    case API_METADATA: answer_metadata(one, (int)version, &in); break;
    case API_VERSIONS: answer_versions(one, (int)version); break;
    case API_INIT_PRODUCER_ID: put(one, 0, 6), put(one, 1000, 8), put(one, 0, 2); break;
    case API_FETCH: answer_fetch(one, at, (int)version, &in); return !in.is_short;
    default:
        if (!log_records || !answer_consumer(one, key, &in)) return 0;
    }
    if (!is_sent) one->out_size = at;
    else finish(one, at, 0);
    if (key == API_PRODUCE) wake_parked();
    return !in.is_short;
}

static void want(struct connection *one, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    epoll_ctl(poll_descriptor, EPOLL_CTL_MOD, one->fd, &event);
}

static void write_out(struct connection *one) {
    if (one->is_parked) return;
    int more = one->file_left ? MSG_MORE : 0;
    while (one->out_done < one->out_size) {
        ssize_t done = send(one->fd, one->out + one->out_done, one->out_size - one->out_done,
                            MSG_NOSIGNAL | more);
        if (done < 0) break;
        one->out_done += (size_t)done;
    }
    while (one->out_done == one->out_size && one->file_left) {
        ssize_t done = sendfile(one->fd, file_descriptor, &one->file_at, one->file_left);
        if (done <= 0) break;
        one->file_left -= (size_t)done;
    }
    int is_done = one->out_done == one->out_size && !one->file_left;
    if (is_done) one->out_size = one->out_done = 0;
    want(one, is_done ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static void close_connection(struct connection *one) {
    struct connection **link = &all;
    while (*link != one) link = &(*link)->next;
    *link = one->next;
    close(one->fd);
    free(one->frame);
    free(one);
}

static void read_frames(struct connection *one) {
    ssize_t got = recv(one->fd, one->frame + one->have, one->room - one->have, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) close_connection(one);
        return;
    }
    one->have += (size_t)got;
    size_t at = 0;
    while (one->have - at >= 4) {
        uint32_t size;
        memcpy(&size, one->frame + at, 4);
        size = ntohl(size);
        if (size + 4 > one->room) {
            memmove(one->frame, one->frame + at, one->have - at);
            one->have -= at;
            at = 0;
            one->room = size + 4;
            one->frame = realloc(one->frame, one->room);
        }
        if (one->have - at < size + 4) break;
        if (!answer(one, one->frame + at + 4, size)) {
            close_connection(one);
            return;
        }
        at += size + 4;
        if (one->out_size > sizeof one->out / 2 || one->file_left) write_out(one);
    }
    memmove(one->frame, one->frame + at, one->have - at);
    one->have -= at;
    if (one->out_size) write_out(one);
}

static void accept_connection(int listener) {
    struct connection *one = calloc(1, sizeof *one);
    int on = 1;
    one->fd = accept4(listener, 0, 0, SOCK_NONBLOCK);
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    one->room = 1 << 18;
    one->frame = malloc(one->room);
    one->next = all;
    all = one;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, one->fd, &event);
}

int main(int words, char **word) {
    if (words < 2) return 2;
    port = atoi(word[1]);
    if (words > 2) batch_size = (size_t)atol(word[2]);
    if (words > 4) {
        log_records = atol(word[4]);
        if (!open_log(word[3])) {
            fprintf(stderr, "null_broker: %s has no batches of that size\n", word[3]);
            return 1;
        }
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&to, sizeof to) || listen(listener, 64)) {
        perror("null_broker");
        return 1;
    }
    poll_descriptor = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event ready[64];
        int found = epoll_wait(poll_descriptor, ready, 64, -1);
        for (int n = 0; n < found; n++) {
            struct connection *one = ready[n].data.ptr;
            if (!one) accept_connection(listener);
            else if (ready[n].events & EPOLLOUT) write_out(one);
            else read_frames(one);
        }
    }
}
