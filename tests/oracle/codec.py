"""The five codecs as Kafka frames them, each by the plainest call of a well-known library."""

import gzip
import struct

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024

LZ4_MAGIC = bytes.fromhex("04224d18")


def rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes: an LZ4 frame descriptor never has more."""
    if len(data) >= 16:
        raise ValueError("only short inputs")
    value = 374761393 + len(data)
    while len(data) >= 4:
        value = (value + struct.unpack_from("<I", data)[0] * 3266489917) & 0xFFFFFFFF
        value = rotate_left(value, 17) * 668265263 & 0xFFFFFFFF
        data = data[4:]
    for byte in data:
        value = (value + byte * 374761393) & 0xFFFFFFFF
        value = rotate_left(value, 11) * 2654435761 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 2246822519 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 3266489917 & 0xFFFFFFFF
    return value ^ value >> 16


def _lz4_checksum_position(frame: bytes) -> int:
    """Where the header checksum byte is: after FLG, BD and, if flagged, the content size."""
    if frame[:4] != LZ4_MAGIC:
        raise ValueError("not an LZ4 frame")
    return 6 + (8 if frame[4] & 0x08 else 0)


def lz4_with_right_checksum(frame: bytes) -> bytes:
    position = _lz4_checksum_position(frame)
    right = xxhash32(frame[4:position]) >> 8 & 0xFF
    return frame[:position] + bytes([right]) + frame[position + 1 :]


def lz4_with_wrong_checksum(frame: bytes) -> bytes:
    """The header checksum as Kafka takes it for magic 0: over the frame magic as well."""
    position = _lz4_checksum_position(frame)
    wrong = xxhash32(frame[:position]) >> 8 & 0xFF
    return frame[:position] + bytes([wrong]) + frame[position + 1 :]


def _decompress_snappy(data: bytes) -> bytes:
    if data[:8] != XERIAL_MAGIC:
        return bytes(cramjam.snappy.decompress_raw(data))
    position, plain = 16, b""
    while position < len(data):
        if data[position : position + 8] == XERIAL_MAGIC:  # streams may follow one another
            position += 16
            continue
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or size > len(data) - position:
            raise ValueError("a snappy chunk points past the end")
        plain += bytes(cramjam.snappy.decompress_raw(data[position : position + size]))
        position += size
    return plain


def decompress(codec: int, data: bytes, magic: int) -> bytes:
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.decompress(data)
    if codec == SNAPPY:
        return _decompress_snappy(data)
    if codec == LZ4:
        return bytes(cramjam.lz4.decompress(lz4_with_right_checksum(data) if magic == 0 else data))
    if codec == ZSTD and magic == 2:
        return bytes(cramjam.zstd.decompress(data))
    raise ValueError(f"codec {codec} in format {magic}")


def _compress_snappy(data: bytes) -> bytes:
    chunks = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        chunks += [struct.pack(">i", len(block)), block]
    return b"".join(chunks)


def _lz4_of_raw_blocks(data: bytes) -> bytes:
    """A frame as Kafka's writer begins it (FLG 60, BD 40), its blocks stored, not compressed."""
    chunks = [LZ4_MAGIC, b"\x60\x40\x82"]
    for start in range(0, len(data), 64 * 1024):
        block = data[start : start + 64 * 1024]
        chunks += [struct.pack("<I", 1 << 31 | len(block)), block]
    return b"".join([*chunks, bytes(4)])


def compress(codec: int, data: bytes, magic: int) -> bytes:
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        frame = _lz4_of_raw_blocks(data)
        return lz4_with_wrong_checksum(frame) if magic == 0 else frame
    if codec == ZSTD and magic == 2:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"codec {codec} in format {magic}")
