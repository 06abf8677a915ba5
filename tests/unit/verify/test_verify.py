"""Verification: silent on what Kafka wrote, and it finds each kind of damage where it is."""

import shutil
import struct

import pytest

import kstore
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import CorruptRecordError
from kstore.files import filenames
from kstore.files.files import DISK, Files
from kstore.verify.partition import verify_partition
from oracle import writer
from oracle.crc import crc32c
from oracle.plain import PlainRecord
from oracle.recovery import recover
from support.damage import cut, write_damaged


def record(offset, size=40):
    return PlainRecord(offset, 1_000_000 + offset, b"k", bytes([offset % 251]) * size)


def parts_from(first):
    """Ten offsets: every format, compressed and not."""
    return [
        writer.message(first, b"k", b"v", magic=1, timestamp=1_000_000 + first),
        writer.wrapper([record(first + n) for n in (1, 2, 3)], magic=1, codec=1),
        writer.batch([record(first + 4), record(first + 5)], leader_epoch=2),
        writer.batch([record(first + n) for n in (6, 7, 8)], codec=1, leader_epoch=2),
        writer.batch([record(first + 9)], leader_epoch=3),
    ]


def write_segment(directory, first, data, interval=0):
    found = recover(data, first, interval)
    index = writer.offset_index(found.index, first)
    times = writer.time_index(found.time_index, first)
    (directory / filenames.log_name(first)).write_bytes(data)
    (directory / filenames.index_name(first)).write_bytes(index)
    (directory / filenames.time_index_name(first)).write_bytes(times)


@pytest.fixture
def partition(tmp_path):
    for first in (100, 110):
        write_segment(tmp_path, first, b"".join(parts_from(first)))
    LeaderEpochs([(0, 0), (2, 104), (3, 109)]).save(DISK, tmp_path / "leader-epoch-checkpoint")
    # The second segment goes back to epoch 2, which a log never does: its epochs are made 3.
    data = bytearray((tmp_path / filenames.log_name(110)).read_bytes())
    for batch in recover(bytes(data), 110, 0).index:
        if data[batch[1] + 16] == 2:
            data[batch[1] + 12 : batch[1] + 16] = struct.pack(">i", 3)
    (tmp_path / filenames.log_name(110)).write_bytes(data)
    return tmp_path


def alter(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def only_finding(directory, **options):
    report = verify_partition(DISK, directory, **options)
    assert not report.ok
    assert report.finding_count == len(report.findings) == 1
    return report.findings[0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("map_sealed", [True, False])
def test_a_sound_partition_has_no_findings(partition, threads, map_sealed):
    seen = []
    report = verify_partition(
        DISK,
        partition,
        threads=threads,
        map_sealed=map_sealed,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.findings == []
    assert report.ok
    report.raise_if_corrupt()
    assert (report.segments, report.batches, report.not_yet_there) == (2, 10, 0)
    size = sum(len(b"".join(parts_from(first))) for first in (100, 110))
    assert report.bytes == size
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)


def test_verify_finds_no_damage_in_directories_of_kafka(broker_set):
    directories = {path.parent for path in broker_set.log_dir.rglob("*.log")}
    assert len(directories) > 1
    for directory in directories:
        report = verify_partition(DISK, directory)
        assert report.findings == [], directory.name
        assert report.not_yet_there == 0


@pytest.mark.parametrize("base", [100, 110])
def test_every_flipped_bit_is_found_or_means_nothing(partition, base):
    path = partition / filenames.log_name(base)
    data = path.read_bytes()
    starts = [0, *(at for _, at in recover(data, base, 0).index)]
    silent = set()
    for position in range(len(data)):
        for bit in range(0, 8, 3):
            alter(path, position, bytes([data[position] ^ 1 << bit]))
            report = verify_partition(DISK, partition)
            if report.ok and not report.not_yet_there:
                silent.add(position - max(at for at in starts if at <= position))
        alter(path, position, data[position : position + 1])
    # Only a base offset is not always wrong alone, offsets may have gaps; nor is a leader epoch
    # that became the one of the batch before.
    assert silent <= {*range(8), 15}
    assert verify_partition(DISK, partition).ok


def test_every_truncation_of_the_last_segment_counts_as_not_yet_written(partition):
    path = partition / filenames.log_name(110)
    data = path.read_bytes()
    ends = [0, *(at for _, at in recover(data, 110, 0).index), len(data)]
    for name in (filenames.index_name(110), filenames.time_index_name(110)):
        (partition / name).unlink()
    for size in range(len(data) - 1, -1, -1):
        cut(path, size)
        report = verify_partition(DISK, partition)
        assert report.findings == []
        assert report.not_yet_there == size - max(end for end in ends if end <= size)


def test_zeros_at_the_end_count_as_not_yet_written(partition):
    with (partition / filenames.log_name(110)).open("ab") as file:
        file.write(bytes(5000))
    report = verify_partition(DISK, partition)
    assert report.ok
    assert report.not_yet_there == 5000
    with (partition / filenames.log_name(110)).open("ab") as file:
        file.write(b"x")
    assert only_finding(partition).kind == "structure"


def test_a_segment_that_ends_early_before_others(partition):
    data = b"".join(parts_from(100))
    (partition / filenames.log_name(100)).write_bytes(data[:-1])
    report = verify_partition(DISK, partition)
    start = sum(map(len, parts_from(100)[:4]))
    # The index entry of the cut batch points at no complete batch.
    assert [(f.kind, f.position) for f in report.findings] == [("index", 24), ("structure", start)]


def test_damage_is_reported_with_its_position_and_later_batches_are_checked(partition):
    path = partition / filenames.log_name(100)
    parts = parts_from(100)
    third = sum(map(len, parts[:2]))
    fifth = sum(map(len, parts[:4]))
    alter(path, third + 70, b"\xff\xff")
    alter(path, fifth + 70, b"\xff\xff")
    report = verify_partition(DISK, partition)
    assert [(f.kind, f.path, f.position, f.offset) for f in report.findings] == [
        ("batch", str(path), third, 104),
        ("batch", str(path), fifth, 109),
    ]
    with pytest.raises(CorruptRecordError) as caught:
        report.raise_if_corrupt()
    assert caught.value.path == str(path)
    assert (caught.value.position, caught.value.offset) == (third, 104)


def test_behind_a_wrong_size_it_continues_where_the_index_says(partition):
    path = partition / filenames.log_name(100)
    parts = parts_from(100)
    alter(path, 8, b"\0\0\0\0")
    alter(path, sum(map(len, parts[:4])) + 70, b"\xff\xff")
    kinds = [(f.kind, f.position) for f in verify_partition(DISK, partition).findings]
    assert kinds == [("structure", 0), ("batch", sum(map(len, parts[:4])))]


def test_records_are_checked_behind_a_right_checksum(partition):
    good = writer.batch([record(120), record(121)], leader_epoch=3)
    body = good[21:57] + struct.pack(">i", 3) + good[61:]  # one record too many announced
    bad = good[:17] + struct.pack(">I", writer.crc32c(body)) + body
    (partition / filenames.log_name(120)).write_bytes(bad)
    finding = only_finding(partition)
    assert (finding.kind, finding.position, finding.offset) == ("batch", 0, 120)


def test_a_batch_with_an_earlier_offset_is_found(partition):
    data = b"".join(parts_from(100))
    last = parts_from(100)[-1]
    (partition / filenames.log_name(100)).write_bytes(data + last)
    finding = only_finding(partition)
    assert (finding.kind, finding.position, finding.offset) == ("offsets", len(data), 109)


def test_an_overlapping_segment_is_found(partition):
    write_segment(partition, 115, writer.batch([record(115)], leader_epoch=3))
    finding = only_finding(partition)
    assert finding.kind == "offsets"
    assert finding.path == str(partition / filenames.log_name(115))


@pytest.mark.parametrize(
    ("slot", "entry", "kind"),
    [
        (1, (4, 1), "index"),  # goes back
        (1, (4, 131), "index"),  # not the start of a batch
        (0, (0, None), "index"),  # offset 100 lies in front of the second batch
        (3, (2**31 - 1, 10**6), "index"),  # beyond the file
    ],
)
def test_a_wrong_index_entry_is_found_by_its_position(partition, slot, entry, kind):
    path = partition / filenames.index_name(100)
    offset, position = entry
    if position is None:
        position = struct.unpack_from(">i", path.read_bytes(), slot * 8 + 4)[0]
    alter(path, slot * 8, struct.pack(">ii", offset, position))
    finding = only_finding(partition)
    assert finding.kind == kind
    assert finding.path == str(path)
    assert finding.position == slot * 8


def test_a_rolled_segment_without_an_offset_index_is_a_warning(partition):
    """Nothing is lost: reads search the segment, and the next writer rebuilds the index."""
    for base in (100, 110):  # the last segment may not have written its own yet
        (partition / filenames.index_name(base)).unlink()
    report = verify_partition(DISK, partition)
    assert report.ok
    assert (report.finding_count, report.warning_count) == (0, 1)
    (warning,) = report.warnings
    assert (warning.kind, warning.offset) == ("index", 100)
    assert warning.path == str(partition / filenames.index_name(100))
    assert "no offset index" in warning.sentence


def test_index_entries_of_the_first_offset_as_old_kafkas_wrote_them(partition):
    data = b"".join(parts_from(100))
    starts = [at for _, at in recover(data, 100, 0).index]
    entries = list(zip((101, 104, 106, 109), starts, strict=True))
    (partition / filenames.index_name(100)).write_bytes(writer.offset_index(entries, 100))
    assert verify_partition(DISK, partition).findings == []


def test_a_time_index_entry_that_hides_records(partition):
    path = partition / filenames.time_index_name(100)
    entries = list(struct.iter_unpack(">qi", path.read_bytes()))
    alter(path, 12, struct.pack(">q", entries[0][0] + 1))
    finding = only_finding(partition)
    assert (finding.kind, finding.path, finding.position) == ("time index", str(path), 12)
    alter(path, 12, struct.pack(">q", entries[0][0]))
    assert only_finding(partition).kind == "time index"  # timestamps do not increase


def test_index_files_of_a_killed_broker_have_a_zero_tail(partition):
    for name in (filenames.index_name(110), filenames.time_index_name(110)):
        with (partition / name).open("ab") as file:
            file.write(bytes(1200))
    assert verify_partition(DISK, partition).ok
    with (partition / filenames.index_name(110)).open("ab") as file:
        file.write(b"x")
    assert only_finding(partition).kind == "index"


def test_a_leader_epoch_checkpoint_that_contradicts_the_log_is_found(partition):
    path = partition / "leader-epoch-checkpoint"
    LeaderEpochs([(0, 0), (2, 104), (4, 109)]).save(DISK, path)
    report = verify_partition(DISK, partition)
    assert {(f.kind, f.offset) for f in report.findings} == {("epochs", 109), ("epochs", 114)}
    path.write_bytes(b"nonsense")
    finding = only_finding(partition)
    assert (finding.kind, finding.path) == ("epochs", str(path))


def test_a_missing_leader_epoch_checkpoint_is_a_warning(partition):
    """Not a finding: a writer of messages v0 or v1 removes it, and batches v2 may remain."""
    path = partition / "leader-epoch-checkpoint"
    path.unlink()
    report = verify_partition(DISK, partition)
    assert report.ok
    assert [(each.kind, each.path) for each in report.warnings] == [("epochs", str(path))]


def test_messages_before_leader_epochs_need_no_checkpoint_of_them(tmp_path):
    write_segment(tmp_path, 100, b"".join(parts_from(100)[:2]))
    assert verify_partition(DISK, tmp_path).warnings == []


def test_a_file_that_is_cut_while_it_is_read(partition):
    class Cutting(Files):
        def preadv_into(self, fd, buffer, position):
            return min(100, super().preadv_into(fd, buffer, position))

    report = verify_partition(Cutting(), partition, map_sealed=False)
    assert report.segments == 2


def test_findings_beyond_the_limit_are_counted(partition, monkeypatch):
    monkeypatch.setattr("kstore.verify.partition.MAX_FINDINGS", 1)
    for first in (100, 110):
        alter(partition / filenames.log_name(first), 35, b"\xff")
    report = verify_partition(DISK, partition)
    assert (report.finding_count, len(report.findings)) == (2, 1)
    with pytest.raises(CorruptRecordError, match="and 1 more"):
        report.raise_if_corrupt()


def test_a_verification_in_small_windows_finds_the_same(partition, monkeypatch):
    monkeypatch.setattr("kstore.verify.partition.WINDOW", 64)
    for threads in (1, 2):
        assert verify_partition(DISK, partition, threads=threads).batches == 10
    alter(partition / filenames.log_name(100), 35, b"\xff")
    assert only_finding(partition).position == 0


def test_an_invalid_number_of_threads_is_an_error(partition):
    with pytest.raises(ValueError):
        verify_partition(DISK, partition, threads=0)


# --- transactional side files -------------------------------------------------------------------


@pytest.fixture(scope="module")
def transactions(tmp_path_factory):
    """A log with committed, aborted and open transactions over three segments, cleanly closed."""
    root = tmp_path_factory.mktemp("transactions") / "data"
    with kstore.open(root) as store:
        log = store.create_topic("orders")[0]
        for producer_id in (1, 2, 3, 4):
            for sequence, roll in ((0, False), (1, producer_id == 2), (2, False)):
                value = PlainRecord(0, 1_000_000, b"k", b"v%d" % sequence)
                log.append_as_leader(
                    writer.batch(
                        [value],
                        producer_id=producer_id,
                        producer_epoch=0,
                        base_sequence=sequence,
                        transactional=True,
                    )
                )
                if roll:
                    log.roll()
            if producer_id < 4:
                log.append_end_marker(producer_id, 0, commit=producer_id == 1)
    return root / "orders-0"


def test_sound_transactional_files_have_no_findings(transactions):
    assert verify_partition(DISK, transactions).findings == []
    names = {path.name for path in transactions.iterdir() if path.stat().st_size}
    assert any(name.endswith(".txnindex") for name in names)
    assert any(name.endswith(".snapshot") for name in names)


@pytest.fixture
def copied(transactions, tmp_path):
    return shutil.copytree(transactions, tmp_path / "orders-0")


def the_file(directory, ending):
    return max(
        (path for path in directory.glob(f"*.{ending}") if path.stat().st_size),
        key=lambda path: path.name,
    )


def test_a_lost_transaction_index_is_found(copied):
    the_file(copied, "txnindex").unlink()
    report = verify_partition(DISK, copied)
    assert {finding.kind for finding in report.findings} == {"transaction index"}
    assert "has no entry" in report.findings[0].sentence


def test_every_wrong_bit_of_a_transaction_index_is_found_or_widens(copied):
    """All but the last stable offset, and a first offset lowered: no record is shown by it."""
    path = the_file(copied, "txnindex")
    data = path.read_bytes()
    silent = set()
    for position in range(34):
        for bit in range(8):
            alter(path, position, bytes([data[position] ^ 1 << bit]))
            report = verify_partition(DISK, copied)
            assert {finding.kind for finding in report.findings} <= {"transaction index"}
            if report.ok:
                silent.add(position)
        alter(path, position, data[position : position + 1])
    assert silent <= {*range(10, 18), *range(26, 34)}


def test_a_transaction_index_that_is_cut(copied):
    path = the_file(copied, "txnindex")
    write_damaged(path, path.read_bytes()[:-1])
    kinds = {finding.kind for finding in verify_partition(DISK, copied).findings}
    assert kinds == {"transaction index"}


def test_every_wrong_bit_of_a_snapshot_is_found(copied):
    path = the_file(copied, "snapshot")
    data = path.read_bytes()
    for position in range(len(data)):
        alter(path, position, bytes([data[position] ^ 1 << position % 8]))
        assert only_finding(copied).kind == "snapshot"
        alter(path, position, data[position : position + 1])


def test_a_snapshot_that_forgot_a_transaction(copied):
    """An older snapshot under a newer name: its checksum is right."""
    snapshots = sorted(copied.glob("*.snapshot"))
    bases = {path.stem for path in copied.glob("*.log")}
    newer = [path for path in snapshots if path.stem in bases][-1]
    newer.write_bytes(bytes.fromhex("0001") + (crc32c(bytes(4))).to_bytes(4, "big") + bytes(4))
    finding = only_finding(copied)
    assert finding.kind == "snapshot"
    assert "missing, or begins later" in finding.sentence


@pytest.mark.parametrize(
    ("field", "kinds"),
    [(0, ["offsets"]), (23, ["offsets", "batch"])],
    ids=["base offset", "last offset delta"],
)
def test_one_corrupt_offset_is_not_charged_to_the_batches_behind_it(tmp_path, field, kinds):
    config = kstore.StoreConfig(background=False)
    with kstore.open(tmp_path, config=config) as store:
        log = store.create_topic("t", config={"index.interval.bytes": 100})[0]
        for n in range(3000):
            log.extend([b"%d" % n] * 10)
    path = tmp_path / "t-0" / filenames.log_name(0)
    position = size = 0
    for _ in range(11):
        position += size
        size = 12 + struct.unpack_from(">i", path.read_bytes(), position + 8)[0]
    alter(path, position + field, b"\x7f" if field == 23 else b"\x00\x00\x00\x00\x00\x7f\x00\x00")
    with kstore.open(tmp_path, mode="r") as store:
        report = store["t"].verify()
    found = [(each.kind, each.position) for each in report.findings if each.kind != "index"]
    assert found == [(kind, position) for kind in kinds]
    assert report.finding_count <= len(kinds) + 1  # the index entry of the batch
    with pytest.raises(CorruptRecordError) as caught:
        report.raise_if_corrupt()
    assert caught.value.position == position
