"""Recovery of what lies beside the log: indexes that lie, epochs, an interrupted compaction."""

import os
from contextlib import closing

import pytest

from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.files import filenames
from kstore.files.files import DISK, Files
from kstore.recovery.recover_partition import recover_partition
from oracle import writer
from oracle.recovery import recover
from support.logs import open_log
from support.segments import CONFIG, Unsynced, batches, check_indexes, contents, write_segment

# --- side files that lie ------------------------------------------------------------------------


def sealed_log(directory, count=40):
    """A clean log of two segments with the indexes that a scan would make."""
    data = b"".join(batches(0, count))
    expected = recover(data, 0, CONFIG.index_interval_bytes)
    write_segment(directory, 0, [data])
    write_segment(directory, count, batches(count, 2))
    (directory / filenames.index_name(0)).write_bytes(writer.offset_index(expected.index, 0))
    (directory / filenames.time_index_name(0)).write_bytes(
        writer.time_index(expected.time_index, 0)
    )
    LeaderEpochs([(0, 0)]).save(DISK, directory / "leader-epoch-checkpoint")
    return data, expected


def spoil_index(path, expected, how):
    entries = list(expected.index)
    if how == "last points nowhere":
        entries[-1] = (entries[-1][0], entries[-1][1] + 3)
    elif how == "last points behind the log":
        entries[-1] = (entries[-1][0], 1 << 20)
    elif how == "first doubled":
        entries.insert(0, entries[0])
    elif how == "last leads too far":
        entries[-3:] = [(entries[-4][0] + 1, entries[-1][1])]
    elif how == "odd in the middle":
        entries[len(entries) // 2] = entries[0]
    path.write_bytes(writer.offset_index(entries, 0))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        "last points nowhere",
        "last points behind the log",
        "first doubled",
        "last leads too far",
        "odd in the middle",
    ],
)
def test_wrong_index_entries_are_seen_at_open(tmp_path, how, clean):
    data, expected = sealed_log(tmp_path)
    assert recover_partition(DISK, tmp_path, None, CONFIG).report.steps == ()
    spoil_index(tmp_path / filenames.index_name(0), expected, how)
    report = recover_partition(DISK, tmp_path, None if clean else 40, CONFIG).report
    assert filenames.index_name(0) in report.rebuilt
    assert filenames.index_name(0) in str(report)
    check_indexes(tmp_path, 0, data)
    assert recover_partition(DISK, tmp_path, None, CONFIG).report.steps == ()


def test_only_after_a_kill_is_a_large_index_checked_between_its_ends(tmp_path):
    """A clean open costs the same for every size; reads do not depend on it."""
    _, expected = sealed_log(tmp_path, 400)
    assert len(expected.index) > 150
    spoil_index(tmp_path / filenames.index_name(0), expected, "odd in the middle")
    assert recover_partition(DISK, tmp_path, None, CONFIG).report.steps == ()
    report = recover_partition(DISK, tmp_path, 400, CONFIG).report
    assert "offsets of the offset index do not increase" in str(report)


@pytest.mark.parametrize("left", [None, b"", b"odd"])
def test_a_lost_time_index_is_rebuilt(tmp_path, left):
    """Kafka creates it again and leaves it empty; then it finds nothing by time."""
    data, _ = sealed_log(tmp_path)
    path = tmp_path / filenames.time_index_name(0)
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    report = recover_partition(DISK, tmp_path, None, CONFIG).report
    assert report.rebuilt == (filenames.time_index_name(0),)
    check_indexes(tmp_path, 0, data)


def test_a_lost_time_index_of_a_damaged_segment_does_not_prevent_opening(tmp_path):
    data, _ = sealed_log(tmp_path)
    (tmp_path / filenames.time_index_name(0)).unlink()
    bad = data[:-1] + bytes([data[-1] ^ 1])
    (tmp_path / filenames.log_name(0)).write_bytes(bad)
    report = recover_partition(DISK, tmp_path, None, CONFIG).report
    assert report.rebuilt == ()
    assert f"{filenames.log_name(0)} is corrupt at position" in str(report)
    assert (tmp_path / filenames.log_name(0)).read_bytes() == bad


def test_messages_without_timestamps_need_no_time_index_entries(tmp_path):
    message = writer.message(0, None, b"v0", magic=0)
    write_segment(tmp_path, 0, [message])
    (tmp_path / filenames.time_index_name(0)).write_bytes(b"")
    LeaderEpochs([]).save(DISK, tmp_path / "leader-epoch-checkpoint")
    assert recover_partition(DISK, tmp_path, None, CONFIG).report.steps == ()


def test_lost_epochs_are_rebuilt_from_the_batches(tmp_path):
    """Segments that begin and end in one epoch are not read for it; the others are."""
    write_segment(tmp_path, 0, [*batches(0, 3, epoch=1), *batches(3, 3, epoch=2)])
    for first in (6, 10, 14):
        write_segment(tmp_path, first, batches(first, 4, epoch=4))
    write_segment(tmp_path, 18, [*batches(18, 2, epoch=4), *batches(20, 2, epoch=7)])
    opened = []

    class Watching(Files):
        def map(self, fd, size):
            opened.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            return super().map(fd, size)

    recovered = recover_partition(Watching(), tmp_path, None, CONFIG)
    assert list(recovered.epochs) == [(1, 0), (2, 3), (4, 6), (7, 20)]
    assert LeaderEpochs.load(DISK, tmp_path / "leader-epoch-checkpoint") == recovered.epochs
    assert recovered.report.rebuilt == ("leader-epoch-checkpoint",)
    assert opened == [filenames.log_name(0), filenames.log_name(18)]


def test_a_segment_that_readers_may_have_mapped_is_not_cut_in_place(tmp_path):
    data = b"".join(batches(0, 5))
    write_segment(tmp_path, 0, [data, b"torn"])
    write_segment(tmp_path, 5, batches(5, 5))
    with open(tmp_path / filenames.log_name(0), "rb") as reader:
        recover_partition(DISK, tmp_path, 0, CONFIG, mode="kafka")
        assert reader.read() == data + b"torn"
    assert (tmp_path / filenames.log_name(0)).read_bytes() == data
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".cleaned")]


# --- an interrupted swap, at every rename --------------------------------------------------------


def renames_of_a_swap(new, old):
    """Kafka's order: new ones to .swap by descending base, old ones to .deleted, .swap away."""
    steps = []
    for base in sorted(new, reverse=True):
        for kind in filenames.SEGMENT_KINDS[:3]:
            name = filenames.file_name(base, kind)
            steps.append((name + ".cleaned", name + ".swap"))
    for base in sorted(old):
        for kind in filenames.SEGMENT_KINDS[:3]:
            name = filenames.file_name(base, kind)
            steps.append((name, name + ".deleted"))
    for base in sorted(new):
        for kind in filenames.SEGMENT_KINDS[:3]:
            name = filenames.file_name(base, kind)
            steps.append((name + ".swap", name))
    return steps


SWAPS = {
    "two into one": {0: [(2, 2), (8, 2)]},
    "one into two": {0: [(0, 3)], 4: [(4, 6)]},
    "two into two others": {0: [(0, 2)], 7: [(7, 3)]},
}


@pytest.mark.parametrize("name", SWAPS)
def test_a_swap_killed_at_any_rename_leaves_all_old_or_all_new_segments(tmp_path, name):
    """Either all of the old segments or all of the new: never some of both, nothing twice."""
    new = {
        base: b"".join(b"".join(batches(*p)) for p in parts) for base, parts in SWAPS[name].items()
    }
    old = {0: b"".join(batches(0, 6)), 6: b"".join(batches(6, 4))}
    later = b"".join(batches(10, 2))
    steps = renames_of_a_swap(new, old)
    outcomes = []
    for done in range(len(steps) + 1):
        directory = tmp_path / str(done)
        directory.mkdir()
        for base, data in {**old, 10: later}.items():
            write_segment(directory, base, [data])
        for base, data in new.items():
            for kind, content in (("log", data), ("index", b""), ("timeindex", b"")):
                path = directory / filenames.file_name(base, kind, ".cleaned")
                path.write_bytes(content)
        for source, target in steps[:done]:
            os.rename(directory / source, directory / target)
        report = recover_partition(Unsynced(), directory, 10, CONFIG).report
        found = {p: d for p, d in contents(directory).items() if p.endswith(".log")}
        wanted = [
            {filenames.log_name(base): data for base, data in {**logs, 10: later}.items()}
            for logs in (old, new)
        ]
        assert found in wanted, (done, sorted(found))
        outcomes.append(wanted.index(found))
        assert not [
            n for n in os.listdir(directory) if n.endswith((".swap", ".cleaned", ".deleted"))
        ]
        assert report.removed
        again = contents(directory)
        recover_partition(Unsynced(), directory, 10, CONFIG)
        assert contents(directory) == again
    # The old ones until the last .cleaned is renamed, the new ones from then on.
    last = max(n for n, (source, _) in enumerate(steps) if source.endswith(".cleaned"))
    assert outcomes == [0] * (last + 1) + [1] * (len(steps) - last)


class CountingReads(Files):
    """Counts the bytes that are read by position; a scan maps the file."""

    bytes_read = 0

    def pread(self, fd, size, position):
        self.bytes_read += size
        return super().pread(fd, size, position)


def test_a_scanned_segment_is_not_read_again_for_its_largest_timestamp(tmp_path):
    with closing(open_log(tmp_path)) as log:
        for _ in range(500):
            log.append(b"v" * 1000, timestamp=7)  # one entry in the time index
    size = (tmp_path / filenames.log_name(0)).stat().st_size
    files = CountingReads()
    with closing(open_log(tmp_path, files=files, clean=False)) as log:
        assert log.offset_at(7) == 0
        assert log.offset_at(8) == 500
    assert files.bytes_read < size // 10
