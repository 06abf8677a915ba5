"""One damaged batch costs one batch to a reader that skips damage, and is never cut away."""

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import StoreConfig
from kstore.errors import CorruptRecordError, RecoveryNeededError
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import read_log as oracle_read
from support.damage import write_damaged
from support.logs import open_log, read_log
from support.stores import MARKER, QUIET, snapshot

FIRST = "00000000000000000000"
POINTS = "recovery-point-offset-checkpoint"


def v2(count: int) -> bytes:
    rows = [PlainRecord(n, 1000 + n, b"k", b"v2 %d" % n) for n in range(count)]
    return b"".join(oracle.batch(rows[n : n + 3]) for n in range(0, count, 3))


def old(count: int, magic: int) -> bytes:
    data = b""
    for n in range(count):
        time = 1000 + n if magic else -1
        value = b"v%d %d" % (magic, n)
        row = PlainRecord(n, time, b"k", value)
        plain = oracle.message(n, b"k", value, magic=magic, timestamp=time)
        data += plain if n % 3 else oracle.wrapper([row], magic=magic, codec=1)
    return data


def made(root: Path, data: bytes) -> Path:
    """A topic of one file, opened and closed once: with indexes, checkpoints, marker."""
    path = root / "t-0" / f"{FIRST}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    kstore.open(root, config=QUIET).close()
    assert (root / MARKER).exists()
    return path


def all_ways(root: Path, mode: str) -> list[tuple[list[int], list[Any]]]:
    """Offsets and notes by each way of reading."""
    found: list[tuple[list[int], list[Any]]] = []
    with kstore.open(root, mode, config=QUIET) as store:
        view = store["t"][0].view()
        notes: list[Any] = []
        found.append(([r.offset for r in view.records(on_damage="skip", skipped=notes)], notes))
        for threads in (1, 3):
            notes = []
            parts = list(view.scan(on_damage="skip", skipped=notes, threads=threads))
            found.append(([int(offset) for part in parts for offset in part.offsets], notes))
        with pytest.raises(CorruptRecordError):
            list(view)
    return found


@pytest.mark.parametrize("where", [1, 4, 7])
@pytest.mark.parametrize(
    ("at", "bit"),
    [
        (8, 0x01), (9, 0x10), (10, 0x01), (11, 0x01), (11, 0x40),  # the size
        (16, 1), (16, 4), (16, 0x80),  # the magic byte
        (17, 1), (21, 7),  # checksum, attributes
        (23, 0x10), (23, 0x80), (26, 1), (26, 2), (26, 0x20),  # the last offset
        (57, 0x10), (60, 2), (61, 2), (61, 0x40), (61, 0x80),  # the count, a record's length
    ],
)  # fmt: skip
def test_one_damaged_batch_costs_a_skipping_reader_one_batch(
    tmp_path: Path, where: int, at: int, bit: int
) -> None:
    """It went by the damaged header, and missed or repeated what followed."""
    path = made(tmp_path, v2(27))
    data = bytearray(path.read_bytes())
    hurt = oracle_read(bytes(data)).batches[where]
    data[hurt.position + at] ^= bit
    write_damaged(path, data)
    sound = [n for n in range(27) if not 3 * where <= n < 3 * where + 3]
    for offsets, notes in all_ways(tmp_path, "r"):
        assert offsets == sound
        assert [note[:2] for note in notes] == [(str(path), hurt.position)]
        assert notes[0][3] in (-1, 3 * where)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("at", [8, 9, 10, 11, 12, 15, 16, 17, 18, 20])
def test_one_damaged_message_costs_a_skipping_reader_one_message(
    tmp_path: Path, magic: int, at: int
) -> None:
    path = made(tmp_path, old(9, magic))
    intact = path.read_bytes()
    for where, hurt in enumerate(oracle_read(intact).batches):
        for bit in (1, 2, 4, 0x40, 0x80):
            data = bytearray(intact)
            data[hurt.position + at] ^= bit
            write_damaged(path, data)
            with kstore.open(tmp_path, "r", config=QUIET) as store:
                records = store["t"][0].view().records(on_damage="skip")
                assert [r.offset for r in records] == [n for n in range(9) if n != where], bit


def test_reading_continues_behind_damage_in_each_of_many_segments(tmp_path: Path) -> None:
    """Any bytes at all, from any offset on: what is sound comes once, in order."""
    config = kstore.LogConfig(segment_bytes=600, index_interval_bytes=100)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for n in range(60):
            log.extend([b"%d" % (2 * n), b"%d" % (2 * n + 1)])
    paths = sorted((tmp_path / "t-0").glob("*.log"))
    originals = {path: path.read_bytes() for path in paths}
    assert len(paths) > 6
    for seed in range(40):
        rng = random.Random(seed)
        gone: set[int] = set()
        for path, intact in originals.items():
            data = bytearray(intact)
            hurt = rng.choice(oracle_read(intact).batches)
            start = hurt.position + rng.choice((8, 16, 21, 30))  # all but its offset
            end = rng.randrange(start + 1, hurt.position + hurt.size + 1)
            data[start:end] = rng.choice((bytes(end - start), rng.randbytes(end - start)))
            if data != intact:
                gone |= set(range(hurt.base_offset, hurt.last_offset + 1))
            path.write_bytes(data)
        with kstore.open(tmp_path, "r", config=QUIET) as store:
            log = store["t"][0]
            for start in (0, rng.randrange(120)):
                sound = [n for n in range(start, 120) if n not in gone]
                seen = log.view(start).records(on_damage="skip")
                assert [int(r.value or b"") for r in seen] == sound, seed
                parts = log.view(start).scan(on_damage="skip", threads=2)
                assert [int(n) for part in parts for n in part.offsets] == sound, seed


# --- a clean stop is no leave to cut ------------------------------------------------------------


@pytest.mark.parametrize(("kind", "at", "bit"), [("v1", 16, 2), ("v2", 16, 4), ("v2", 9, 1)])
@pytest.mark.parametrize("clean", [True, False])
def test_a_clean_stop_lets_nothing_be_cut_below_the_recovery_point(
    tmp_path: Path, kind: str, at: int, bit: int, clean: bool
) -> None:
    """With the marker such a log was opened, cut at the damage and ended there."""
    path = made(tmp_path, old(9, 1) if kind == "v1" else v2(9))
    assert (tmp_path / POINTS).read_text().split()[-1] == "9"
    data = bytearray(path.read_bytes())
    hurt = oracle_read(bytes(data)).batches[4 if kind == "v1" else 1]
    data[hurt.position + at] ^= bit
    write_damaged(path, data)
    if not clean:
        (tmp_path / MARKER).unlink()
    with (
        pytest.raises(RecoveryNeededError, match="below the recovery point") as caught,
        kstore.open(tmp_path, config=QUIET) as store,
    ):
        list(store["t"][0])
    assert (caught.value.path, caught.value.position) == (str(path), hurt.position)
    assert path.read_bytes() == data
    assert not list(tmp_path.rglob("kstore.cut.*"))
    with kstore.open(tmp_path, config=StoreConfig(background=False, recovery="kafka")) as store:
        log = store["t"][0]
        assert log.end_offset == hurt.base_offset
        assert log.recovery is not None
        assert log.recovery.cut_size == len(data) - hurt.position
    assert list(tmp_path.rglob("kstore.cut.*"))


def test_above_the_recovery_point_a_torn_end_is_cut_with_the_marker_too(tmp_path: Path) -> None:
    path = made(tmp_path, v2(9))
    intact = path.read_bytes()
    path.write_bytes(intact + intact[:40])
    before = snapshot(tmp_path)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].end_offset == 9
    assert path.read_bytes() == intact
    assert any("kstore.cut." in name for name in snapshot(tmp_path).keys() - before.keys())


def test_records_between_two_corrupt_headers_are_read(tmp_path: Path) -> None:
    """Nothing of the second leads on: an entry of the offset index shows that batches begin
    between, and no value holds them."""
    path = made(tmp_path, v2(60))
    batches = oracle_read(path.read_bytes()).batches
    assert (path.with_suffix(".index")).stat().st_size == 0
    sought = batches[10]
    path.with_suffix(".index").write_bytes(
        (sought.last_offset).to_bytes(4, "big") + sought.position.to_bytes(4, "big")
    )
    data = bytearray(path.read_bytes())
    for each in (batches[3], batches[-1]):
        data[each.position : each.position + 20] = b"\x7f" * 20
    write_damaged(path, data)
    (path.parent / f"kstore.seal.{FIRST}").unlink(missing_ok=True)
    gone = {*range(9, 12), *range(57, 60)}
    for offsets, notes in all_ways(tmp_path, "r"):
        assert offsets == [n for n in range(60) if n not in gone]
        assert [note[1] for note in notes] == [batches[3].position, batches[-1].position]


def test_a_sound_batch_among_damaged_ones_is_shown(tmp_path: Path) -> None:
    """Two with bad payloads lead to it; a bad size and a bad payload follow."""
    with closing(open_log(tmp_path, index_interval_bytes=0)) as log:
        for n in range(7):
            log.extend([b"%d" % n] * 3)
    path = tmp_path / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    starts = [batch.position for batch in oracle_read(bytes(data)).batches]
    data[starts[0] + 70] ^= 1
    data[starts[1] + 70] ^= 1
    data[starts[3] + 9] ^= 2
    data[starts[4] + 70] ^= 1
    write_damaged(path, data)
    entry = (20).to_bytes(4, "big") + starts[6].to_bytes(4, "big")
    path.with_suffix(".index").write_bytes(entry)  # all that shows where a batch begins
    with closing(read_log(tmp_path)) as log:
        found = [record.offset for record in log.view().records(on_damage="skip")]
    assert found == [6, 7, 8, *range(15, 21)]
