"""CRC-32 and CRC-32C, bit by bit into a table of our own, then byte by byte."""

CRC32 = 0xEDB88320  # reflected polynomial of zlib and of message v0 and v1
CRC32C = 0x82F63B78  # Castagnoli, reflected: record batch v2, producer snapshots


def _table(polynomial: int) -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ polynomial if value & 1 else value >> 1
        table.append(value)
    return table


_TABLES = {CRC32: _table(CRC32), CRC32C: _table(CRC32C)}


def _crc(data: bytes, polynomial: int) -> int:
    table = _TABLES[polynomial]
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def crc32(data: bytes) -> int:
    return _crc(data, CRC32)


def crc32c(data: bytes) -> int:
    return _crc(data, CRC32C)
