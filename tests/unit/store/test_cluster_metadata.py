"""A KRaft node's metadata log: what it says of topics, and bytes that are not understood."""

import shutil
from pathlib import Path

import pytest

import kstore
from kstore.errors import CorruptRecordError
from kstore.files.files import DISK
from kstore.store.cluster_metadata import Replicas, read_cluster_metadata
from support import metadata
from support.damage import write_damaged
from support.stores import QUIET

A, B = "AAAAAAAAAAAAAAAAAAABAA", "AAAAAAAAAAAAAAAAAAACAA"
HERE, THERE = "AAAAAAAAAAAAAAAAAAABQQ", "AAAAAAAAAAAAAAAAAAACQQ"
RECORDED = Path(__file__).parents[2] / "data" / "cluster-metadata"


def read(folder: Path):
    return read_cluster_metadata(DISK, str(folder))


def test_topics_and_replicas_are_read(tmp_path: Path) -> None:
    folder = metadata.write(
        tmp_path,
        metadata.topic("a", A),
        metadata.partition(A, 0),
        metadata.partition(A, 1, (2, 1), (THERE, HERE)),
        metadata.topic("b", B),
        metadata.remove(B),
        metadata.topic("b", HERE),
    )
    found = read(folder)
    assert (found.end_offset, found.topic_ids) == (6, {"a": A, "b": HERE})
    assert found.topics == {
        A: {0: Replicas((1,), ()), 1: Replicas((2, 1), (THERE, HERE))},
        HERE: {},
    }
    replicas = found.partition(A, 1)
    assert replicas is not None
    assert [replicas.directory_of(node) for node in (1, 2, 3)] == [HERE, THERE, None]
    assert found.partition(B, 0) is None


def test_settings_go_with_their_topic(tmp_path: Path) -> None:
    folder = metadata.write(
        tmp_path,
        metadata.topic("a", A),
        metadata.setting("a", "cleanup.policy", "compact"),
        metadata.setting("a", "retention.ms", "5"),
        metadata.BEGIN,
        metadata.setting("a", "retention.ms", None),
        metadata.ABORT,
        metadata.topic("b", B),
        metadata.setting("b", "retention.ms", "5"),
        metadata.setting("b", "retention.ms", None),
        metadata.topic("c", HERE),
        metadata.setting("c", "retention.ms", "5"),
        metadata.remove(HERE),
    )
    expected = {"a": {"cleanup.policy": "compact", "retention.ms": "5"}, "b": {}}
    assert read(folder).settings == expected


@pytest.mark.parametrize(
    ("end", "expected"), [(metadata.END, {"a": A}), (metadata.ABORT, {"b": B}), (None, {"b": B})]
)
def test_records_of_an_aborted_or_open_metadata_transaction_do_not_count(
    tmp_path: Path, end: bytes | None, expected: dict[str, str]
) -> None:
    """What is not ended, or aborted, has not happened."""
    values = [metadata.topic("b", B), metadata.BEGIN, metadata.remove(B), metadata.topic("a", A)]
    folder = metadata.write(tmp_path, *values, *(() if end is None else (end,)))
    assert read(folder).topic_ids == expected


@pytest.mark.parametrize("version", ["3.9.2", "4.3.0"])
def test_metadata_of_recorded_brokers_agrees_with_their_folders(version: str) -> None:
    """Beside README.md there: what was done, and what the brokers' folders said after it."""
    found = read(RECORDED / version / "__cluster_metadata-0")
    folders = (RECORDED / version / "folders").read_text().split("\n")
    folder_ids = {name: topic_id for name, topic_id, _ in map(str.split, filter(None, folders))}
    directory_ids = {name: each for name, _, each in map(str.split, filter(None, folders))}
    topic_ids = found.topic_ids.items()
    assert {f"{t}-{n}": i for t, i in topic_ids for n in found.topics[i]} == folder_ids
    for name, directory_id in directory_ids.items():
        topic, _, number = name.rpartition("-")
        replicas = found.partition(found.topic_ids[topic], int(number))
        assert replicas is not None
        assert replicas.directory_of(1) == directory_id, name


def test_a_log_without_its_snapshot(tmp_path: Path) -> None:
    """Missing offsets are not skipped."""
    source = RECORDED / "4.3.0" / "__cluster_metadata-0"
    snapshots = sorted(source.glob("*.checkpoint"))
    newest = read(source)
    folder = tmp_path / "__cluster_metadata-0"
    shutil.copytree(source, folder)
    assert len(snapshots) > 1
    for path in folder.glob("*.log"):
        path.unlink()
    assert read(folder).end_offset == int(snapshots[-1].name[:20]) <= newest.end_offset
    data = (folder / snapshots[-1].name).read_bytes()
    for size in (len(data) - 1, len(data) // 2, 0):
        (folder / snapshots[-1].name).write_bytes(data[:size])
        with pytest.raises(CorruptRecordError, match="footer"):
            read(folder)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(CorruptRecordError, match="neither"):
        read(folder)
    with kstore.open(tmp_path / "own", config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.extend([metadata.BEGIN, metadata.END])
        log.delete_records(2)
        log._require_writer().truncator.skip_to(7)
        log.append(metadata.topic("a", A))
        for path in Path(log.path).glob("*.log"):
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CorruptRecordError, match="missing"):
        read(folder)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([b""], "does not end"),
        ([bytes([1, 0x80, 0x80, 0x80, 0x80, 0x80])], "does not end"),
        ([bytes([1, 126, 0])], "unknown metadata record"),
        ([bytes([0, 2, 0])], "unknown metadata record"),
        ([metadata.topic("a", A)[:9]], "ends within"),
        ([bytes([1, 2, 9]) + metadata.topic("a", A)[3:]], "no version 9"),
        ([metadata.partition(A, 0)], "does not exist"),
        ([metadata.remove(A)], "does not exist"),
        ([metadata.topic("a", A)] * 2, "second time"),
        ([metadata.topic("a", A), metadata.topic("b", A)], "second time"),
        ([metadata.BEGIN] * 2, "within another"),
        ([metadata.END], "without BeginTransactionRecord"),
    ],
)
def test_records_that_are_not_understood(tmp_path: Path, values: list[bytes], reason: str) -> None:
    folder = metadata.write(tmp_path, *values)
    with pytest.raises(CorruptRecordError, match=reason) as caught:
        read(folder)
    assert caught.value.path
    assert caught.value.offset == len(values) - 1


def test_every_cut_and_flip_is_an_error_or_a_shorter_log(tmp_path: Path) -> None:
    records = metadata.topic("a", A), metadata.partition(A, 0), metadata.remove(A)
    folder = metadata.write(tmp_path, records[0])
    metadata.write(tmp_path, *records[1:])
    path = next(folder.glob("*.log"))
    data = path.read_bytes()
    complete = read(folder)
    assert (complete.end_offset, complete.topic_ids) == (3, {})
    ends = set()
    for size in range(len(data)):
        write_damaged(path, data[:size])
        ends.add(read(folder).end_offset)
    assert ends == {0, 1}
    for position in range(len(data)):
        write_damaged(path, data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :])
        try:
            found = read(folder)
        except CorruptRecordError:
            continue
        # Outside a batch's checksum: its leader epoch, or a size that makes it a torn tail.
        assert found.end_offset in (0, 1) or found == complete
