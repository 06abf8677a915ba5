/* The checksums of Kafka's formats, with one path for each CPU feature, chosen at import.
 *
 *   table    any CPU: eight bytes a step
 *   sse42    CRC-32C instruction, three streams (CRC-32: as table)
 *   pclmul   128-bit folding
 *   avx2     as pclmul (other kernels have an AVX2 path)
 *   avx512   512-bit folding (VPCLMULQDQ, VBMI)
 */
#ifndef KSTORE_CRC_H
#define KSTORE_CRC_H

#include "crc_table.h"

enum { CRC_TABLE, CRC_SSE42, CRC_PCLMUL, CRC_AVX2, CRC_AVX512, CRC_PATHS };

typedef uint32_t (*crc_function)(uint32_t seed, const uint8_t *data, size_t size);

#ifdef KSTORE_X86
#include "crc_avx512.h"
#include "crc_fold.h"
#include "crc_sse42.h"

static crc_folder crc_castagnoli, crc_ieee;
#define CRC_CASTAGNOLI_TABLE (&crc_castagnoli.table)
#define CRC_IEEE_TABLE (&crc_ieee.table)

static uint32_t crc32c_sse42(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc32c_sse42_state(~seed, data, size);
}
static uint32_t crc32c_pclmul(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc32c_pclmul_state(&crc_castagnoli, ~seed, data, size);
}
static uint32_t crc32c_avx512(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc32c_avx512_state(&crc_castagnoli, ~seed, data, size);
}
static uint32_t crc32_pclmul(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc32_pclmul_state(&crc_ieee, ~seed, data, size);
}
static uint32_t crc32_avx512(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc32_avx512_state(&crc_ieee, ~seed, data, size);
}

static void crc_fill(void) {
    crc_folder_fill(&crc_castagnoli, CRC_CASTAGNOLI);
    crc_folder_fill(&crc_ieee, CRC_IEEE);
    crc_sse42_fill();
}

/* __builtin_cpu_supports also checks (XGETBV) that the kernel saves the wide registers. */
static int crc_supported(int path) {
    __builtin_cpu_init();
    switch (path) {
    case CRC_TABLE:
        return 1;
    case CRC_SSE42:
        return __builtin_cpu_supports("sse4.2") != 0;
    case CRC_PCLMUL:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    case CRC_AVX2:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
               __builtin_cpu_supports("avx2");
    case CRC_AVX512:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
               __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
               __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("bmi2");
    }
    return 0;
}
#else
static crc_table crc_castagnoli, crc_ieee;
#define CRC_CASTAGNOLI_TABLE (&crc_castagnoli)
#define CRC_IEEE_TABLE (&crc_ieee)

static void crc_fill(void) {
    crc_table_fill(&crc_castagnoli, CRC_CASTAGNOLI);
    crc_table_fill(&crc_ieee, CRC_IEEE);
}

static int crc_supported(int path) { return path == CRC_TABLE; }
#endif

static uint32_t crc32c_table(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc_table_state(CRC_CASTAGNOLI_TABLE, ~seed, data, size);
}
static uint32_t crc32_table(uint32_t seed, const uint8_t *data, size_t size) {
    return ~crc_table_state(CRC_IEEE_TABLE, ~seed, data, size);
}

static crc_function crc32c_of(int path) {
#ifdef KSTORE_X86
    if (path == CRC_SSE42)
        return crc32c_sse42;
    if (path == CRC_PCLMUL || path == CRC_AVX2)
        return crc32c_pclmul;
    if (path == CRC_AVX512)
        return crc32c_avx512;
#endif
    (void)path;
    return crc32c_table;
}

static crc_function crc32_of(int path) {
#ifdef KSTORE_X86
    if (path == CRC_PCLMUL || path == CRC_AVX2)
        return crc32_pclmul;
    if (path == CRC_AVX512)
        return crc32_avx512;
#endif
    (void)path;
    return crc32_table;
}

#endif
