"""Repair: one damaged batch costs one batch, the input stays as it is, the output is a log."""

import json
import os
import shutil

import pytest

import kstore
from kstore.cli import main
from kstore.errors import KStoreError, StorageError, StoreLockedError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.maintenance import repair
from kstore.segment import header_checksums
from kstore.segment.find_next_batch import known_boundaries
from kstore.verify.partition import verify_partition
from oracle import writer
from oracle.plain import PlainRecord
from oracle.reader import read_log
from oracle.recovery import recover
from support.damage import cut, overwrite, write_damaged
from support.disks import FaultyDisk


def record(offset, size=30):
    return PlainRecord(offset, 1_000_000 + offset, b"k%d" % offset, bytes([offset % 251]) * size)


def batches(first, count=6, each=3):
    """v2 batches of `each` offsets, some compressed."""
    return [
        writer.batch(
            [record(first + n * each + m) for m in range(each)], codec=n % 2, leader_epoch=0
        )
        for n in range(count)
    ]


def old_messages(first):
    """Twelve offsets of v0 and v1."""
    return [
        writer.message(first, b"k", b"value one", magic=0),
        writer.message(first + 1, b"k", b"value two", magic=0),
        writer.wrapper([record(first + n) for n in (2, 3, 4)], magic=0, codec=1),
        writer.message(first + 5, b"k", b"value", magic=1, timestamp=1_000_000),
        writer.wrapper([record(first + n) for n in (6, 7, 8)], magic=1, codec=1),
        *batches(first + 9, 1),
    ]


def put(directory, base, parts):
    data = b"".join(parts)
    found = recover(data, base, 100)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / filenames.log_name(base)).write_bytes(data)
    (directory / filenames.index_name(base)).write_bytes(writer.offset_index(found.index, base))
    times = writer.time_index(found.time_index, base)
    (directory / filenames.time_index_name(base)).write_bytes(times)


SEGMENTS = ((0, batches(0)), (18, batches(18)), (36, batches(36)))
ALL = [part for _, parts in SEGMENTS for part in parts]


@pytest.fixture
def partition(tmp_path):
    directory = tmp_path / "data" / "orders-0"
    for base, parts in SEGMENTS:
        put(directory, base, parts)
    return directory


def stored(directory):
    """All bytes of the logs of a partition, in order."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def state(directory):
    """Everything about a tree that could change but for access times."""
    seen = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        seen[path] = (about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_mode, content)
    return seen


def repaired(directory, tmp_path):
    """Repair with every check that always holds; returns the report and the bytes saved."""
    output = tmp_path / "out"
    shutil.rmtree(output, ignore_errors=True)
    before = state(directory)
    plan = kstore.plan_repair(directory)
    assert not output.exists()
    report = kstore.repair(directory, output)
    assert state(directory) == before
    (found,), (planned,) = report.partitions, plan.partitions
    assert found.damages == planned.damages
    assert (found.batches, found.end_offset) == (planned.batches, planned.end_offset)
    assert found.findings == []
    saved = output / found.name
    assert verify_partition(Files(), saved).findings == []
    return found, stored(saved)


def test_a_sound_partition_is_copied(partition, tmp_path):
    found, saved = repaired(partition, tmp_path)
    assert found.ok
    assert (found.batches, found.end_offset, found.gaps) == (18, 54, [])
    assert saved == b"".join(ALL)
    assert sorted(path.name for path in (tmp_path / "out" / "orders-0").glob("*.log")) == [
        filenames.log_name(base) for base, _ in SEGMENTS
    ]
    with kstore.open(tmp_path / "out") as store:
        assert [record.offset for record in store["orders"][0]] == list(range(54))


@pytest.mark.parametrize("number", [0, 2, 5])
@pytest.mark.parametrize("old", [False, True])
def test_any_byte_that_is_wrong_costs_its_batch_only(number, old, partition, tmp_path):
    """In the first, a middle and the last batch of the middle segment, byte by byte."""
    parts = old_messages(18) if old else SEGMENTS[1][1]
    following = SEGMENTS[2][1]
    if old:
        shutil.rmtree(partition)
        put(partition, 0, SEGMENTS[0][1])
        put(partition, 18, parts)
        put(partition, 30, following := batches(30))
    path = partition / filenames.log_name(18)
    data = path.read_bytes()
    start = sum(map(len, parts[:number]))
    others = [*SEGMENTS[0][1], *parts[:number], *parts[number + 1 :], *following]
    batches_before = [*SEGMENTS[0][1], *parts, *following]
    harmless = set()
    for position in range(start, start + len(parts[number])):
        for bit in (0, 4, 7):
            wrong = bytearray(data)
            wrong[position] ^= 1 << bit
            write_damaged(path, wrong)
            report = kstore.plan_repair(partition).partitions[0]
            kept = len(batches_before) - report.batches
            assert kept in (0, 1), (position - start, bit, report)
            if kept == 0:
                harmless.add(position - start)
            else:
                (damage,) = report.damages
                assert damage.path == str(path)
                # Offsets of a wrapper leave room: nothing shows how many it holds.
                if not (old and damage.kind == "offsets"):
                    assert (damage.position, damage.size) == (start, len(parts[number]))
    # Verify reports the leader epoch; old message formats have offsets of their own.
    assert harmless <= {*range(8), 12, 13, 14, 15}
    if not old:
        assert harmless <= {12, 13, 14, 15}
    path.write_bytes(data)
    overwrite(path, start, bytes(len(parts[number])))
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(others)
    assert found.damages[0].reason == "only zeros"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("first", [0, 7, 12, 30])
def test_of_two_messages_with_one_offset_the_right_one_stays(magic, first, tmp_path):
    """No checksum covers an offset of v0 or v1; the message is as it was, but under which?"""
    count = 9
    messages = [
        writer.message(first + n, b"k", b"value %d" % n, magic=magic, timestamp=1_000_000)
        for n in range(count)
    ]
    directory = tmp_path / "data" / "orders-0"
    put(directory, first, messages)
    path = directory / filenames.log_name(first)
    intact = path.read_bytes()
    for number in range(count):
        start = sum(map(len, messages[:number]))
        for bit in range(64):
            wrong = bytearray(intact)
            wrong[start + 7 - bit // 8] ^= 1 << bit % 8
            write_damaged(path, wrong)
            (found,) = kstore.plan_repair(directory).partitions
            if found.batches == count:
                assert number == count - 1  # nothing says where a log ends
                continue
            (damage,) = found.damages
            assert damage.position == start, (number, bit)
            assert (damage.first_offset, found.batches) == (first + number, count - 1), (
                number,
                bit,
                found.damages,
            )


@pytest.mark.parametrize("checkpoint", [None, "0\n1\n0 0\n", "0\n9\n"])
@pytest.mark.parametrize("slot", [0, 7, 17])
@pytest.mark.parametrize("bit", [0, 7, 15, 24, 30, 31])
def test_repair_restores_a_flipped_leader_epoch_where_others_show_it(
    bit, slot, checkpoint, partition, tmp_path
):
    """It is outside the checksum. A writer of the output would take it for the current one."""
    if checkpoint is not None:
        (partition / "leader-epoch-checkpoint").write_text(checkpoint)
    base, parts = SEGMENTS[slot // 6]
    start = sum(map(len, parts[: slot % 6]))
    path = partition / filenames.log_name(base)
    data = bytearray(path.read_bytes())
    data[start + 12 + 3 - bit // 8] ^= 1 << bit % 8
    write_damaged(path, data)
    found, saved = repaired(partition, tmp_path)
    detectable = slot < 17 or bit == 31 or checkpoint == "0\n1\n0 0\n"
    if detectable:
        assert saved == b"".join(ALL)
        assert any("leader epoch" in note for note in found.notes)
    else:  # the last batch may well be the first of a new epoch: nothing shows it
        assert len(saved) == len(b"".join(ALL))
    file = tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint"
    right = "0\n1\n0 0\n" if detectable else f"0\n2\n0 0\n{1 << bit} 51\n"
    assert file.read_text() == right


def test_repair_keeps_epochs_that_rise(partition, tmp_path):
    """One batch each of epochs 0 to 17, and a file that knows the first ones only."""
    data = b""
    for path, (base, parts) in zip(sorted(partition.glob("*.log")), SEGMENTS, strict=True):
        data = bytearray(b"".join(parts))
        at = 0
        for number in range(6):
            data[at + 12 : at + 16] = (base // 3 + number).to_bytes(4, "big")
            at += len(parts[number])
        write_damaged(path, data)
    expected = stored(partition)
    found, saved = repaired(partition, tmp_path)
    assert found.ok
    assert saved == expected
    epochs = (tmp_path / "out" / "orders-0" / "leader-epoch-checkpoint").read_text()
    assert epochs == "0\n18\n" + "".join(f"{n} {3 * n}\n" for n in range(18))


def test_two_neighbours_and_the_size_field(partition, tmp_path):
    path = partition / filenames.log_name(18)
    data = bytearray(path.read_bytes())
    first, second = (len(b"".join(SEGMENTS[1][1][:n])) for n in (1, 2))
    data[first + 10] ^= 1
    data[second + 9] ^= 0x40
    write_damaged(path, data)
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join([*ALL[:7], *ALL[9:]])
    assert [(d.first_offset, d.last_offset) for d in found.damages] == [(21, 26)]
    assert [(gap.first_offset, gap.last_offset) for gap in found.gaps] == [(21, 26)]


def test_a_batch_inside_a_value_is_no_batch(tmp_path):
    """Its offsets would even fit; the chain of headers does not lead through it."""
    inner = writer.batch([record(3)], leader_epoch=0)
    holding = writer.batch([PlainRecord(3, 1, b"k", inner + b"x")], leader_epoch=0)
    parts = [*batches(0, 1), holding, *batches(4, 2)]
    damaged = bytearray(b"".join(parts))
    damaged[len(parts[0]) + len(holding) - 2] ^= 1
    directory = tmp_path / "data" / "orders-0"
    put(directory, 0, [bytes(damaged)])
    found, saved = repaired(directory, tmp_path)
    assert saved == parts[0] + parts[2] + parts[3]
    assert [(d.first_offset, d.last_offset) for d in found.damages] == [(3, 3)]


def hostile(inner, after):
    """A batch of one record, offset 3, with batches inside its value, or at its very end."""
    found = PlainRecord(3, 1, b"k", inner + after)
    if not after:
        found = PlainRecord(3, 1, b"k", b"v", (("h", inner),))
    return writer.batch([found], leader_epoch=0)


def hidden(first, count):
    return b"".join(writer.batch([record(first + n)], leader_epoch=0) for n in range(count))


def write_index(directory, *entries):
    data = b"".join(offset.to_bytes(4, "big") + at.to_bytes(4, "big") for offset, at in entries)
    (directory / filenames.index_name(0)).write_bytes(data)


@pytest.mark.parametrize("after", [b"", b"rest of the value"])
@pytest.mark.parametrize("inner", [(3, 1), (4, 1), (5, 2), (30, 1)])
@pytest.mark.parametrize("wrong", ["size", "payload", "both"])
@pytest.mark.parametrize("bit", [0, 7, 12, 20, 31])
def test_batches_in_a_value_never_become_records(after, inner, wrong, bit, tmp_path):
    """Whatever the header says, and also where the hidden batches end where the batch does. Where
    size and payload are both wrong, an index shows what a search could not."""
    parts = [*batches(0, 1), hostile(hidden(*inner), after), *batches(4, 4)]
    data = bytearray(b"".join(parts))
    start, following = len(parts[0]), len(parts[0]) + len(parts[1])
    directory = tmp_path / "data" / "orders-0"
    put(directory, 0, parts)
    write_index(directory, (3, start), (6, following))
    if wrong == "size":
        (directory / filenames.index_name(0)).unlink()
    if wrong != "payload":
        data[start + 8 + 3 - bit // 8] ^= 1 << bit % 8
    if wrong != "size":
        data[start + 63] ^= 1 << bit % 8
    write_damaged(directory / filenames.log_name(0), data)
    found, saved = repaired(directory, tmp_path)
    assert saved == b"".join([parts[0], *parts[2:]])
    assert [(d.position, d.size) for d in found.damages] == [(start, len(parts[1]))]
    assert [(d.first_offset, d.last_offset) for d in found.damages] == [(3, 3)]


class Stamped(Files):
    """A disk whose files do not look touched: what flips by itself changes no time."""

    def stamp(self, fd):
        return 5, 7, self.size(fd)


@pytest.mark.parametrize("boundary", ["nothing", "a corrupt index", "index", "seal"])
@pytest.mark.parametrize("count", [1, 16])
def test_a_segment_in_a_value_of_a_batch_without_size(boundary, count, tmp_path):
    """Header and payload are damaged. What is in the value leads to the rest of the value."""
    parts = [*batches(0, 1), hostile(hidden(4, count), b"x" * 50), *batches(4, 70, 1)]
    data = bytearray(b"".join(parts))
    start, following = len(parts[0]), len(parts[0]) + len(parts[1])
    directory = tmp_path / "data" / "orders-0"
    put(directory, 0, parts)
    path = directory / filenames.log_name(0)
    (directory / filenames.index_name(0)).unlink()
    if boundary == "a corrupt index":
        write_index(directory, (4, following - 1), (5, 1 << 31), (0, 0), (9, following + 3))
    elif boundary == "index":
        write_index(directory, (4, following))
    elif boundary == "seal":
        assert header_checksums.write(Stamped(), directory, 0)
    data[start + 8] ^= 1
    data[start + 63] ^= 1
    write_damaged(path, data)
    (found,) = kstore.plan_repair(directory, files=Stamped()).partitions
    assert [(d.position, d.size) for d in found.damages] == [(start, len(parts[1]))]
    assert found.batches == len(parts) - 1


def test_a_known_boundary_shows_what_a_search_cannot(tmp_path):
    """The hidden batches end where the batch ends: the chain of headers leads on from them."""
    parts = [*batches(0, 1), hostile(hidden(3, 1), b""), *batches(4, 70, 1)]
    data = bytearray(b"".join(parts))
    start, following = len(parts[0]), len(parts[0]) + len(parts[1])
    data[start + 8] ^= 1
    data[start + 63] ^= 1
    directory = tmp_path / "data" / "orders-0"
    put(directory, 0, parts)
    path = directory / filenames.log_name(0)
    for sealed in (False, True):
        path.write_bytes(b"".join(parts))
        (directory / filenames.index_name(0)).unlink(missing_ok=True)
        if sealed:
            assert header_checksums.write(Stamped(), directory, 0)
            assert known_boundaries(Stamped(), path, 0) == [0, sum(map(len, parts[:64]))]
        else:
            write_index(directory, (4, following))
            assert known_boundaries(Stamped(), path, 0) == [following]
        path.write_bytes(data)
        (found,) = kstore.plan_repair(directory, files=Stamped()).partitions
        assert [(d.position, d.size) for d in found.damages] == [(start, len(parts[1]))]


def test_garbage_and_stale_batches_between_batches(partition, tmp_path):
    path = partition / filenames.log_name(18)
    parts = SEGMENTS[1][1]
    stale = SEGMENTS[0][1][2]
    write_damaged(path, b"".join([parts[0], b"garbage" * 9, *parts[1:3], stale, *parts[3:]]))
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL)
    assert [(d.kind, d.size, d.first_offset) for d in found.damages] == [
        ("structure", 63, None),
        ("doubled", len(stale), None),
    ]


@pytest.mark.parametrize("size", [1, 30, 70])
def test_repair_saves_all_batches_before_a_cut_tail(size, partition, tmp_path):
    path = partition / filenames.log_name(36)
    cut(path, -size)
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL[:-1])
    assert [(d.kind, d.first_offset, d.last_offset) for d in found.damages] == [("tail", 51, None)]
    assert found.end_offset == 51


def test_repair_reports_missing_duplicate_and_misnamed_segments(partition, tmp_path):
    (partition / filenames.log_name(18)).rename(partition / "copy of a segment.log")
    shutil.copy(partition / filenames.log_name(0), partition / filenames.log_name(9))
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL)
    assert {d.kind for d in found.damages} == {"doubled"}
    assert found.lost_bytes == 0
    assert found.notes == ["no name of a segment, but batches: copy of a segment.log"]
    (partition / "copy of a segment.log").unlink()
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join([*ALL[:6], *ALL[12:]])
    assert [(gap.first_offset, gap.last_offset) for gap in found.gaps] == [(18, 35)]


def test_repair_saves_batches_of_two_segments_once(partition, tmp_path):
    """The segment at 18 has the first batches of the next one, too."""
    put(partition, 18, [*SEGMENTS[1][1], *SEGMENTS[2][1][:2]])
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL)
    assert {d.kind for d in found.damages} == {"doubled"}


def test_an_interrupted_compaction_gives_the_existing_records(partition, tmp_path):
    (partition / filenames.log_name(18)).rename(partition / filenames.log_name(18, ".swap"))
    (partition / filenames.log_name(0)).rename(partition / filenames.log_name(0, ".deleted"))
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL[6:])
    assert found.first_offset == 18


def test_repair_keeps_side_files_and_the_log_start(partition, tmp_path):
    root = partition.parent
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    (root / "replication-offset-checkpoint").write_text("nonsense\n")
    (root / "meta.properties").write_text("version=1\nnode.id=3\n")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    before = state(root)
    report = kstore.repair(root, tmp_path / "out")
    assert state(root) == before
    assert len(report.notes) == 1
    assert "replication-offset-checkpoint" in report.notes[0]
    out = tmp_path / "out"
    assert (out / "meta.properties").read_text() == "version=1\nnode.id=3\n"
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        assert (out / "orders-0" / name).exists()
    with kstore.open(out) as store:
        assert store["orders"][0].start_offset == 20
        assert store["orders"][0][20].key == b"k20"


@pytest.mark.parametrize("log_directory", [True, False], ids=["log directory", "one partition"])
def test_an_interrupted_repair_is_no_log_directory(partition, tmp_path, log_directory):
    """Wherever it stops, its output lacks records, or is complete."""
    source, output = partition.parent if log_directory else partition, tmp_path / "out"
    complete = interrupted = 0
    for call in range(200):
        disk = FaultyDisk()
        disk.arm(call, KeyboardInterrupt, sticky=True)
        try:
            repair.repair(source, output, files=disk)
            break
        except KeyboardInterrupt:
            pass
        left = os.listdir(output) if output.exists() else []
        if "kstore.unfinished" in left:
            interrupted += 1
            for mode in ("r", "a"):
                with pytest.raises(KStoreError, match="repair' was interrupted"):
                    kstore.open(output, mode=mode)
            assert main(["verify", "--log-dir", str(output)]) == 1
            with pytest.raises(KStoreError, match="repair' was interrupted"):
                kstore.repair(source, output)
            with pytest.raises(KStoreError, match="repair' was interrupted"):
                kstore.plan_repair(output)
        elif "orders-0" in left:
            complete += 1
            with kstore.open(output, mode="r") as store:
                assert [bytes(record.key) for record in store["orders"][0].view()]
        shutil.rmtree(output, ignore_errors=True)
    else:
        pytest.fail("a repair changes the disk more often than was tried")
    assert interrupted > 5
    assert complete == 1  # by the sync after the marker's removal


class Unreadable(Files):
    """A disk with bad blocks in one file."""

    native = False

    def __init__(self, ending, start, end):
        self.ending, self.start, self.end = ending, start, end

    def preadv_into(self, fd, buffer, position):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(self.ending) and self.start - len(buffer) < position < self.end:
            raise StorageError("cannot read: Input/output error", errno=5, path=path)
        return super().preadv_into(fd, buffer, position)


def test_what_a_disk_cannot_read_costs_the_batches_in_it(tmp_path):
    directory = tmp_path / "data" / "orders-0"
    parts = batches(0, 200, 5)
    put(directory, 0, parts)
    files = Unreadable("data/orders-0/" + filenames.log_name(0), 5000, 5001)
    report = kstore.repair(directory, tmp_path / "out", files=files)
    (found,) = report.partitions
    ends = [len(b"".join(parts[: n + 1])) for n in range(200)]
    hit = [n for n in range(200) if ends[n] > 4096 and ends[n] - len(parts[n]) < 8192]
    kept = [part for n, part in enumerate(parts) if n not in hit]
    assert stored(tmp_path / "out" / "orders-0") == b"".join(kept)
    assert [(d.kind, d.first_offset, d.last_offset) for d in found.damages] == [
        ("unreadable", hit[0] * 5, hit[-1] * 5 + 4)
    ]
    assert "Input/output error" in found.damages[0].reason


class Forbidden(Files):
    """A disk on which one file belongs to another user."""

    native = False

    def open(self, path, *arguments, **options):
        if str(path).endswith("data/orders-0/" + filenames.log_name(0)):
            raise StorageError("cannot open: Permission denied", errno=13, path=path)
        return super().open(path, *arguments, **options)


def test_what_the_user_may_not_read_is_no_damage(partition, tmp_path):
    put(partition, 0, batches(0, 3, 5))
    with pytest.raises(StorageError, match="Permission denied"):
        kstore.plan_repair(partition, files=Forbidden())
    with pytest.raises(StorageError, match="Permission denied"):
        kstore.repair(partition, tmp_path / "out", files=Forbidden())
    assert not (tmp_path / "out").exists()


def test_a_repair_of_an_open_or_empty_directory_is_refused(partition, tmp_path):
    root = partition.parent
    with kstore.open(root), pytest.raises(StoreLockedError):
        kstore.plan_repair(partition)
    with pytest.raises(KStoreError, match="no partitions"):
        kstore.plan_repair(tmp_path / "data" / "..")
    with pytest.raises(KStoreError, match="no such directory"):
        kstore.plan_repair(tmp_path / "nothing")
    with pytest.raises(KStoreError, match="empty"):
        kstore.repair(root, tmp_path)
    with pytest.raises(KStoreError, match="cannot lie in"):
        kstore.repair(root, root / "out")


def test_repair_writes_nothing_without_damage_and_the_valid_records_with_it(
    partition, tmp_path, capsys
):
    assert main(["repair", "--path", str(partition.parent)]) == 0
    assert "nothing was written" in capsys.readouterr().out
    path = partition / filenames.log_name(0)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    write_damaged(path, data)
    out = tmp_path / "out"
    assert main(["repair", "--path", str(partition), "--execute", "--output", str(out)]) == 2
    text = capsys.readouterr().out
    assert "lost offsets 0 to 2: the checksum does not match" in text
    assert "gap" not in text
    assert stored(out / "orders-0") == b"".join(ALL[1:])
    assert main(["repair", "--path", str(partition), "--json"]) == 2
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"] is False
    assert tree["partitions"][0]["damages"][0]["first_offset"] == 0
    assert main(["repair", "--path", str(partition), "--execute"]) == 1
    assert main(["repair", "--path", str(tmp_path / "none")]) == 1


def test_records_of_the_output_are_the_oracle_s(partition, tmp_path):
    path = partition / filenames.log_name(18)
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    write_damaged(path, data)
    _, saved = repaired(partition, tmp_path)
    expected = read_log(saved)
    with kstore.open(tmp_path / "out") as store:
        ours = [(record.offset, record.key, record.value) for record in store["orders"][0]]
    theirs = [(r.offset, r.key, r.value) for batch in expected.batches for r in batch.records]
    assert ours == theirs
    assert len(ours) == 51


@pytest.mark.parametrize("name", [f"{18:020d}.timeindex", "kstore.x", "partition.metadata"])
@pytest.mark.parametrize("target", ["nowhere", "itself"])
def test_a_link_that_leads_nowhere_stops_no_repair(partition, tmp_path, name, target):
    path = partition / name
    path.unlink(missing_ok=True)
    path.symlink_to(name if target == "itself" else "nowhere")
    _, saved = repaired(partition, tmp_path)
    assert saved == b"".join(ALL)


@pytest.mark.parametrize("target", ["nowhere", "itself", "."])
def test_a_link_instead_of_a_segment_costs_that_segment(partition, tmp_path, target):
    path = partition / filenames.log_name(18)
    path.unlink()
    path.symlink_to(path.name if target == "itself" else target)
    found, saved = repaired(partition, tmp_path)
    assert saved == b"".join(SEGMENTS[0][1] + SEGMENTS[2][1])
    assert [(d.kind, d.first_offset, d.path) for d in found.damages] == [
        ("unreadable", 18, str(path))
    ]
