/* CRC by table, eight bytes at a time ("slicing by 8"): portable, the reference for other paths.
 *
 * Both checksums are reflected: bit 0 of a byte is the highest power. A "state" below is the
 * checksum before its final inversion. crc_power() and crc_multiply() compute every constant of
 * the faster paths, once, at import.
 */
#ifndef KSTORE_CRC_TABLE_H
#define KSTORE_CRC_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* KSTORE_PORTABLE removes the x86 paths, to test the build of another machine. */
#if defined(__x86_64__) && !defined(KSTORE_PORTABLE)
#define KSTORE_X86 1
#endif

#define CRC_CASTAGNOLI 0x82F63B78u /* CRC-32C: record batch v2 */
#define CRC_IEEE 0xEDB88320u       /* CRC-32: message v0 and v1 */

typedef struct {
    uint32_t polynomial;
    uint32_t slice[8][256]; /* slice[k][b]: the state after byte b and then k zero bytes */
} crc_table;

/* state * x modulo the polynomial */
static inline uint32_t crc_times_x(uint32_t state, uint32_t polynomial) {
    return (state >> 1) ^ (polynomial & (0u - (state & 1u)));
}

/* x**n modulo the polynomial; x**0 is the highest bit because the order is reflected */
static uint32_t crc_power(unsigned n, uint32_t polynomial) {
    uint32_t value = 0x80000000u;
    while (n--)
        value = crc_times_x(value, polynomial);
    return value;
}

/* a * b modulo the polynomial */
static uint32_t crc_multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t sum = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        if (a & bit)
            sum ^= b;
        b = crc_times_x(b, polynomial);
    }
    return sum;
}

static void crc_table_fill(crc_table *table, uint32_t polynomial) {
    table->polynomial = polynomial;
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t state = n;
        for (int bit = 0; bit < 8; bit++)
            state = crc_times_x(state, polynomial);
        table->slice[0][n] = state;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t before = table->slice[k - 1][n];
            table->slice[k][n] = (before >> 8) ^ table->slice[0][before & 0xFF];
        }
}

static inline uint32_t crc_table_bytes(const crc_table *table, uint32_t state,
                                       const uint8_t *data, size_t size) {
    while (size--)
        state = (state >> 8) ^ table->slice[0][(state ^ *data++) & 0xFF];
    return state;
}

static uint32_t crc_table_state(const crc_table *table, uint32_t state, const uint8_t *data,
                                size_t size) {
    const uint32_t(*slice)[256] = table->slice;
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= state;
        state = slice[7][word & 0xFF] ^ slice[6][(word >> 8) & 0xFF] ^
                slice[5][(word >> 16) & 0xFF] ^ slice[4][(word >> 24) & 0xFF] ^
                slice[3][(word >> 32) & 0xFF] ^ slice[2][(word >> 40) & 0xFF] ^
                slice[1][(word >> 48) & 0xFF] ^ slice[0][word >> 56];
        data += 8;
        size -= 8;
    }
    return crc_table_bytes(table, state, data, size);
}

#endif
