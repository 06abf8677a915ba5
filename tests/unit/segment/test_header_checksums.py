"""The seal: every single-bit flip of a rolled segment is seen; it counts for one file only."""

import os

import pytest

import kstore
from kstore import LogConfig
from kstore._native.recovery.header_checksums import GROUP_BATCHES, ChecksumCheck, ChecksumWriter
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import StorageError
from kstore.files import filenames
from kstore.files.files import DISK, Files
from kstore.segment import header_checksums
from kstore.verify.partition import verify_partition
from oracle import writer
from oracle.crc import crc32c
from oracle.plain import PlainRecord
from oracle.reader import read_log
from oracle.recovery import recover
from support.damage import write_damaged


class Stamped(Files):
    """A disk whose files do not look touched: a bit that flips by itself stamps nothing."""

    def stamp(self, fd):
        return 5, 7, self.size(fd)


STAMPED = Stamped()


def record(offset):
    return PlainRecord(offset, 1_000_000 + offset, b"k", b"v%d" % offset)


def with_gaps(first):
    """As compaction leaves them: batches v2 with offsets missing between them."""
    return [
        writer.batch([record(first + n)], leader_epoch=2, codec=n % 2) for n in (0, 40, 300, 301)
    ]


def without_gaps(first):
    return [writer.batch([record(first + n)], leader_epoch=2) for n in range(4)]


def old(first, magic):
    return [
        writer.message(first, b"k", b"v", magic=magic, timestamp=1_000_000),
        writer.wrapper([record(first + 1), record(first + 2)], magic=magic, codec=1),
        writer.message(first + 3, b"k", b"w", magic=magic, timestamp=1_000_000),
    ]


FORMATS = {
    "v0": lambda first: old(first, 0),
    "v1": lambda first: old(first, 1),
    "v2": without_gaps,
    "v2, gaps": with_gaps,
    "all": lambda first: [
        *old(first, 0),
        *old(first + 4, 1),
        writer.batch([record(first + 8)], leader_epoch=2),
    ],
}


def make_partition(directory, parts):
    data = b"".join(parts)
    found = recover(data, 100, 0)
    (directory / filenames.log_name(100)).write_bytes(data)
    (directory / filenames.index_name(100)).write_bytes(writer.offset_index(found.index, 100))
    times = writer.time_index(found.time_index, 100)
    (directory / filenames.time_index_name(100)).write_bytes(times)
    (directory / filenames.log_name(1000)).write_bytes(b"".join(without_gaps(1000)))
    LeaderEpochs([(2, 0)]).save(DISK, directory / "leader-epoch-checkpoint")
    return directory / filenames.log_name(100), data


def unseen(directory, path, data):
    """Bytes within a batch of flips that verify is silent about."""
    starts = [batch.position for batch in read_log(data).batches]
    silent = []
    with path.open("r+b", buffering=0) as file:
        for position in range(len(data)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([data[position] ^ 1 << bit]), position)
                if verify_partition(STAMPED, directory).ok:
                    silent.append(position - max(at for at in starts if at <= position))
            os.pwrite(file.fileno(), data[position : position + 1], position)
    return silent


# Without a seal. See docs/format/kstore-files.md.
MISSES = {"v0": 6, "v1": 6, "v2": 9, "v2, gaps": 25, "all": 9}


@pytest.mark.parametrize("name", FORMATS)
def test_every_flipped_bit_is_seen(name, tmp_path):
    path, data = make_partition(tmp_path, FORMATS[name](100))
    misses = unseen(tmp_path, path, data)
    assert len(misses) == MISSES[name]
    assert {*misses} <= {*range(8), *range(12, 16)}
    assert header_checksums.write(STAMPED, tmp_path, 100)
    report = verify_partition(STAMPED, tmp_path)
    assert report.ok
    assert report.unsealed_segments == 1  # the last one
    assert unseen(tmp_path, path, data) == []
    assert verify_partition(STAMPED, tmp_path).ok


def many(count):
    return [writer.batch([record(100 + n)], leader_epoch=2) for n in range(count)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("window", [21, 100, 1 << 20])
def test_a_seal_is_what_the_oracle_says(count, window):
    parts = many(count)
    data = b"".join(parts)
    maker = ChecksumWriter(len(data))
    while maker.position < len(data):
        assert maker.feed(data[maker.position : maker.position + window])
    expected, position = b"", 0
    for first in range(0, count, GROUP_BATCHES):
        group = parts[first : first + GROUP_BATCHES]
        sums = crc32c(b"".join(part[:21] for part in group))
        expected += position.to_bytes(8, "big") + sums.to_bytes(4, "big")
        position += sum(map(len, group))
    assert maker.finish() == expected
    assert maker.batches == count


def test_a_wrong_header_is_located_by_its_group():
    parts = many(200)
    data = bytearray(b"".join(parts))
    maker = ChecksumWriter(len(data))
    assert maker.feed(data)
    groups = maker.finish()
    bounds = [*(len(b"".join(parts[:n])) for n in range(0, 200, 64)), len(data)]
    data[bounds[1] + 14] ^= 1
    check = ChecksumCheck(groups, len(data))
    found = []
    for start in range(0, 200, 7):  # windows that are no groups
        chunk_start = len(b"".join(parts[:start]))
        window = data[chunk_start : len(b"".join(parts[: start + 7]))]
        found += check.feed(window, chunk_start)
    assert found + check.finish() == [(bounds[1], bounds[2])]
    # A batch that was stepped over as damaged makes its group bad, and no other.
    data[bounds[1] + 14] ^= 1
    check = ChecksumCheck(groups, len(data))
    skipped = len(parts[0]) * 130
    chunk_start = len(b"".join(parts[:130]))
    assert chunk_start == skipped or chunk_start > 0
    found = check.feed(data[:chunk_start], 0) + check.feed(
        data[chunk_start + len(parts[130]) :], chunk_start + len(parts[130])
    )
    assert found + check.finish() == [(bounds[2], bounds[3])]


def test_bytes_that_are_no_batches_are_not_sealed(tmp_path):
    (tmp_path / filenames.log_name(0)).write_bytes(b"".join(many(3))[:-1])
    assert not header_checksums.write(DISK, tmp_path, 0)
    assert not header_checksums.write(DISK, tmp_path, 77)
    assert [path.name for path in tmp_path.iterdir()] == [filenames.log_name(0)]


def sealed_store(path):
    store = kstore.open(path)
    log = store.create_topic("orders", config=LogConfig(segment_bytes=2000, batch_size=500))[0]
    for n in range(60):
        log.append(b"%d" % n * 40)
    log.flush()
    return store, log


def seals(log):
    return sorted(name for name in os.listdir(log.path) if name.startswith(filenames.SEAL))


def test_a_log_seals_what_it_rolled_and_synced(tmp_path):
    store, log = sealed_store(tmp_path / "data")
    bases = [view.base_offset for view in log._writer.state.segments.views]
    assert len(bases) > 3
    assert seals(log) == [filenames.header_checksums_name(base) for base in bases[:-1]]
    assert log.verify().unsealed_segments == 1
    log.delete_records(bases[2])
    assert seals(log) == [filenames.header_checksums_name(base) for base in bases[2:-1]]
    log.truncate_to(bases[3] + 1)
    assert seals(log) == [filenames.header_checksums_name(bases[2])]
    store.close()


def test_a_seal_of_another_file_is_none(tmp_path):
    store, log = sealed_store(tmp_path / "data")
    store.close()
    path = os.path.join(log.path, filenames.log_name(0))
    with open(path, "rb") as file:
        data = file.read()
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)  # as Kafka's cleaner does
    assert verify_partition(DISK, log.path).unsealed_segments == 2
    assert header_checksums.write(DISK, log.path, 0)
    assert verify_partition(DISK, log.path).unsealed_segments == 1


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1])
def test_a_seal_that_is_cut_or_torn_is_none(cut, tmp_path):
    store, log = sealed_store(tmp_path / "data")
    store.close()
    path = header_checksums.path_of(log.path, 0)
    with open(path, "rb") as file:
        data = file.read()
    # Torn: a block of before, whose bytes are others; zeros could be the older bytes.
    for bad in (data[:cut], data[:cut] + bytes(each ^ 0xFF for each in data[cut:])):
        with open(path, "wb") as file:
            file.write(data)
        write_damaged(path, bad)
        assert verify_partition(DISK, log.path).unsealed_segments == 2
        assert verify_partition(DISK, log.path).ok


def test_a_seal_of_a_newer_format_is_named(tmp_path, caplog):
    store, log = sealed_store(tmp_path / "data")
    store.close()
    path = header_checksums.path_of(log.path, 0)
    newer = b'{"format": 2, "what": "only a newer kstore knows"}\nrest'
    with open(path, "wb") as file:
        file.write(newer)
    report = verify_partition(DISK, log.path)
    (finding,) = report.findings
    assert (finding.kind, finding.path) == ("seal", path)
    assert "format 2" in finding.sentence
    assert report.unsealed_segments == 2
    assert not header_checksums.write(DISK, log.path, 0)  # and is not written over
    assert "format 2" in caplog.text
    with open(path, "rb") as file:
        assert file.read() == newer


class NoSeals(Files):
    """A disk that is full when a seal is to be written."""

    def write(self, fd, *buffers):
        if filenames.SEAL in os.readlink(f"/proc/self/fd/{fd}"):
            raise StorageError("cannot write", errno=28)
        return super().write(fd, *buffers)


def test_a_seal_that_cannot_be_written_fails_nothing(tmp_path, caplog):
    store, log = sealed_store(tmp_path / "data")
    store.close()
    os.unlink(header_checksums.path_of(log.path, 0))
    assert not header_checksums.write(NoSeals(), log.path, 0)
    assert "no header checksums were written" in caplog.text
