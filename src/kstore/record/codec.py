"""The codecs of Kafka's batches by their ids: gzip 1, snappy 2, lz4 3, zstd 4.

The framings are Kafka's: xerial blocks around snappy, one lz4 frame of independent blocks with
a wrong header checksum in message v0 (KIP-57, KAFKA-3160), plain gzip and zstd. Decompression never
asks for more memory than the compressed bytes can justify block by block, nor for more than a
limit. The compression library releases the GIL; all functions may be called from any thread.

Which codec a batch gets (``compression.type``): :func:`kstore.config.codec_of_batches`.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kstore.errors import CorruptRecordError, UnsupportedCompressionTypeError

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
DECOMPRESSED_LIMIT = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 << 10
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK = 64 << 10
_LZ4_LONGEST_RUN = 255  # bytes that one compressed byte can stand for
_SNAPPY_LONGEST_RUN = 32  # a copy takes two bytes or more and gives 64 at most
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 << 10

Data = bytes | bytearray | memoryview


def codec_id(name: str) -> int:
    """The id of a codec by Kafka's name for it."""
    if name not in NAMES:
        raise UnsupportedCompressionTypeError(
            f"unknown codec {name!r}; known are: {', '.join(NAMES)}"
        )
    return NAMES.index(name)


def compress(codec: int, magic: int, data: Data, *, level: int | None = None) -> bytes:
    """Compress the records of a batch (v2) or the messages of a wrapper (v0, v1).

    ``level`` is the codec's own (gzip 1 to 9, zstd -131072 to 22); None is Kafka's default.
    Raises ``UnsupportedCompressionTypeError`` for an unknown id and for zstd below v2.
    """
    _check(codec, magic)
    if codec == 1:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == 2:
        return _compress_snappy(memoryview(data))
    if codec == 3:
        return _compress_lz4(memoryview(data), magic)
    if codec == 4:
        return bytes(_library().zstd.compress(data, level=3 if level is None else level))
    return bytes(data)


def decompress(codec: int, magic: int, data: Data, *, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Undo ``compress``, and whatever other legal framing a Kafka client may have written.

    Raises ``CorruptRecordError`` for damaged bytes, lz4 blocks linked to each other, and
    anything that would give more than ``limit`` bytes.
    """
    _check(codec, magic)
    view = memoryview(data)
    if codec == 1:
        return _decompress_gzip(view, limit)
    if codec == 2:
        return _collect(_snappy_blocks(view), limit)
    if codec == 3:
        return _collect(_lz4_blocks(view, magic), limit)
    if codec == 4:
        return _decompress_zstd(view, limit)
    return bytes(data)


def _library() -> Any:
    import cramjam

    return cramjam


def _check(codec: int, magic: int) -> None:
    if not 0 <= codec < len(NAMES):
        raise UnsupportedCompressionTypeError(f"unknown codec {codec}")
    if codec == 4 and magic < 2:
        raise UnsupportedCompressionTypeError(f"message v{magic} cannot be compressed with zstd")


def _too_large(limit: int) -> CorruptRecordError:
    return CorruptRecordError(f"the batch decompresses to more than {limit} bytes")


def _collect(blocks: Iterator[tuple[int, Callable[[], Data]]], limit: int) -> bytes:
    """Join blocks that each say how much memory they take before they are decompressed."""
    parts: list[Data] = []
    total = 0
    for most, block in blocks:
        if most > limit - total:
            raise _too_large(limit)
        part = _guard(block)
        total += len(part)
        if total > limit:
            raise _too_large(limit)
        parts.append(part)
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


def _guard(work: Callable[[], Data]) -> Data:
    """Turn the library's complaint about damaged bytes into ours."""
    try:
        return work()
    except (_library().DecompressionError, zlib.error) as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> Exception:
    """What a library's complaint means: damage, unless it says that memory ran out."""
    if "not enough memory" in str(error):
        return MemoryError(f"while decompressing: {error}")
    return CorruptRecordError(f"the compressed bytes are damaged: {error}")


# --- gzip ---------------------------------------------------------------------------------


def _decompress_gzip(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    rest: Data = data
    while rest:  # one member after another, as Java's reader takes them
        unpacker = zlib.decompressobj(31)
        while not unpacker.eof:
            if not rest:
                raise CorruptRecordError("the gzip stream ends too early")
            try:
                part = unpacker.decompress(rest, limit - total + 1)
            except zlib.error as error:
                raise CorruptRecordError(f"the compressed bytes are damaged: {error}") from None
            total += len(part)
            if total > limit:
                raise _too_large(limit)
            parts.append(part)
            rest = unpacker.unconsumed_tail
        rest = unpacker.unused_data
    if not parts:
        raise CorruptRecordError("the gzip stream is empty")
    return b"".join(parts)


# --- snappy -------------------------------------------------------------------------------


def _compress_snappy(data: memoryview) -> bytes:
    pack = _library().snappy.compress_raw
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(pack(data[start : start + _XERIAL_BLOCK]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


def _snappy_blocks(data: memoryview) -> Iterator[tuple[int, Callable[[], Data]]]:
    """xerial's chunks, streams of them one after another, or one raw block without framing."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _snappy_block(data)
        return
    position = 0
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # its versions are ignored, as in Java
            if position > len(data):
                raise CorruptRecordError("the snappy stream ends inside its header")
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if size < 0 or size > len(data) - position:
            raise CorruptRecordError("a snappy chunk is longer than the stream")
        yield _snappy_block(data[position : position + size])
        position += size


def _snappy_block(block: memoryview) -> tuple[int, Callable[[], Data]]:
    snappy = _library().snappy
    size = _guard_size(snappy.decompress_raw_len, block)
    if size > _SNAPPY_LONGEST_RUN * len(block):
        raise CorruptRecordError("a snappy block claims more than its bytes can hold")
    return size, partial(snappy.decompress_raw, block)


def _guard_size(measure: Callable[[memoryview], int], block: memoryview) -> int:
    try:
        return measure(block)
    except _library().DecompressionError as error:
        raise CorruptRecordError(f"the compressed bytes are damaged: {error}") from None


# --- lz4 ----------------------------------------------------------------------------------


def _compress_lz4(data: memoryview, magic: int) -> bytes:
    """One frame of independent 64 KiB blocks, without sizes or checksums, as Kafka writes it."""
    pack = _library().lz4.compress_block
    descriptor = b"\x60\x40"
    parts = [_LZ4_MAGIC, descriptor, _lz4_check(descriptor, magic)]
    for start in range(0, len(data), _LZ4_BLOCK):
        raw = data[start : start + _LZ4_BLOCK]
        block: Data = bytes(pack(raw, store_size=False))
        stored = len(block) >= len(raw)
        if stored:
            block = raw
        parts += [(len(block) | stored << 31).to_bytes(4, "little"), bytes(block)]
    return b"".join([*parts, bytes(4)])


def _lz4_check(descriptor: bytes, magic: int) -> bytes:
    """The header check byte; Kafka's v0 wrote it over the frame's magic as well."""
    hashed = _LZ4_MAGIC + descriptor if magic == 0 else descriptor
    return bytes([_xxhash32_of_few(hashed) >> 8 & 0xFF])


def _xxhash32_of_few(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, all that a frame's header needs."""
    word = 0xFFFFFFFF
    value = 0x165667B1 + len(data)
    aligned = len(data) & ~3
    for at in range(0, aligned, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D & word
        value = (value << 17 | value >> 15) * 0x27D4EB2F & word
    for byte in data[aligned:]:
        value = value + byte * 0x165667B1 & word
        value = (value << 11 | value >> 21) * 0x9E3779B1 & word
    value = (value ^ value >> 15) * 0x85EBCA77 & word
    value = (value ^ value >> 13) * 0xC2B2AE3D & word
    return value ^ value >> 16


def _lz4_blocks(data: memoryview, magic: int) -> Iterator[tuple[int, Callable[[], Data]]]:
    """The blocks of one frame. Block checksums are stepped over: the batch's CRC covers them."""
    flags, largest, position = _lz4_header(data, magic)
    buffer = memoryview(bytearray(min(largest, _LZ4_LONGEST_RUN * len(data))))
    trailer = 4 if flags & 0x10 else 0
    while True:
        if position + 4 > len(data):
            raise CorruptRecordError("the lz4 frame ends too early")
        field = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if field == 0:
            return  # what follows (a content checksum, or anything) is not read, as in Kafka
        size = field & 0x7FFFFFFF
        if size > largest or size + trailer > len(data) - position:
            raise CorruptRecordError("an lz4 block is longer than its frame")
        block = data[position : position + size]
        if field >> 31:
            yield size, partial(bytes, block)
        else:
            yield 0, partial(_lz4_block, block, buffer)  # the buffer exists already
        position += size + trailer


def _lz4_block(block: memoryview, buffer: memoryview) -> bytes:
    return bytes(buffer[: _library().lz4.decompress_block_into(block, buffer)])


def _lz4_header(data: memoryview, magic: int) -> tuple[int, int, int]:
    """Flags, largest block, and where the first block starts."""
    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        raise CorruptRecordError("not an lz4 frame")
    flags, block_code = data[4], data[5] >> 4 & 7
    if flags >> 6 != 1 or flags & 0x03 or data[5] & 0x8F or block_code < 4:
        raise CorruptRecordError("an lz4 frame header with reserved bits or an unknown version")
    if not flags & 0x20:
        raise CorruptRecordError("lz4 blocks linked to each other are not legal in Kafka")
    end = 14 if flags & 0x08 else 6  # a content size is stepped over
    if end >= len(data):
        raise CorruptRecordError("the lz4 frame ends inside its header")
    if magic > 0 and bytes(data[end : end + 1]) != _lz4_check(bytes(data[4:end]), magic):
        raise CorruptRecordError("the lz4 header checksum does not match")
    return flags, 1 << (8 + 2 * block_code), end + 1


# --- zstd ---------------------------------------------------------------------------------


def _decompress_zstd(data: memoryview, limit: int) -> bytes:
    """Kafka's frames do not contain their size, so it is bounded by walking the block headers."""
    bound = _zstd_bound(data)
    # One byte beyond the limit distinguishes "exactly the limit" from "more".
    buffer = bytearray(min(bound, limit + 1))
    try:
        size = _library().zstd.decompress_into(data, buffer)
    except _library().DecompressionError as error:
        if bound > limit:
            raise _too_large(limit) from None
        raise _damaged(error) from None
    if size > limit:
        raise _too_large(limit)
    return bytes(memoryview(buffer)[:size])


def _zstd_bound(data: memoryview) -> int:
    """The most that the frames can give, from RFC 8878's frame and block headers."""
    bound = position = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            position += 4 + int.from_bytes(data[position : position + 4], "little")
            continue
        if magic != _ZSTD_MAGIC or position >= len(data):
            raise CorruptRecordError("not a zstd frame")
        descriptor = data[position]
        single = descriptor >> 5 & 1
        position += 1 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
        position += (single, 2, 4, 8)[descriptor >> 6]
        last = False
        while not last:
            if position + 3 > len(data):
                raise CorruptRecordError("the zstd frame ends too early")
            block = int.from_bytes(data[position : position + 3], "little")
            last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            position += 3 + (1 if kind == 1 else size)
            bound += size if kind < 2 else _ZSTD_BLOCK
        position += 4 * (descriptor >> 2 & 1)  # the content checksum
    if position > len(data) or not bound:
        if position > len(data):
            raise CorruptRecordError("the zstd frame ends too early")
        bound = 1
    return bound
