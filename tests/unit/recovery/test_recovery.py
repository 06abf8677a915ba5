"""Recovery of a partition directory: what is cut, what is kept, what is refused."""

import os
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import RecoveryNeededError, StorageError
from kstore.files import filenames
from kstore.files.files import DISK, Files
from kstore.recovery.recover_partition import recover_partition
from kstore.recovery.swap_files import finish_swaps
from oracle import writer
from oracle.plain import PlainRecord
from oracle.reader import read_log as oracle_read
from oracle.recovery import recover
from support.damage import write_damaged
from support.segments import (
    CONFIG,
    Copying,
    Unsynced,
    batches,
    check_indexes,
    contents,
    write_segment,
)


@pytest.mark.parametrize("files", [DISK, Copying()])
def test_an_unclean_log_without_a_torn_tail(tmp_path, files):
    first = write_segment(tmp_path, 0, batches(0, 10))
    second = write_segment(tmp_path, 10, batches(10, 5, epoch=4), index=False)
    recovered = recover_partition(files, tmp_path, 0, CONFIG)
    report = recovered.report
    assert (report.segments_scanned, report.batches) == (2, 15)
    assert report.bytes_scanned == len(first) + len(second)
    assert (report.cut_size, report.cut_offset, report.kept_in) == (0, None, None)
    assert report.indexes_rebuilt == 4
    assert report.milliseconds > 0
    check_indexes(tmp_path, 0, first)
    check_indexes(tmp_path, 10, second)
    assert [s.base_offset for s in recovered.segments] == [0, 10]
    assert [s.size for s in recovered.segments] == [len(first), len(second)]
    assert [s.next_offset for s in recovered.segments] == [10, 15]
    assert [s.max_timestamp for s in recovered.segments] == [1_009, 1_014]
    assert [s.first_timestamp for s in recovered.segments] == [1_000, 1_010]
    assert list(recovered.epochs) == [(0, 0), (4, 10)]
    assert contents(tmp_path)["leader-epoch-checkpoint"] == b"0\n2\n0 0\n4 10\n"
    before = contents(tmp_path)
    again = recover_partition(files, tmp_path, 0, CONFIG)
    assert again.report.indexes_rebuilt == 0
    assert contents(tmp_path) == before


def test_an_empty_directory_recovers_without_a_segment(tmp_path):
    recovered = recover_partition(DISK, tmp_path, 0, CONFIG)
    assert recovered.segments == ()
    assert len(recovered.epochs) == 0
    assert os.listdir(tmp_path) == []


def test_segments_below_the_recovery_point_are_not_read(tmp_path):
    corrupted = bytearray(write_segment(tmp_path, 0, batches(0, 10)))
    corrupted[-1] ^= 1
    write_damaged(tmp_path / filenames.log_name(0), corrupted)
    write_segment(tmp_path, 10, batches(10, 10))
    write_segment(tmp_path, 20, batches(20, 10))
    recovered = recover_partition(DISK, tmp_path, 13, CONFIG)
    assert recovered.report.segments_scanned == 2
    assert recovered.segments[0].next_offset is None
    assert recovered.segments[1].next_offset == 20
    clean = recover_partition(DISK, tmp_path, None, CONFIG)
    assert clean.report.segments_scanned == 0
    with pytest.raises(RecoveryNeededError) as caught:
        recover_partition(DISK, tmp_path, 9, CONFIG)
    assert caught.value.path == str(tmp_path / filenames.log_name(0))
    assert caught.value.offset == 9
    assert corrupted[caught.value.position :][:8] == struct.pack(">q", 9)


@pytest.mark.parametrize("index", [None, b"1234567"])
def test_a_clean_log_without_a_usable_index(tmp_path, index):
    data = write_segment(tmp_path, 0, batches(0, 10), index=False)
    write_segment(tmp_path, 10, batches(10, 3))
    if index is not None:
        (tmp_path / filenames.index_name(0)).write_bytes(index)
    recovered = recover_partition(DISK, tmp_path, None, CONFIG)
    assert recovered.report.segments_scanned == 1
    check_indexes(tmp_path, 0, data)
    (tmp_path / filenames.index_name(0)).unlink()
    (tmp_path / filenames.log_name(0)).write_bytes(data[:-1])
    before = contents(tmp_path)
    with pytest.raises(RecoveryNeededError):
        recover_partition(DISK, tmp_path, None, CONFIG)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("files", [Unsynced(), Copying()])
def test_recovery_keeps_all_batches_before_any_cut(tmp_path, files):
    parts = batches(10, 4)
    data = b"".join(parts)
    ends = [sum(map(len, parts[:n])) for n in range(5)]
    for size in range(len(data) + 1):
        directory = tmp_path / str(size)
        directory.mkdir()
        first = write_segment(directory, 0, batches(0, 2))
        write_segment(directory, 10, [data[:size]])
        recovered = recover_partition(files, directory, 10, CONFIG, sync=False)
        valid = max(end for end in ends if end <= size)
        found = contents(directory)
        assert found[filenames.log_name(0)] == first
        check_indexes(directory, 10, data[:valid])
        report = recovered.report
        assert report.cut_size == size - valid
        assert recovered.segments[-1].next_offset == 10 + ends.index(valid)
        kept = {name: held for name, held in found.items() if name.startswith("kstore.cut")}
        if size == valid:
            assert (report.kept_in, report.cut_offset, report.cut_reason) == (None, None, None)
            assert kept == {}
        elif any(data[valid:size]):
            assert kept == {filenames.cut_name(10, valid, 0): data[valid:size]}
            assert report.kept_in == str(directory / filenames.cut_name(10, valid, 0))
            assert report.cut_offset == 10 + ends.index(valid)
            assert report.cut_reason
        else:
            assert kept == {}  # some zeros, the first bytes of an offset


def test_every_flipped_bit_of_the_last_segment(tmp_path):
    """At or above the recovery point the log is cut there and loses nothing else; below it
    kstore refuses and leaves every byte alone. Bytes outside the checksum may pass."""
    parts = batches(10, 3, size=5)
    data = b"".join(parts)
    second = len(parts[0])
    passed = cut = refused = 0
    for position in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[position] ^= 1 << bit
            directory = tmp_path / f"{position}-{bit}"
            directory.mkdir()
            write_segment(directory, 10, [bad])
            before = contents(directory)
            try:
                report = recover_partition(Unsynced(), directory, 11, CONFIG, sync=False).report
            except RecoveryNeededError:
                refused += 1
                assert position < second
                assert contents(directory) == before
                continue
            found = contents(directory)
            held = found[filenames.log_name(10)]
            if report.kept_in is None:
                passed += 1
                assert held == bad
                assert recover(bytes(bad), 10).valid_size == len(bad)
            else:
                cut += 1
                assert position >= second or held == bad[:second]
                assert held + found[os.path.basename(report.kept_in)] == bad
                assert recover(bytes(bad), 10).valid_size == len(held)
    # Twelve bytes of each header are outside the checksum: those flips that leave the offsets
    # in order (or change only the epoch) pass.
    assert passed + cut + refused == len(data) * 8
    assert passed > 0
    assert cut > refused > 0


def test_a_zero_tail_is_not_kept(tmp_path):
    data = b"".join(batches(0, 3))
    write_segment(tmp_path, 0, [data, bytes(3 << 20)])
    report = recover_partition(DISK, tmp_path, 0, CONFIG).report
    assert report.cut_size == 3 << 20
    assert report.kept_in is None
    check_indexes(tmp_path, 0, data)
    (tmp_path / filenames.log_name(0)).write_bytes(data + bytes(3 << 20) + b"x")
    report = recover_partition(DISK, tmp_path, 0, CONFIG).report
    assert os.path.getsize(report.kept_in) == (3 << 20) + 1


def test_cut_files_never_replace_one_another(tmp_path):
    data = b"".join(batches(0, 3))
    for n in range(3):
        write_segment(tmp_path, 0, [data, b"torn %d" % n])
        recover_partition(DISK, tmp_path, 0, CONFIG)
    names = [filenames.cut_name(0, len(data), n) for n in range(3)]
    found = contents(tmp_path)
    assert [found[name] for name in names] == [b"torn 0", b"torn 1", b"torn 2"]


def test_damage_before_later_data_is_refused(tmp_path):
    write_segment(tmp_path, 0, [*batches(0, 5), b"torn"])
    write_segment(tmp_path, 5, batches(5, 5))
    before = contents(tmp_path)
    with pytest.raises(RecoveryNeededError) as caught:
        recover_partition(DISK, tmp_path, 0, CONFIG)
    assert caught.value.offset == 5
    assert contents(tmp_path) == before


def test_empty_segments_after_a_torn_one_are_removed(tmp_path):
    """A power cut just after a roll: the new files exist, the old one's tail does not."""
    data = write_segment(tmp_path, 0, batches(0, 5))
    write_segment(tmp_path, 0, [data, b"torn"])
    write_segment(tmp_path, 6, [])
    recovered = recover_partition(DISK, tmp_path, 0, CONFIG)
    assert [s.base_offset for s in recovered.segments] == [0]
    assert filenames.log_name(6) in recovered.report.removed
    assert not any(name.startswith(f"{6:020d}") for name in os.listdir(tmp_path))
    check_indexes(tmp_path, 0, data)


def test_overlapping_segments_are_refused(tmp_path):
    write_segment(tmp_path, 0, batches(0, 5))
    write_segment(tmp_path, 4, batches(4, 5))
    with pytest.raises(RecoveryNeededError) as caught:
        recover_partition(DISK, tmp_path, 0, CONFIG)
    assert caught.value.path == str(tmp_path / filenames.log_name(0))


@pytest.mark.parametrize("point", [None, 9])
def test_an_empty_segment_within_the_one_before_is_refused(tmp_path, point):
    """Appends to it would take offsets that are taken, and hide the records that have them."""
    write_segment(tmp_path, 0, batches(0, 5))
    for base in (2, 3):
        write_segment(tmp_path, base, [])
    before = contents(tmp_path)
    with pytest.raises(
        RecoveryNeededError, match=r"continues to offset 5, .* begins at 3"
    ) as caught:
        recover_partition(DISK, tmp_path, point, CONFIG)
    assert caught.value.path == str(tmp_path / filenames.log_name(0))
    assert contents(tmp_path) == before


def test_a_wrong_index_entry_is_not_reported_as_overlap(tmp_path):
    """What an entry leads to looks like a batch behind the end; the log itself has none there."""
    inner = batches(70, 1)[0]
    parts = [*batches(0, 4), writer.batch([PlainRecord(4, 1000, None, inner)])]
    data = write_segment(tmp_path, 0, parts)
    index = tmp_path / filenames.index_name(0)
    index.write_bytes(struct.pack(">ii", 70, data.index(inner)))
    write_segment(tmp_path, 5, [])
    recovered = recover_partition(DISK, tmp_path, None, CONFIG)
    assert [s.base_offset for s in recovered.segments] == [0, 5]


def test_index_entries_and_snapshots_of_cut_offsets_are_removed(tmp_path):
    def aborted(first, last):
        return struct.pack(">hqqqq", 0, 7, first, last, last + 1)

    write_segment(tmp_path, 0, [*batches(0, 5), b"torn"])
    transactions = tmp_path / filenames.transaction_index_name(0)
    transactions.write_bytes(aborted(0, 2) + aborted(3, 4) + aborted(5, 6) + b"half")
    for offset in (0, 5, 6):
        (tmp_path / filenames.snapshot_name(offset)).write_bytes(b"snapshot")
    LeaderEpochs([(0, 0), (9, 5), (12, 6)]).save(DISK, tmp_path / "leader-epoch-checkpoint")
    recovered = recover_partition(DISK, tmp_path, 0, CONFIG)
    assert transactions.read_bytes() == aborted(0, 2) + aborted(3, 4)
    assert sorted(n for n in os.listdir(tmp_path) if n.endswith("snapshot")) == [
        filenames.snapshot_name(0),
        filenames.snapshot_name(5),
    ]
    assert list(recovered.epochs) == [(0, 0), (9, 5)]  # begun at the log end
    assert LeaderEpochs.load(DISK, tmp_path / "leader-epoch-checkpoint") == recovered.epochs


def test_malformed_epochs_are_rebuilt_from_what_was_scanned(tmp_path):
    write_segment(tmp_path, 0, batches(0, 5, epoch=3))
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n7\n")
    recovered = recover_partition(DISK, tmp_path, 0, CONFIG)
    assert list(recovered.epochs) == [(3, 0)]
    assert contents(tmp_path)["leader-epoch-checkpoint"] == b"0\n1\n3 0\n"


def test_index_files_without_a_log_are_removed(tmp_path):
    write_segment(tmp_path, 0, batches(0, 2))
    for name in (filenames.index_name(9), filenames.transaction_index_name(9)):
        (tmp_path / name).write_bytes(b"x" * 8)
    (tmp_path / filenames.snapshot_name(9)).write_bytes(b"x")
    report = recover_partition(DISK, tmp_path, None, CONFIG).report
    assert set(report.removed) == {filenames.index_name(9), filenames.transaction_index_name(9)}
    assert filenames.snapshot_name(9) in os.listdir(tmp_path)


def test_cut_bytes_are_on_disk_before_they_leave_the_log(tmp_path):
    class Recording(Files):
        def __init__(self):
            self.calls = []

        def fsync(self, fd):
            self.calls.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
            super().fsync(fd)

        def sync_directory(self, path):
            self.calls.append(("directory", str(path)))
            super().sync_directory(path)

        def truncate(self, fd, size):
            self.calls.append(("truncate", os.readlink(f"/proc/self/fd/{fd}")))
            super().truncate(fd, size)

    data = write_segment(tmp_path, 0, batches(0, 3))
    write_segment(tmp_path, 0, [data, b"torn"])
    files = Recording()
    report = recover_partition(files, tmp_path, 0, CONFIG).report
    log = str(tmp_path / filenames.log_name(0))
    assert files.calls[:4] == [
        ("fsync", report.kept_in + ".tmp"),
        ("directory", str(tmp_path)),
        ("truncate", log),
        ("fsync", log),
    ]


def test_a_failing_disk_loses_nothing(tmp_path):
    """Each call that changes the disk fails once: the log's bytes are then in the log or kept."""

    class Failing(Files):
        native = False

        def __init__(self, at):
            self.left = at

        def step(self):
            self.left -= 1
            if self.left == 0:
                raise StorageError("on purpose", errno=5)

        def write(self, fd, *buffers):
            self.step()
            return super().write(fd, *buffers)

        def truncate(self, fd, size):
            self.step()
            super().truncate(fd, size)

        def fsync(self, fd):
            self.step()
            super().fsync(fd)

        def rename(self, source, target):
            self.step()
            super().rename(source, target)

        def remove(self, path):
            self.step()
            super().remove(path)

        def sync_directory(self, path):
            self.step()
            super().sync_directory(path)

    data = b"".join(batches(0, 5))
    failed = 0
    for at in range(1, 60):
        directory = tmp_path / str(at)
        directory.mkdir()
        write_segment(directory, 0, [data, b"torn"])
        write_segment(directory, 6, [])
        try:
            recover_partition(Failing(at), directory, 0, CONFIG)
        except StorageError:
            failed += 1
        recovered = recover_partition(DISK, directory, 0, CONFIG)
        check_indexes(directory, 0, data)
        assert [s.base_offset for s in recovered.segments] == [0]
        assert recovered.segments[0].next_offset == 5
        kept = [held for name, held in contents(directory).items() if "cut" in name]
        assert b"torn" in kept
    assert failed > 10


# --- leftovers ------------------------------------------------------------------------------


def put(directory, *names):
    for name in names:
        (directory / name).write_bytes(b"")


def test_deleted_and_cleaned_files_are_removed(tmp_path):
    write_segment(tmp_path, 0, batches(0, 2))
    put(
        tmp_path,
        filenames.log_name(7, ".deleted"),
        filenames.snapshot_name(7, ".deleted"),
        filenames.log_name(0, ".cleaned"),
        "notes.deleted",
        "00000000000000000000-0000000001.checkpoint.deleted",
    )
    removed, swapped = finish_swaps(DISK, tmp_path, CONFIG)
    assert len(removed) == 3
    assert swapped == []
    assert sorted(os.listdir(tmp_path)) == [
        "00000000000000000000-0000000001.checkpoint.deleted",
        filenames.index_name(0),
        filenames.log_name(0),
        filenames.time_index_name(0),
        "notes.deleted",
    ]


def test_swaps_at_or_above_the_lowest_cleaned_file_are_undone(tmp_path):
    """Cleaning stopped while it renamed: descending order, so 20 was done before 10."""
    old = {base: write_segment(tmp_path, base, batches(base, 10)) for base in (0, 10, 20)}
    put(
        tmp_path,
        filenames.log_name(20, ".swap"),
        filenames.log_name(10, ".swap"),
        filenames.index_name(10, ".cleaned"),
    )
    removed, swapped = finish_swaps(DISK, tmp_path, CONFIG)
    assert len(removed) == 3
    assert swapped == []
    for base, data in old.items():
        assert (tmp_path / filenames.log_name(base)).read_bytes() == data


def test_a_complete_swap_is_finished(tmp_path):
    for base in (0, 10, 20, 30):
        write_segment(tmp_path, base, batches(base, 10))
        (tmp_path / filenames.snapshot_name(base)).write_bytes(b"")
    compacted = [*batches(0, 1), *batches(29, 1)]
    (tmp_path / filenames.log_name(0, ".swap")).write_bytes(b"".join(compacted))
    put(tmp_path, filenames.index_name(0, ".swap"), filenames.time_index_name(0, ".swap"))
    removed, swapped = finish_swaps(DISK, tmp_path, CONFIG)
    assert len(swapped) == 3
    assert (tmp_path / filenames.log_name(0)).read_bytes() == b"".join(compacted)
    assert sorted(n for n in os.listdir(tmp_path) if n.endswith(("log", "snapshot"))) == [
        filenames.log_name(0),
        filenames.log_name(30),
        filenames.snapshot_name(30),
    ]
    assert len(removed) == 12
    recovered = recover_partition(DISK, tmp_path, 0, CONFIG)
    assert [s.base_offset for s in recovered.segments] == [0, 30]


def test_a_swap_of_an_emptied_segment_is_finished(tmp_path):
    write_segment(tmp_path, 0, batches(0, 10))
    write_segment(tmp_path, 10, batches(10, 10))
    put(tmp_path, filenames.log_name(0, ".swap"), filenames.index_name(0, ".swap"))
    finish_swaps(DISK, tmp_path, CONFIG)
    assert (tmp_path / filenames.log_name(0)).read_bytes() == b""
    assert sorted(os.listdir(tmp_path)) == [
        filenames.index_name(0),
        filenames.log_name(0),
        filenames.index_name(10),
        filenames.log_name(10),
        filenames.time_index_name(10),
    ]


def test_a_damaged_swap_replaces_nothing(tmp_path):
    write_segment(tmp_path, 0, batches(0, 10))
    (tmp_path / filenames.log_name(0, ".swap")).write_bytes(b"".join(batches(0, 2))[:-1])
    before = contents(tmp_path)
    with pytest.raises(RecoveryNeededError) as caught:
        recover_partition(DISK, tmp_path, 0, CONFIG)
    assert caught.value.path == str(tmp_path / filenames.log_name(0, ".swap"))
    assert contents(tmp_path) == before


def test_an_interrupted_finish_can_be_finished_again(tmp_path):
    """Stop after every rename and removal; the next start must reach the same files."""

    class Stopping(Files):
        def __init__(self, at):
            self.left = at

        def step(self):
            if self.left == 0:
                raise StorageError("stop")
            self.left -= 1

        def rename(self, source, target):
            self.step()
            super().rename(source, target)

        def remove(self, path):
            self.step()
            super().remove(path)

    results = []
    stopped = 0
    for at in range(30):
        directory = tmp_path / str(at)
        directory.mkdir()
        for base in (0, 10, 20):
            write_segment(directory, base, batches(base, 10))
        compacted = b"".join([*batches(0, 1), *batches(19, 1)])
        (directory / filenames.log_name(0, ".swap")).write_bytes(compacted)
        put(directory, filenames.index_name(0, ".swap"))
        put(directory, filenames.log_name(99, ".deleted"))
        try:
            recover_partition(Stopping(at), directory, 0, CONFIG)
        except StorageError:
            stopped += 1
        recover_partition(DISK, directory, 0, CONFIG)
        results.append(contents(directory))
        assert results[-1][filenames.log_name(0)] == compacted
    assert stopped > 8
    assert all(result == results[-1] for result in results)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 25))
def test_random_damage_is_cut_kept_or_refused(tmp_path_factory, seed, recovery_point):
    rng = random.Random(seed)
    directory = tmp_path_factory.mktemp("damage")
    first = write_segment(directory, 0, batches(0, 10))
    second = bytearray(b"".join(batches(10, 10)))
    for _ in range(rng.randrange(3)):
        second[rng.randrange(len(second))] = rng.randrange(256)
    del second[rng.randrange(len(second)) :]
    write_segment(directory, 10, [second])
    before = contents(directory)
    expected = recover(bytes(second), 10)
    try:
        recovered = recover_partition(Unsynced(), directory, recovery_point, CONFIG)
    except RecoveryNeededError as error:
        assert contents(directory) == before
        assert error.position == expected.valid_size  # noqa: PT017 - not raised by every example
        # The last valid batch counts from the end of the one before: its base offset may be wrong.
        valid = oracle_read(bytes(second[: expected.valid_size])).batches
        before_last = [10, *(batch.last_offset + 1 for batch in valid)][-2:][0]
        assert min(expected.next_offset, before_last) < recovery_point
        return
    found = contents(directory)
    kept = found[os.path.basename(recovered.report.kept_in)] if recovered.report.kept_in else b""
    assert found[filenames.log_name(0)] == first
    assert (found[filenames.log_name(10)] + kept).ljust(len(second), b"\0") == second
    assert recovered.segments[-1].next_offset == expected.next_offset


def test_mode_kafka_quarantines_segments_after_a_torn_one(tmp_path):
    """A power cut after a roll that was never flushed: the old segment's tail is gone."""
    kept = write_segment(tmp_path, 0, batches(0, 5))
    write_segment(tmp_path, 0, [kept, b"torn"])
    second = write_segment(tmp_path, 6, batches(6, 5))
    third = write_segment(tmp_path, 11, batches(11, 5))
    recovered = recover_partition(DISK, tmp_path, 3, CONFIG, mode="kafka")
    assert [s.base_offset for s in recovered.segments] == [0]
    assert recovered.report.cut_offset == 5
    found = contents(tmp_path)
    assert found[filenames.log_name(0)] == kept
    assert found[filenames.cut_name(0, len(kept), 0)] == b"torn"
    assert found[filenames.cut_name(6, 0, 0)] == second
    assert found[filenames.cut_name(11, 0, 0)] == third
    check_indexes(tmp_path, 0, kept)
