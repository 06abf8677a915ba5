"""Offset checkpoints, leader epochs and the clean-shutdown marker."""

import os
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kstore.checkpoint import clean_shutdown
from kstore.checkpoint import offset_checkpoint as checkpoint
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import CorruptFileError, StorageError
from kstore.files.files import DISK

PATH = "recovery-point-offset-checkpoint"
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=20
).filter(lambda name: len(name.split()) == 1 and name.isprintable())
partitions = st.tuples(names, st.integers(0, 2**31 - 1))
mappings = st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=20)


def test_offsets_have_kafkas_bytes():
    data = b"0\n2\norders 0 1523\norders 1 98\n"
    offsets = checkpoint.parse_offsets(data, PATH)
    assert offsets == {("orders", 0): 1523, ("orders", 1): 98}
    assert checkpoint.format_offsets(offsets) == data
    assert checkpoint.format_offsets({}) == b"0\n0\n"


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0\n", b"0\n0"])
def test_a_checkpoint_without_entries_is_empty(data):
    assert checkpoint.parse_offsets(data, PATH) == {}


@pytest.mark.parametrize("data", [b"0\r\n1\r\na 0 5\r\n", b"0\n1\na\t0  5", b"0\n1\na 0 5 \n"])
def test_checkpoints_that_javas_reader_accepts_are_accepted(data):
    assert checkpoint.parse_offsets(data, PATH) == {("a", 0): 5}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"1\n", 1),
        (b"x\n0\n", 1),
        (b"\n", 1),
        (b" 0\n0\n", 1),
        (b"-1\n0\n", 1),
        (b"0\nx\n", 2),
        (b"0\n-1\n", 2),
        (b"0\n1\n", 2),
        (b"0\n0\na 0 5\n", 2),
        (b"0\n2\na 0 5\n", 2),
        (b"0\n99999999999999999999\n", 2),
        (b"0\n1\na 0\n", 3),
        (b"0\n1\na 0 5 6\n", 3),
        (b"0\n1\n a 0 5\n", 3),
        (b"0\n1\n\n", 3),
        (b"0\n1\na 0 x\n", 3),
        (b"0\n1\na 0 -5\n", 3),
        (b"0\n1\na 0 1_0\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        (b"0\n1\na 2147483648 0\n", 3),
        (b"0\n1\na \xd9\xa1 0\n", 3),
        (b"0\n2\na 0 5\na 0 6\n", 4),
        (b"0\n1\n\xff 0 5\n", 3),
        (b"0\n1\na 0 " + b"9" * 5000 + b"\n", 3),
    ],
)
def test_everything_else_is_refused_with_its_line(data, line):
    with pytest.raises(CorruptFileError) as caught:
        checkpoint.parse_offsets(data, PATH)
    assert caught.value.path == PATH
    assert caught.value.reason.startswith(f"line {line}: ")


@given(mappings)
def test_offsets_round_trip(mapping):
    assert checkpoint.parse_offsets(checkpoint.format_offsets(mapping), PATH) == mapping


@given(st.one_of(st.binary(max_size=60), st.text("01 \n\ra-+", max_size=40).map(str.encode)))
def test_any_bytes_parse_or_are_refused(data):
    try:
        mapping = checkpoint.parse_offsets(data, PATH)
    except CorruptFileError:
        return
    assert checkpoint.parse_offsets(checkpoint.format_offsets(mapping), PATH) == mapping


_SIMILAR = st.text("01 9\n\r\t\x1c\xa0a+-_", max_size=30).map(lambda end: f"0\n1\na 0 5{end}")


def line_by_line(data: bytes) -> dict[tuple[str, int], int] | str:
    """The entries, or the error, by the parser that names the line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_parse_as_written", lambda data: None)
        return parsed(data)


def parsed(data: bytes) -> dict[tuple[str, int], int] | str:
    try:
        return checkpoint.parse_offsets(data, PATH)
    except CorruptFileError as error:
        return str(error)


@given(st.one_of(mappings.map(checkpoint.format_offsets), _SIMILAR.map(str.encode)))
@example(b"0\n2\na 0 5\na 0 5\n")
@example(b"0\n1\na 4294967296 5\n")
@example(b"0\n2\na 0 5\n")
def test_a_checkpoint_parsed_at_once_has_the_entries_and_errors_of_each_line(data):
    assert parsed(data) == line_by_line(data)


def test_what_a_writer_leaves_is_parsed_at_once():
    written = {("orders", 0): 10**17, ("a.b_c-d", 2**31 - 1): 0}
    assert checkpoint._parse_as_written(checkpoint.format_offsets(written)) == written


@given(mappings, st.data())
def test_a_cut_checkpoint_never_reads_as_another_one(mapping, data):
    """A file cut anywhere is refused, or has all its entries (only the last newline is gone),
    or none (cut in the first two lines)... or a last number that lost digits: that is why the
    file is replaced atomically and never written in place."""
    written = checkpoint.format_offsets(mapping)
    cut = written[: data.draw(st.integers(0, len(written)))]
    try:
        found = checkpoint.parse_offsets(cut, PATH)
    except CorruptFileError:
        return
    assert found.keys() <= mapping.keys()
    assert len(found) in (0, len(mapping))


def test_bad_values_are_not_written():
    for mapping in ({("a b", 0): 1}, {("", 0): 1}, {("a", -1): 1}, {("a", 0): -1}):
        with pytest.raises(ValueError):
            checkpoint.format_offsets(mapping)


def test_a_checkpoint_file_has_kafkas_format(tmp_path):
    path = tmp_path / PATH
    assert checkpoint.read_offsets(DISK, path) == {}
    checkpoint.write_offsets(DISK, path, {("a", 0): 5})
    checkpoint.write_offsets(DISK, path, {("a", 1): 6, ("a", 0): 7})
    assert path.read_bytes() == b"0\n2\na 0 7\na 1 6\n"
    assert checkpoint.read_offsets(DISK, path) == {("a", 1): 6, ("a", 0): 7}
    assert os.listdir(tmp_path) == [PATH]


def test_the_marker_of_a_clean_shutdown_keeps_its_content(tmp_path):
    assert clean_shutdown.take_clean_shutdown(DISK, tmp_path) is None
    content = b'{"version":0,"brokerEpoch":27}'
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    assert clean_shutdown.read_clean_shutdown(DISK, tmp_path) == content
    assert clean_shutdown.take_clean_shutdown(DISK, tmp_path) == content
    assert os.listdir(tmp_path) == []
    clean_shutdown.write_clean_shutdown(DISK, tmp_path, content)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == content
    clean_shutdown.write_clean_shutdown(DISK, tmp_path)
    assert clean_shutdown.take_clean_shutdown(DISK, tmp_path) == b""


# --- leader epochs --------------------------------------------------------------------------


def test_epochs_have_kafkas_bytes_and_invalid_ones_are_refused(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    assert len(LeaderEpochs.load(DISK, path)) == 0
    epochs = LeaderEpochs([(0, 0), (3, 1201)])
    epochs.save(DISK, path)
    assert path.read_bytes() == b"0\n2\n0 0\n3 1201\n"
    assert LeaderEpochs.load(DISK, path) == epochs
    assert epochs.earliest == (0, 0)
    assert epochs.latest == (3, 1201)
    for data in (b"0\n1\n0 0 0\n", b"0\n1\n-1 0\n", b"0\n1\n0 x\n", b"1\n"):
        with pytest.raises(CorruptFileError):
            LeaderEpochs.parse(data, path)


def test_the_end_of_an_epoch_is_what_offset_for_leader_epoch_answers():
    epochs = LeaderEpochs([(2, 10), (5, 20), (7, 30)])
    asked = {epoch: epochs.end_of(epoch, 45) for epoch in range(-1, 9)}
    assert asked == {
        -1: (-1, -1),
        0: (0, 10),  # below the first known epoch
        1: (1, 10),
        2: (2, 20),
        3: (2, 20),  # the largest known epoch up to it
        4: (2, 20),
        5: (5, 30),
        6: (5, 30),
        7: (7, 45),  # the latest: the log end
        8: (-1, -1),
    }


def test_a_cache_without_epochs_answers_minus_one():
    epochs = LeaderEpochs()
    assert epochs.end_of(0, 5) == (-1, -1)
    assert epochs.latest is None
    assert epochs.earliest is None
    assert epochs.epoch_for(0) == -1
    assert not epochs.truncate_from_end(0)
    assert not epochs.truncate_from_start(5)


def test_an_epoch_is_assigned_once_and_removes_later_start_offsets():
    epochs = LeaderEpochs()
    assert epochs.assign(0, 0)
    assert not epochs.assign(0, 5)  # known already
    assert epochs.assign(2, 10)
    assert epochs.assign(2, 8)  # an earlier start of the latest
    assert list(epochs) == [(0, 0), (2, 8)]
    assert epochs.assign(3, 8)  # nothing was written in epoch 2
    assert list(epochs) == [(0, 0), (3, 8)]
    assert epochs.assign(1, 20)  # a lower epoch later: the higher ones were wrong
    assert list(epochs) == [(0, 0), (1, 20)]
    for epoch, start in ((-1, 0), (0, -1), (2**31, 0), (0, 2**63)):
        with pytest.raises(ValueError):
            epochs.assign(epoch, start)
    assert list(epochs) == [(0, 0), (1, 20)]


def test_truncate_from_end_drops_epochs_that_begin_there_or_later():
    epochs = LeaderEpochs([(0, 0), (1, 10), (2, 20)])
    assert not epochs.truncate_from_end(21)
    assert epochs.truncate_from_end(20)
    assert list(epochs) == [(0, 0), (1, 10)]
    assert epochs.truncate_from_end(0)
    assert list(epochs) == []


def test_truncation_from_the_start_moves_the_first_epoch():
    epochs = LeaderEpochs([(0, 0), (1, 10), (2, 20)])
    assert not epochs.truncate_from_start(0)
    assert epochs.truncate_from_start(5)
    assert list(epochs) == [(0, 5), (1, 10), (2, 20)]
    assert epochs.truncate_from_start(10)
    assert list(epochs) == [(1, 10), (2, 20)]
    assert not epochs.truncate_from_start(9)
    assert epochs.truncate_from_start(100)
    assert list(epochs) == [(2, 100)]


def test_the_epoch_of_an_offset_is_the_last_that_began_before_it():
    epochs = LeaderEpochs([(2, 5), (4, 10)])
    assert [epochs.epoch_for(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


steps = st.lists(
    st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 9), st.integers(0, 50)),
    max_size=30,
)


@given(steps)
def test_epochs_stay_ascending_and_survive_the_file(steps):
    epochs = LeaderEpochs()
    for what, epoch, offset in steps:
        before = list(epochs)
        if what == "assign":
            changed = epochs.assign(epoch, offset)
            assert epochs.latest.epoch == epoch
            assert epochs.latest.start_offset <= offset
        elif what == "end":
            changed = epochs.truncate_from_end(offset)
            assert all(entry.start_offset < offset for entry in epochs)
        else:
            changed = epochs.truncate_from_start(offset)
        assert changed == (before != list(epochs))
        entries = list(epochs)
        assert all(a.epoch < b.epoch for a, b in pairwise(entries))
        assert all(a.start_offset < b.start_offset for a, b in pairwise(entries))
        assert LeaderEpochs.parse(epochs.format(), "p") == epochs


def test_a_checkpoint_that_cannot_be_read_is_a_storage_error(tmp_path):
    (tmp_path / PATH).mkdir()
    with pytest.raises(StorageError):
        checkpoint.read_offsets(DISK, tmp_path / PATH)
