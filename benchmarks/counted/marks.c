/* Where a counted operation begins and ends, told to valgrind; outside of it this does nothing. */

#include <valgrind/callgrind.h>

/* Into valgrind's log, between the system calls that it writes there. */
void mark_calls(const char *name) { VALGRIND_PRINTF("mark %s\n", name); }

void mark_begin(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

/* A dump of its own, whose trigger is the name. */
void mark_end(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
