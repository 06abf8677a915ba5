"""Compiled loops: kernels by symbol, bounds on cut files, filters, windows, the code cache."""

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore import jit
from kstore._native.format import murmur2
from kstore._native.index import index_lookup
from oracle import writer
from oracle.plain import LOG_APPEND_TIME, PlainRecord

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "numba.md"
INT64S = st.integers(-(2**63), 2**63 - 1)


def as_bytes(data):
    return np.frombuffer(data, np.uint8)


def records(first, count, *, time=1_700_000_000_000):
    return [
        PlainRecord(n, time + n, b"k%d" % (n % 7), b"v" * (n % 50 + 20))
        for n in range(first, first + count)
    ]


def segment(base=1000, batches=40, per_batch=9):
    """A log, its index (every third batch) and the position of every batch."""
    log, entries, starts = b"", [], []
    for n in range(batches):
        content = records(base + n * per_batch, per_batch)
        starts.append((content[-1].offset, len(log)))
        if n and n % 3 == 0:
            entries.append(starts[-1])
        log += writer.batch(content)
    return log, writer.offset_index(entries, base), starts


def example(name, directory):
    """A program of the guide, as a module with a file of its own."""
    text = GUIDE.read_text()
    code = re.search(rf'```python title="{name}.py"\n(.*?)```', text, re.DOTALL).group(1)
    path = directory / f"{name}.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    directory = tmp_path_factory.mktemp("guide")
    return SimpleNamespace(
        reach=example("reach", directory).reach,
        mapped=example("reach", directory).mapped,
        value_bytes_by_key=example("values", directory).value_bytes_by_key,
    )


# --- the example of the guide ---------------------------------------------------------------


def test_the_example_reaches_every_offset(guide, tmp_path):
    log, entries, _ = segment()
    (tmp_path / "log").write_bytes(log)
    (tmp_path / "index").write_bytes(entries + bytes(800))
    mapped = guide.mapped(tmp_path / "log"), guide.mapped(tmp_path / "index")
    offsets = np.arange(1000, 1000 + 40 * 9)
    assert guide.reach(*mapped, 1000, offsets) == (360, 0, 0, 360 * 9)
    assert guide.reach(*mapped, 1000, np.array([999, 1360, 2**62])) == (1, 0, 2, 9)


def test_the_example_counts_damage(guide):
    log, entries, starts = segment()
    damaged = bytearray(log)
    damaged[starts[10][1] + 70] ^= 1
    offsets = np.arange(1000, 1000 + 40 * 9)
    assert guide.reach(as_bytes(damaged), as_bytes(entries), 1000, offsets) == (351, 9, 0, 3159)


def test_the_example_keeps_its_bounds_at_every_cut(guide):
    log, entries, starts = segment(batches=7, per_batch=2)
    offsets = np.arange(1000, 1014)
    for cut in range(len(log) + 1):
        # The end of the array is the end of the memory that may be read.
        complete = sum(end <= cut for end in [*(at for _, at in starts[1:]), len(log)])
        found = guide.reach(as_bytes(log[:cut]), as_bytes(entries), 1000, offsets)
        assert found == (2 * complete, 0, 14 - 2 * complete, 4 * complete)


@given(st.binary(max_size=300), st.binary(max_size=80), st.lists(INT64S, max_size=8))
@settings(max_examples=200, deadline=None)
def test_a_search_of_hostile_bytes_ends_with_a_result_for_each_offset(guide, log, entries, offsets):
    asked = np.array([*offsets, 0, 1], np.int64)
    found, damaged, missing, _ = guide.reach(as_bytes(log), as_bytes(entries), 0, asked)
    assert found + damaged + missing == asked.size


def test_value_bytes_by_key_adds_up_one_key(guide):
    log, _, _ = segment()
    expected = sum(len(r.value) for r in records(1000, 360) if r.key == b"k3")
    assert guide.value_bytes_by_key(as_bytes(log), b"k3") == expected
    assert guide.value_bytes_by_key(as_bytes(log[:-1]), b"no such") == 0


# --- single kernels --------------------------------------------------------------------------


def test_next_frame_has_the_fields_of_the_header():
    content = records(50, 4)
    frame = jit.next_frame(as_bytes(b"xx" + writer.batch(content, leader_epoch=6)), 2)
    size = len(writer.batch(content))
    assert frame == jit.Frame(
        0, 2 + size, 50, 53, 4, content[0].timestamp, content[-1].timestamp, 2, 0, 6
    )
    old = writer.message(9, b"k", b"v", magic=1, timestamp=77)
    frame = jit.next_frame(as_bytes(old), 0)
    assert (frame.status, frame.end, frame.magic, frame.max_timestamp) == (0, len(old), 1, 77)
    assert jit.crc_ok(as_bytes(old), 0)


@pytest.mark.parametrize("position", [-1, -(2**63), 81, 2**63 - 1])
def test_positions_outside_the_data_have_no_frame(position):
    data = as_bytes(writer.batch(records(0, 1))[:80])
    assert jit.next_frame(data, position)[:2] == (1, position)
    assert jit.crc_ok(data, position) is False


def test_records_of_a_batch():
    content = [
        PlainRecord(5, 100, None, b""),
        PlainRecord(6, 90, b"", None, (("h", b"1"), ("i", None))),
        PlainRecord(9, 3, b"key", b"value"),
    ]
    data = as_bytes(writer.batch(content))
    frame = jit.next_frame(data, 0)
    at, read = 61, []
    while at < frame.end:
        record = jit.next_record(data, at, frame)
        assert record.status == 0
        key, value = (
            None if size < 0 else bytes(data[start : start + size])
            for start, size in (
                (record.key_position, record.key_length),
                (record.value_position, record.value_length),
            )
        )
        read.append((record.offset, record.timestamp, key, value))
        at = record.end
    assert read == [record[:4] for record in content]
    assert jit.next_record(data, at, frame)[:2] == (1, at)


def test_log_append_time_is_that_of_the_batch():
    data = as_bytes(writer.batch(records(0, 2), timestamp_type=LOG_APPEND_TIME, max_timestamp=8))
    assert jit.next_record(data, 61, jit.next_frame(data, 0)).timestamp == 8


def test_records_of_other_batches_are_refused_by_status():
    packed = as_bytes(writer.batch(records(0, 9), codec=1))
    assert jit.next_record(packed, 61, jit.next_frame(packed, 0)).status == 10
    old = as_bytes(writer.message(9, b"k", b"v", magic=1, timestamp=77))
    assert jit.next_record(old, 61, jit.next_frame(old, 0)).status == 4
    for position in (-1, 0, 60, 10**9):
        data = as_bytes(writer.batch(records(0, 1)))
        assert jit.next_record(data, position, jit.next_frame(data, 0)).status != 0


@given(st.binary(min_size=1, max_size=60), st.data())
@settings(max_examples=150, deadline=None)
def test_hostile_records_stay_within_the_batch(body, data):
    raw = as_bytes(writer.batch(records(0, 1))[:61] + body)
    frame = jit.Frame(0, raw.size, 0, 9, 9, 0, 0, 2, 0, 0)
    record = jit.next_record(raw, data.draw(st.integers(61, raw.size)), frame)
    if record.status == 0:
        for at, size in (record[4:6], record[6:8]):
            assert size == -1 or 61 <= at <= at + size <= raw.size
    assert record.end <= raw.size


@given(st.sets(st.integers(1, 2**31 - 1), max_size=50), INT64S, st.integers(-3, 60))
@settings(max_examples=150, deadline=None)
def test_index_search_is_that_of_the_index(slots, target, count):
    base = 100
    content = b"".join(struct.pack(">ii", key, n + 1) for n, key in enumerate(sorted(slots)))
    used = count if 0 <= count <= len(slots) else len(slots)
    for offset in (target, base + (max(slots, default=0)) // 2):
        assert jit.index_lookup(as_bytes(content), count, base, offset) == index_lookup.OffsetIndex(
            content, base, used
        ).lookup(offset)
    assert jit.index_count(as_bytes(content + bytes(80))) == len(slots)


def test_time_lookup_agrees_with_the_time_index():
    content = b"".join(struct.pack(">qi", 10 * n + 5, 3 * n) for n in range(500))
    count = jit.time_index_count(as_bytes(content + bytes(1200)))
    assert count == 500
    for time in (0, 5, 14, 15, 2000, 10**15):
        expected = index_lookup.TimeIndex(content, 70).lookup(time)
        assert jit.time_lookup(as_bytes(content), count, 70, time) == expected


@given(st.binary(max_size=40), INT64S, INT64S)
@settings(deadline=None)
def test_hash_and_checksum_are_the_kernels(data, position, length):
    array = as_bytes(data or b"x")
    assert jit.key_hash(array, 0, len(data)) == murmur2.murmur2(data)
    inside = 0 <= length <= array.size - position and position >= 0
    assert (jit.crc32c(array, position, length) >= 0) == inside
    assert jit.key_hash(array, 0, -1) == 0


def test_other_arrays_are_refused_when_compiled():
    with pytest.raises(numba.errors.TypingError, match="uint8"):
        jit.next_frame(np.zeros(80, np.int64), 0)
    with pytest.raises(numba.errors.TypingError, match="uint8"):
        jit.next_frame(np.zeros(80, np.uint8)[::2], 0)
    with pytest.raises(numba.errors.TypingError, match="integers"):
        jit.next_frame(np.zeros(80, np.uint8), 1.5)


# --- filters ---------------------------------------------------------------------------------


def ragged(column):
    data = b"#" + b"".join(item or b"" for item in column)
    sizes = np.array([-1 if item is None else len(item) for item in column], np.int32)
    ends = 1 + np.cumsum(np.maximum(sizes, 0, dtype=np.int64))
    return SimpleNamespace(
        data=memoryview(data), positions=ends - np.maximum(sizes, 0), lengths=sizes
    )


def columns(rows):
    return SimpleNamespace(
        offsets=np.array([row[0] for row in rows], np.int64),
        timestamps=np.array([row[1] for row in rows], np.int64),
        keys=ragged([row[2] for row in rows]),
        values=ragged([row[3] for row in rows]),
    )


MAYBE = st.one_of(st.none(), st.binary(max_size=6))
LIMIT = 10


def keep(row):
    if row.value_length < 0:
        return False
    return row.timestamp >= LIMIT and (row.key_length > 2 or jit.contains(row.value, b"\x00"))


PREDICATE = jit.compile_predicate(keep)


@given(st.lists(st.tuples(INT64S, INT64S, MAYBE, MAYBE), max_size=20))
@settings(max_examples=100, deadline=None)
def test_predicate_keeps_what_plain_python_keeps(rows):
    expected = [
        n
        for n, (_, time, key, value) in enumerate(rows)
        if value is not None and time >= 10 and (len(key or b"") > 2 or b"\x00" in value)
    ]
    assert PREDICATE.rows(columns(rows)).tolist() == expected


def test_lambdas_and_jitted_functions_are_predicates():
    rows = columns([(n, n * 10, b"a%d" % n, b"v" * n) for n in range(10)])
    limit = 70
    plain = jit.compile_predicate(lambda row: row.timestamp >= limit)
    assert plain.rows(rows).tolist() == [7, 8, 9]
    jitted = numba.njit(lambda row: jit.equals(row.key, b"a4") or row.value.size == 2)
    assert jit.compile_predicate(jitted).rows(rows).tolist() == [2, 4]
    assert jit.compile_predicate(
        lambda row: jit.starts_with(row.key, b"a") and row.offset % 5 == 0
    ).rows(rows).tolist() == [0, 5]


def test_predicates_that_differ_only_in_an_outer_value_are_distinguished():
    rows = columns([(n, n, None, None) for n in range(10)])

    def below(limit):
        return jit.compile_predicate(lambda row: row.offset < limit)

    assert below(3).rows(rows).tolist() == [0, 1, 2]
    assert below(5).rows(rows).tolist() == [0, 1, 2, 3, 4]


def test_predicate_that_cannot_be_compiled():
    rows = columns([(1, 1, None, None)])
    with pytest.raises(TypeError, match="cannot be compiled"):
        jit.compile_predicate(lambda row: row.nothing > 1).rows(rows)


def test_a_predicate_over_a_mutable_outer_value_is_not_cached():
    allowed = np.array([3, 4])
    predicate = jit.compile_predicate(lambda row: row.offset in allowed)
    rows = columns([(n, n, None, None) for n in range(6)])
    assert predicate.rows(rows).tolist() == [3, 4]
    assert predicate.loop.stats.cache_path is None


@pytest.mark.parametrize(("position", "length"), [(-1, 2), (0, 8), (2**62, 1), (7, 1)])
def test_columns_that_point_outside_their_data_are_refused(position, length):
    rows = columns([(1, 1, b"abcdef", None)])
    rows.keys.positions[0] = position
    rows.keys.lengths[0] = length
    with pytest.raises(IndexError):
        jit.compile_predicate(lambda row: row.key.size > 0).rows(rows)
    with pytest.raises(IndexError):
        jit.group_by_key(as_bytes(rows.keys.data), rows.keys.positions, rows.keys.lengths)


def test_columns_of_different_lengths_are_refused():
    rows = columns([(1, 1, b"a", None), (2, 2, b"b", None)])
    rows.timestamps = rows.timestamps[:1]
    with pytest.raises(ValueError, match="differ"):
        PREDICATE.rows(rows)


@given(st.lists(INT64S, max_size=30), INT64S, INT64S)
@settings(max_examples=50, deadline=None)
def test_rows_between_are_those_of_a_loop(column, start, stop):
    rows = jit.rows_between(np.array(column, np.int64), start, stop)
    assert rows.tolist() == [n for n, number in enumerate(column) if start <= number < stop]


# --- windows, groups, the largest -------------------------------------------------------------

SMALL = st.integers(-(10**6), 10**6)


@given(st.lists(st.tuples(st.one_of(SMALL, st.integers(-(2**62), 2**62)), SMALL), max_size=300))
@settings(max_examples=60, deadline=None)
def test_tumbling_windows_are_those_of_a_loop(rows):
    width = 1000
    expected = {}
    for time, value in rows:
        expected.setdefault(time // width * width, []).append(value)
    windows = jit.tumbling(
        np.array([time for time, _ in rows], np.int64),
        np.array([value for _, value in rows], np.int64),
        width,
    )
    assert list(zip(*(column.tolist() for column in windows), strict=True)) == [
        (start, len(values), sum(values), min(values), max(values))
        for start, values in sorted(expected.items())
    ]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=2)), max_size=400))
@settings(max_examples=60, deadline=None)
def test_group_by_key_numbers_keys_by_first_appearance(column):
    column_data = ragged(column)
    groups = jit.group_by_key(
        as_bytes(column_data.data), column_data.positions, column_data.lengths
    )
    order = list(dict.fromkeys(column))
    assert [column[row] for row in groups.first] == order
    assert [order[group] for group in groups.group] == column
    values = np.arange(len(column))
    rows, sums = jit.sum_by_group(groups.group, values, len(order))
    assert rows.tolist() == [Counter(column)[key] for key in order]
    assert sums.tolist() == [
        sum(n for n, other in enumerate(column) if other == key) for key in order
    ]


@given(st.lists(st.integers(-5, 5) | INT64S, max_size=60), st.integers(-2, 70))
@settings(max_examples=100, deadline=None)
def test_top_k_are_the_first_of_a_sorted_list(values, k):
    expected = sorted(range(len(values)), key=lambda row: (-values[row], row))[: max(k, 0)]
    assert jit.top_k(np.array(values, np.int64), k).tolist() == expected


def test_wrong_arguments_of_aggregates():
    two, one = np.arange(2), np.arange(1)
    with pytest.raises(ValueError, match="at least 1"):
        jit.tumbling(two, two, 0)
    with pytest.raises(ValueError, match="differ"):
        jit.tumbling(two, one, 1)
    with pytest.raises(ValueError, match="differ"):
        jit.sum_by_group(two, one, 2)
    with pytest.raises(IndexError):
        jit.sum_by_group(two, two, 1)


# --- the code cache ---------------------------------------------------------------------------

PROGRAM = """
import json, sys
import numpy as np
from types import SimpleNamespace as Space
import reach
from kstore import jit

log = np.frombuffer(open(sys.argv[1], "rb").read(), np.uint8)
found = reach.reach(log, log[:0], 1000, np.arange(1000, 1009))
limit = int(sys.argv[2])
predicate = jit.compile_predicate(lambda row: row.offset < limit and jit.equals(row.key, b"ab"))
ragged = Space(data=b"ab", positions=np.zeros(9, np.int64), lengths=np.full(9, 2, np.int32))
rows = predicate.rows(Space(
    offsets=np.arange(9), timestamps=np.arange(9), keys=ragged, values=ragged))
hits = [sum(f.stats.cache_hits.values()) for f in (reach.reach, predicate.loop)]
misses = [sum(f.stats.cache_misses.values()) for f in (reach.reach, predicate.loop)]
print(json.dumps([found, rows.tolist(), hits, misses]))
"""


def run_program(directory, log, limit):
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(directory / "cache"),
        "PYTHONPATH": os.pathsep.join([str(directory), *sys.path]),
    }
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log), str(limit)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    example("reach", tmp_path)
    log = tmp_path / "log"
    log.write_bytes(segment()[0])
    found, below_4, below_5 = [9, 0, 0, 81], [0, 1, 2, 3], [0, 1, 2, 3, 4]
    assert run_program(tmp_path, log, 4) == [found, below_4, [0, 0], [1, 1]]
    assert run_program(tmp_path, log, 4) == [found, below_4, [1, 1], [0, 0]]
    # Another outer value is another predicate: its code is not taken for the first one's.
    assert run_program(tmp_path, log, 5) == [found, below_5, [1, 0], [0, 1]]


def test_a_cached_predicate_whose_module_was_removed_is_compiled_again(tmp_path):
    program = (
        "import numpy as np\n"
        "from types import SimpleNamespace as Some\n"
        "from kstore import jit\n"
        "names = {'__name__': 'nowhere'}\n"
        "exec('keep = lambda row: row.offset > 1', names)\n"
        "none = Some(data=b'', positions=np.zeros(3, int), lengths=np.zeros(3, np.int32))\n"
        "rows = Some(offsets=np.arange(3), timestamps=np.arange(3), keys=none, values=none)\n"
        "print(jit.compile_predicate(names['keep']).rows(rows).tolist())\n"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert (result.returncode, result.stdout) == (0, "[2]\n"), result.stderr
    assert list(tmp_path.rglob("*.nbi"))
