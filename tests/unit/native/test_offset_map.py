"""The cleaner's offset map: the hash, growth in place, its limits, and what collisions would do."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore._native.compaction.offset_map import OffsetMap

SECRET = bytes(range(16))
MASK = (1 << 64) - 1


def sip_2_4_128(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with 128 bits, slowly, from its description."""

    def rotate(x, by):
        return (x << by | x >> (64 - by)) & MASK

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    k = [int.from_bytes(key[n : n + 8], "little") for n in (0, 8)]
    v = [k[n % 2] ^ word for n, word in enumerate((
        0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573,
    ))]  # fmt: skip
    v[1] ^= 0xEE
    full_words = len(data) & ~7
    words = [int.from_bytes(data[n : n + 8], "little") for n in range(0, full_words, 8)]
    words.append((len(data) & 0xFF) << 56 | int.from_bytes(data[full_words:], "little"))
    for word in words:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_the_hash_is_siphash():
    # From the reference implementation's table of vectors.
    keys = OffsetMap(1 << 20, 0.9, SECRET)
    assert keys.hash_of(b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert keys.hash_of(b"\0").hex() == "da87c1d86b99af44347659119b22fc45"


@given(st.binary(max_size=70), st.binary(min_size=16, max_size=16))
def test_the_hash_of_any_bytes_agrees_with_siphash(data, secret):
    assert OffsetMap(1 << 20, 0.9, secret).hash_of(data) == sip_2_4_128(secret, data)


@pytest.mark.parametrize("seed", range(3))
def test_the_offset_map_keeps_the_latest_offset_of_each_key(seed):
    rng = random.Random(seed)
    keys = OffsetMap(24 * 30_000, 0.9, SECRET)
    wanted: dict[bytes, int] = {}
    for offset in range(60_000):
        key = b"%d" % rng.randrange(1 << rng.randrange(1, 15))
        wanted[key] = offset
        assert keys.put(key, offset)
    assert len(keys) == len(wanted)
    assert all(keys.get(key) == offset for key, offset in wanted.items())
    assert keys.get(b"never") == -1


def test_the_offset_map_grows_in_place_to_its_limit_and_no_further():
    keys = OffsetMap(24 * 10_000, 0.9, SECRET)
    assert keys.slots == 10_000
    assert keys.limit == 9000
    sizes = set()
    for offset in range(9000):
        assert keys.put(b"%d" % offset, offset)
        sizes.add(keys.memory)
    assert not keys.put(b"one more", 1)
    assert not keys.put(b"5", 1), "a full map takes nothing, as Kafka's"
    assert keys.get(b"5") == 5
    assert max(sizes) == 240_000
    assert len(sizes) > 1
    assert [keys.get(b"%d" % offset) for offset in range(9000)] == list(range(9000))
    keys.clear()
    assert len(keys) == 0
    assert keys.get(b"5") == -1
    assert keys.put(b"5", 7)


def test_offsets_may_be_any():
    keys = OffsetMap(1 << 12, 0.9, SECRET)
    for offset in (0, 1, 2**31, 2**63 - 2):
        keys.put(b"k", offset)
        assert keys.get(b"k") == offset


def test_a_map_without_room_is_refused():
    for memory, factor, secret in ((24, 0.9, SECRET), (1 << 20, 0, SECRET), (1 << 20, 0.9, b"x")):
        with pytest.raises(ValueError, match=r"too small|load factor|16 bytes"):
            OffsetMap(memory, factor, secret)


def colliding(keys: OffsetMap) -> tuple[bytes, bytes]:
    """Two keys with the same hash in a map that knows few bits of it."""
    seen: dict[bytes, bytes] = {}
    for n in range(100_000):
        key = b"planted %d" % n
        other = seen.setdefault(keys.hash_of(key), key)
        if other is not key:
            return other, key
    raise AssertionError("no collision among 100,000 keys")


def test_planted_collisions_need_the_secret():
    """Who knows the secret and has few bits to beat can plant two keys that are one to the map.

    With another secret the same keys are two, even with as few bits: planting is of no use
    against a secret that is new in every run.
    """
    few = OffsetMap(1 << 16, 0.9, SECRET, hash_bits=24)
    one, other = colliding(few)
    few.put(one, 1)
    few.put(other, 2)
    assert few.get(one) == 2, "the test's own check: this map does mix them up"
    assert OffsetMap(1 << 16, 0.9, SECRET).hash_of(one) != OffsetMap(1 << 16, 0.9, SECRET).hash_of(
        other
    )
    apart = sum(
        (mapped := OffsetMap(1 << 16, 0.9, bytes([n]) * 16, hash_bits=24)).hash_of(one)
        != mapped.hash_of(other)
        for n in range(100)
    )
    assert apart >= 99
