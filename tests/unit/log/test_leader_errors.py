"""What Kafka's leader refuses of a client's batch, and what it lets through."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore._native.append import validate_batch as kernel
from kstore._native.format import crc
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.writer import batch, message, record_v2, variable, variable_bytes

NOW = 1_700_000_000_000
BODY = 61

optional_bytes = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple)
record_lists = st.lists(
    st.tuples(st.integers(NOW - 5000, NOW + 5000), optional_bytes, optional_bytes, headers),
    min_size=1,
    max_size=8,
).map(lambda rows: [PlainRecord(n, *row) for n, row in enumerate(rows)])


def records(count=3, timestamp=NOW, key=b"k"):
    return [PlainRecord(n, timestamp + n, key, b"value %d" % n) for n in range(count)]


def sealed(data: bytes) -> bytes:
    """The batch with a right CRC again."""
    out = bytearray(data)
    struct.pack_into(">I", out, 17, crc.crc32c(data[21:]))
    return bytes(out)


def patched(data: bytes, position: int, form: str, *values: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(form, out, position, *values)
    return sealed(bytes(out))


def with_body(body: bytes, count: int) -> bytes:
    """A batch whose records are the given bytes, whatever they are."""
    head = bytearray(batch(records(1))[:BODY])
    struct.pack_into(">i", head, 8, BODY - 12 + len(body))
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">i", head, 57, count)
    return sealed(bytes(head) + body)


def check(data: bytes, **rules) -> str:
    return kernel.validate_leader(data, now=NOW, **rules).status_name


@given(rows=record_lists)
def test_a_valid_batch_passes_and_its_largest_timestamp_is_found(rows):
    data = batch(rows)
    report = kernel.validate_leader(data, now=NOW)
    assert (report.status_name, report.ok) == ("OK", True)
    assert (report.size, report.count, report.last_offset) == (len(data), len(rows), len(rows) - 1)
    assert report.max_timestamp == max(row.timestamp for row in rows)
    assert not report.restamp
    assert (report.bad_position, report.bad_record) == (-1, -1)
    alone = kernel.validate_records(
        data[BODY:],
        count=len(rows),
        now=NOW,
        base_timestamp=rows[0].timestamp,
        max_timestamp=report.max_timestamp,
    )
    assert (alone.status_name, alone.max_timestamp) == ("OK", report.max_timestamp)


def test_validation_ends_with_the_batch():
    data = batch(records())
    report = kernel.validate_leader(data + b"next batch", now=NOW)
    assert (report.ok, report.size) == (True, len(data))


def test_every_cut_is_a_tail():
    data = batch(records())
    for end in range(len(data)):
        assert check(data[:end]) == "TRUNCATED"


def test_every_flipped_bit_is_refused_or_outside_the_crc():
    data = batch(records())
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        status = check(bytes(flipped))
        if 12 <= bit >> 3 < 16:  # the leader's own field
            assert status == "OK"
        else:
            assert status != "OK", bit


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (batch([r._replace(offset=r.offset + 1) for r in records()]), "BAD_BASE_OFFSET"),
        (batch(records(), control=True), "CONTROL_BATCH"),
        (batch(records(), producer_id=5, producer_epoch=0), "BAD_SEQUENCE"),
        (batch(records(), producer_id=-2), "BAD_SEQUENCE"),
        (patched(batch(records()), 57, ">i", 0), "BAD_COUNT"),
        (patched(batch(records()), 57, ">i", -1), "BAD_COUNT"),
        (patched(batch(records()), 57, ">i", 4), "BAD_COUNT"),
        (patched(batch(records()), 57, ">i", 2), "BAD_COUNT"),
        (patched(batch(records()), 23, ">i", 1), "BAD_COUNT"),
        (patched(batch(records()), 23, ">i", 3, *()), "BAD_COUNT"),
        (patched(batch(records()), 23, ">i", -1), "BAD_COUNT"),
        (patched(batch(records()), 21, ">h", 5), "BAD_CODEC"),
        (patched(batch(records()), 21, ">h", 7), "BAD_CODEC"),
        (message(0, b"k", b"v", magic=0), "BAD_MAGIC"),
        (message(0, b"k", b"v", magic=1), "BAD_MAGIC"),
        (patched(batch(records()), 16, "b", 3), "BAD_MAGIC"),
        (patched(batch(records()), 8, ">i", 48), "BAD_SIZE"),
        (patched(batch(records()), 8, ">i", -1), "BAD_SIZE"),
        (bytes(100), "BAD_MAGIC"),
        (b"", "TRUNCATED"),
    ],
)
def test_headers_that_are_refused(data, status):
    assert check(data) == status


def test_what_only_a_client_may_not_do():
    data = batch(records(), control=True, producer_id=5, transactional=True)
    data = patched(data, 0, ">q", 700)
    report = kernel.validate_leader(data, now=NOW, from_client=False)
    assert (report.status_name, report.base_offset, report.last_offset) == ("OK", 700, 702)


def test_size_limit_is_of_the_batch_and_comes_before_the_checksum():
    data = batch(records())
    assert check(data, max_message_bytes=len(data)) == "OK"
    assert check(data, max_message_bytes=len(data) - 1) == "MESSAGE_TOO_LARGE"
    assert check(data[:-1] + b"?", max_message_bytes=len(data) - 1) == "MESSAGE_TOO_LARGE"
    assert check(data[:-1] + b"?") == "BAD_CRC"


def one(body: bytes) -> bytes:
    return variable(len(body)) + body


GOOD = record_v2(records(1)[0], 0, NOW)
FIELDS = b"\x00" + variable(0) + variable(0)


@pytest.mark.parametrize(
    ("body", "count", "status", "index"),
    [
        (GOOD + GOOD, 2, "BAD_OFFSET", 1),  # delta 0 twice
        (GOOD + b"\x00", 1, "TRAILING_BYTES", -1),
        (GOOD[:-1], 1, "BAD_RECORD_SIZE", 0),
        (b"", 1, "BAD_COUNT", 0),
        (GOOD, 2, "BAD_COUNT", 1),
        (variable(-1), 1, "BAD_RECORD_SIZE", 0),
        (variable(5) + GOOD, 1, "BAD_RECORD_SIZE", 0),
        (variable(2**31 - 1) + GOOD, 1, "BAD_RECORD_SIZE", 0),
        (b"\xff\xff\xff\xff\xff\x01" + GOOD, 1, "MALFORMED_VARINT", 0),
        (b"\x80", 1, "BAD_RECORD_SIZE", 0),
        (one(FIELDS + variable(-2) + b"\x01\x00"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + variable(9) + b"\x01\x00"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + variable(-1) + variable(3) + b"ab"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + variable(-1) + variable(-2) + b"\x00"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01" + variable(-1)), 1, "BAD_LENGTH", 0),  # header count
        (one(FIELDS + b"\x01\x01" + variable(2) + b"\x00"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01" + variable(2**31 - 1)), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01\x02" + variable(-1) + b"\x01"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01\x02" + variable(5) + b"ab"), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01\x02" + variable_bytes(b"a") + variable(4)), 1, "BAD_LENGTH", 0),
        (one(FIELDS + b"\x01\x01\x02" + variable_bytes(b"a")), 1, "BAD_RECORD_SIZE", 0),
        (one(FIELDS + b"\x01\x01\x00\x00"), 1, "BAD_RECORD_SIZE", 0),  # a byte too many
        (one(b"\x00" + b"\xff" * 10 + b"\x01" + FIELDS), 1, "MALFORMED_VARINT", 0),
        (one(FIELDS + b"\x01\x01\x00"), 1, "OK", -1),
        (one(b"\x7f" + FIELDS[1:] + b"\x01\x01\x00"), 1, "OK", -1),  # attributes: not checked
        (one(FIELDS + b"\x01\x01" + variable(1) + b"\x00\x01"), 1, "OK", -1),  # "" -> null
    ],
)
def test_records_that_are_refused(body, count, status, index):
    report = kernel.validate_leader(with_body(body, count), now=NOW)
    assert (report.status_name, report.bad_record) == (status, index)
    alone = kernel.validate_records(
        body, count=count, now=NOW, base_timestamp=NOW, max_timestamp=NOW
    )
    assert (alone.status_name, alone.bad_record) == (status, index)
    if report.bad_position >= 0:
        assert report.bad_position == alone.bad_position + BODY


def test_every_truncation_and_flip_of_the_records_is_valid_or_an_error():
    """Without a checksum in the way: any bytes give a status and nothing outside is read."""
    rows = [PlainRecord(n, NOW, b"k" * n, b"v" * 70, (("h", b"x"), ("", None))) for n in range(3)]
    body = batch(rows)[BODY:]
    rules = {"count": 3, "now": NOW, "base_timestamp": NOW, "max_timestamp": NOW}
    for end in range(len(body)):
        assert not kernel.validate_records(bytes(body[:end]), **rules).ok
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        report = kernel.validate_records(flipped, **rules)
        assert report.ok or report.bad_position <= len(body)


@given(body=st.binary(max_size=120), count=st.integers(-2, 5))
def test_any_bytes_are_valid_or_have_a_bad_position(body, count):
    report = kernel.validate_records(
        body, count=count, now=NOW, base_timestamp=NOW, max_timestamp=NOW
    )
    assert report.ok == (report.bad_position < 0)


def sound_delta(body: bytes, offset_delta: int = 0) -> int | None:
    """The timestamp delta if the bytes are one complete record, read slowly as the format says."""
    at = 0

    def number(most: int) -> int:
        nonlocal at
        raw = shift = 0
        while True:
            raw |= (body[at] & 0x7F) << shift
            at += 1
            shift += 7
            if body[at - 1] < 0x80:
                assert raw < 1 << 7 * most
                raw &= 0xFFFFFFFF if most == 5 else 2**64 - 1
                return raw >> 1 ^ -(raw & 1)
            assert shift < 7 * most

    def skip(size: int, lowest: int) -> None:
        nonlocal at
        assert lowest <= size <= len(body) - at
        at += max(size, 0)

    try:
        assert number(5) == len(body) - at
        at += 1
        timestamp_delta = number(10)
        assert number(5) == offset_delta
        skip(number(5), -1)
        skip(number(5), -1)
        count = number(5)
        assert count >= 0
        for _ in range(count):
            skip(number(5), 0)
            skip(number(5), -1)
        assert at == len(body)
    except (AssertionError, IndexError):
        return None
    return timestamp_delta


def test_a_mutated_record_gives_the_same_error_at_every_position():
    """There is a quick reader, for records that others follow, and a slow one: same answers."""
    rng = random.Random(11)
    follower = record_v2(PlainRecord(1, NOW, b"k" * 40, b"v" * 40), 0, NOW)
    rules = {"now": NOW, "base_timestamp": NOW, "max_timestamp": NOW}
    sound = mutated = 0
    for n in range(6000):
        key, value = (rng.choice((None, b"", b"k" * rng.randrange(90))) for _ in range(2))
        pairs = tuple(
            ("h" * rng.randrange(4), rng.choice((None, b"", b"x" * rng.randrange(70))))
            for _ in range(rng.randrange(4))
        )
        record = bytearray(record_v2(PlainRecord(0, NOW, key, value, pairs), 0, NOW))
        for _ in range(rng.choice((0, 1, 1, 2))):
            record[rng.randrange(len(record))] = rng.choice((0, 1, 2, 3, 128, rng.randrange(256)))
            mutated += 1
        # A size that was changed may take in the record behind it, or leave bytes over.
        alone = kernel.validate_records(bytes(record), count=1, **rules).ok
        followed = kernel.validate_records(bytes(record) + follower, count=2, **rules).ok
        assert alone == followed == (sound_delta(bytes(record)) is not None), (n, bytes(record))
        sound += alone
    assert sound > 1000
    assert mutated > 4000


def test_a_mutated_record_is_judged_the_same_among_others_of_its_shape():
    """Records like the ones before them are compared, not walked: nothing may hide in that."""
    rng = random.Random(12)
    rules = {"now": NOW, "base_timestamp": NOW, "max_timestamp": NOW}
    passed = refused = 0
    for n in range(2500):
        sizes = [rng.choice((None, 0, 3, 20, 70, 130)) for _ in range(2)]
        pairs = tuple(
            ("h" * rng.choice((0, 2, 5, 70)), rng.choice((None, b"", b"x" * 9, b"x" * 90)))
            for _ in range(rng.choice((0, 0, 1, 1, 2, 5, 16)))
        )
        spread = rng.choice((7, 64, 100, 10_000, 10**7, 2**40))
        count = rng.choice((5, 12, 12, 12, 75))
        rows = [
            PlainRecord(i, NOW + rng.randrange(spread), *map(content(rng), sizes), pairs)
            for i in range(count)
        ]
        run = [bytearray(record_v2(row, 0, NOW)) for row in rows]
        largest = max(row.timestamp for row in rows)
        report = kernel.validate_records(b"".join(run), count=count, **rules)
        assert (report.ok, report.max_timestamp) == (True, largest), n
        bad = rng.randrange(3, count)
        record = run[bad]
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(rng.choice((7, min(40, len(record)), len(record))))
            record[rng.choice((at, -1 - at))] ^= rng.choice((1, 2, 4, 128, 255))
        delta = sound_delta(bytes(record), bad)
        report = kernel.validate_records(b"".join(run), count=count, **rules)
        assert report.ok == (delta is not None), (n, bad, bytes(record))
        if delta is None:
            assert report.bad_record >= bad
            refused += 1
        else:
            rest = [row.timestamp for row in rows if row.offset != bad]
            assert report.max_timestamp == max(-1, NOW + delta, *rest)
            passed += 1
    assert passed > 500
    assert refused > 500


def content(rng):
    return lambda size: None if size is None else rng.randbytes(size)


@pytest.mark.parametrize(
    ("timestamp", "rules", "status"),
    [
        (NOW - 1000, {"before_max": 1000}, "OK"),
        (NOW - 1001, {"before_max": 1000}, "BAD_TIMESTAMP"),
        (NOW + 500, {"after_max": 500}, "OK"),
        (NOW + 501, {"after_max": 500}, "BAD_TIMESTAMP"),
        (0, {}, "OK"),
        (2**63 - 1, {}, "OK"),
        (-(2**63), {}, "OK"),
        (2**63 - 1, {"after_max": 0}, "BAD_TIMESTAMP"),
        (-1, {"before_max": 0, "after_max": 0}, "OK"),  # none at all
        (-2, {"before_max": 0, "after_max": 0}, "BAD_TIMESTAMP"),
        (0, {"before_max": 0, "log_append_time": True}, "OK"),
    ],
)
def test_timestamps_outside_the_allowed_range_are_refused(timestamp, rules, status):
    assert check(batch([PlainRecord(0, timestamp, b"k", b"v")]), **rules) == status


def test_a_clients_log_append_time_flag():
    """Kafka's rule: refused where the topic would set it itself or the timestamp is none;
    on a CreateTime topic every record has the header's max timestamp, and the flag is cleared."""
    data = batch(records(), timestamp_type=LOG_APPEND_TIME)
    assert check(data, log_append_time=True) == "BAD_TIMESTAMP"
    report = kernel.validate_leader(data, now=NOW)
    assert (report.status_name, report.max_timestamp, report.restamp) == ("OK", NOW + 2, True)
    assert check(batch(records(), timestamp_type=LOG_APPEND_TIME, max_timestamp=-1)) == (
        "BAD_TIMESTAMP"
    )
    assert check(data, after_max=1) == "BAD_TIMESTAMP"


def test_a_timestamp_error_precedes_a_key_error_and_a_malformed_record_both():
    rows = records(3, key=None)
    assert check(batch(rows)) == "OK"
    report = kernel.validate_leader(batch(rows), now=NOW, key_required=True)
    assert (report.status_name, report.bad_record) == ("MISSING_KEY", 0)
    rows[2] = PlainRecord(2, NOW + 99, b"key", b"")
    report = kernel.validate_leader(batch(rows), now=NOW, key_required=True, after_max=5)
    assert (report.status_name, report.bad_record) == ("BAD_TIMESTAMP", 2)
    body = batch(rows)[BODY:] + b"\x01"
    report = kernel.validate_leader(with_body(body, 4), now=NOW, key_required=True, after_max=5)
    assert (report.status_name, report.bad_record) == ("BAD_RECORD_SIZE", 3)


def test_header_whose_max_timestamp_is_wrong_is_reported():
    data = bytearray(batch(records(), max_timestamp=NOW + 77))
    report = kernel.validate_leader(data, now=NOW)
    assert (report.ok, report.restamp, report.max_timestamp) == (True, True, NOW + 2)


def test_a_batch_for_log_append_time_is_reported():
    data = bytearray(batch(records()))
    report = kernel.validate_leader(data, now=NOW + 9, log_append_time=True)
    assert (report.ok, report.restamp, report.max_timestamp) == (True, True, NOW + 9)


def test_compressed_batches_are_left_to_validate_records():
    report = kernel.validate_leader(batch(records(), codec=1), now=NOW)
    assert (report.status_name, report.attributes & 7, report.max_timestamp) == ("OK", 1, -1)


def test_large_batches_of_every_varint_length():
    rng = random.Random(7)
    rows = [
        PlainRecord(n, NOW + rng.choice((0, 70, 9000, 2**40)), None, rng.randbytes(n % 300))
        for n in range(20_000)
    ]
    report = kernel.validate_leader(batch(rows), now=NOW)
    assert (report.status_name, report.count) == ("OK", 20_000)
    assert report.max_timestamp == NOW + 2**40
