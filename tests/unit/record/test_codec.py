"""Codecs against the oracle's, other framings that clients write, and hostile streams."""

import gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.errors import CorruptRecordError, UnsupportedCompressionTypeError
from kstore.record import codec
from oracle import codec as oracle

LEGAL = [(c, magic) for c in range(1, 5) for magic in range(3) if c < 4 or magic == 2]
TEXT = b"hello hello hello"


@pytest.mark.parametrize(("which", "magic"), LEGAL)
@given(data=st.binary(max_size=300), repeat=st.integers(1, 700))
@settings(max_examples=30)
def test_compressed_data_is_read_by_the_oracle_and_back(which, magic, data, repeat):
    data *= repeat
    ours = codec.compress(which, magic, data)
    assert codec.decompress(which, magic, ours) == data
    assert oracle.decompress(which, ours, magic) == data
    theirs = oracle.compress(which, data, magic)
    assert codec.decompress(which, magic, theirs) == data


def test_worked_examples_of_framing():
    snappy = codec.compress(2, 2, TEXT).hex()
    assert snappy.startswith("82534e41505059000000000100000001")
    assert codec.compress(3, 0, b"abc").hex() == "04224d1860401a" + "03000080616263" + "00000000"
    assert codec.compress(3, 2, b"abc").hex() == "04224d18604082" + "03000080616263" + "00000000"


def test_the_wrong_lz4_checksum_of_v0_is_accepted_in_v0_only():
    wrong = codec.compress(3, 0, TEXT)
    assert codec.decompress(3, 0, wrong) == TEXT
    assert codec.decompress(3, 0, codec.compress(3, 1, TEXT)) == TEXT
    with pytest.raises(CorruptRecordError):
        codec.decompress(3, 1, wrong)


@pytest.mark.parametrize("content_checksum", [True, False])
def test_lz4_frames_of_another_writer_are_decompressed(content_checksum):
    data = TEXT * 20_000
    packer = cramjam.lz4.Compressor(block_linked=False, content_checksum=content_checksum)
    packer.compress(data)
    assert codec.decompress(3, 2, bytes(packer.finish())) == data


def test_linked_lz4_blocks_are_refused_by_name():
    with pytest.raises(CorruptRecordError, match="linked"):
        codec.decompress(3, 2, bytes(cramjam.lz4.compress(TEXT * 20_000)))


def test_snappy_without_framing_and_concatenated():
    assert codec.decompress(2, 2, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    framed = codec.compress(2, 2, TEXT)
    assert codec.decompress(2, 2, framed + framed) == TEXT * 2


def test_gzip_members_one_after_another():
    assert codec.decompress(1, 2, gzip.compress(TEXT) + gzip.compress(b"!")) == TEXT + b"!"


def test_zstd_frames_with_checksum_and_skippable_ones():
    frame = bytes(cramjam.zstd.compress(TEXT))
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert codec.decompress(4, 2, skippable + frame + frame) == TEXT * 2


@pytest.mark.parametrize(("which", "magic"), [(5, 2), (7, 2), (-1, 2), (4, 1), (4, 0)])
def test_a_codec_that_the_format_does_not_have_is_refused(which, magic):
    with pytest.raises(UnsupportedCompressionTypeError):
        codec.decompress(which, magic, TEXT)
    with pytest.raises(UnsupportedCompressionTypeError):
        codec.compress(which, magic, TEXT)


def test_codecs_have_kafkas_names_and_ids():
    assert [codec.codec_id(name) for name in codec.NAMES] == [0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedCompressionTypeError):
        codec.codec_id("brotli")


@pytest.mark.parametrize(("which", "magic"), [(1, 2), (2, 2), (3, 2), (4, 2)])
def test_every_cut_and_bit_flip_is_an_error_or_an_answer(which, magic):
    packed = codec.compress(which, magic, TEXT * 3)
    for cut in range(len(packed)):
        try:
            assert codec.decompress(which, magic, packed[:cut]) != TEXT * 3
        except CorruptRecordError:
            pass
        else:
            assert which == 2  # xerial's stream may end after any chunk
    refused = 0
    for bit in range(8 * len(packed)):
        data = bytearray(packed)
        data[bit // 8] ^= 1 << bit % 8
        try:
            codec.decompress(which, magic, bytes(data))
        except CorruptRecordError:
            refused += 1
    assert refused


@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_a_decompression_limit_also_limits_memory(which):
    data = bytes(32 << 20)
    packed = codec.compress(which, 2, data)
    assert codec.decompress(which, 2, packed, limit=len(data)) == data
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match="more than"):
            codec.decompress(which, 2, packed, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_a_snappy_length_that_lies():
    with pytest.raises(CorruptRecordError):
        codec.decompress(2, 2, b"\xff\xff\xff\xff\x0f" + TEXT)


@pytest.mark.parametrize("which", [1, 2, 3, 4])
@given(data=st.binary(max_size=100))
def test_random_bytes_are_refused_by_every_codec_with_a_checksum(which, data):
    try:
        codec.decompress(which, 2, data)
    except CorruptRecordError:
        refused = True
    else:
        refused = False
    assert refused or which in (2, 4)
