"""A handover that is killed, or loses its power, at any change of the disk, and is run again.

No broker here: tests/interop/test_handover.py starts one after some of the kills.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main
from kstore.errors import HandoverError
from kstore.files.filenames import OFFSETS_PREFIX
from kstore.files.files import DISK
from kstore.handover import HANDOVER, check_broker, hand_over, plan_handover
from kstore.handover.compare_folder import TargetContents, compare_logs
from support.damage import write_damaged
from support.disks import HastyDisk
from support.recording_disk import Recorder, Tree
from support.stores import MARKER, QUIET, snapshot
from support.transactions import TransactionWriter
from torture.checks import materialise
from torture.crash_disk import MODELS, CrashDisk
from unit.handover.test_handover import OTHER, broker, refusals, warnings

EPOCH = '{"version":0,"brokerEpoch":7}'


def make_source(path: Path) -> Path:
    with kstore.open(path, config=QUIET) as store:
        topic = store.create_topic("t", 2, config=LogConfig(segment_bytes=2000))
        for n in range(40):
            topic[n % 2].append(b"x" * 100, key=b"%d" % n)
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return make_source(tmp_path / "own")


def records(path: Path, count: int | None = None) -> list[list[kstore.Record]]:
    with kstore.open(path, "r", config=QUIET) as store:
        return [list(log)[:count] for log in store["t"]]


def states(root: Path, model: str, *, lost: bool = False) -> Iterator[tuple[int, Tree]]:
    """The trees that a crash at each change of a handover may leave, all of them below root."""
    broker_dir = broker(root / "there", *(["else-0"] if lost else ["t-0", "t-1", "else-0"]))
    disk = Recorder(broker_dir)
    hand_over(
        root / "own", broker_dir, topic_ids={"t": "A" * 19 + "BAA"} if lost else None, files=disk
    )
    assert len(disk.ops) > 40
    random = Random(model)
    crashing = CrashDisk(disk.trace)
    for index in range(len(disk.ops) + 1):
        torn = disk.ops[index] if index < len(disk.ops) else None
        for tree in crashing.states(model, 2, random, torn):
            yield index, tree
        if torn is not None:
            crashing.apply(index, torn)


@pytest.mark.parametrize("model", MODELS)
def test_run_again_after_a_crash_at_every_change(own: Path, tmp_path: Path, model: str) -> None:
    expected = records(own)
    before = snapshot(own)
    broker_dir = tmp_path / "there"
    seen = set()
    for index, tree in states(tmp_path, model):
        materialise(tree, str(broker_dir))
        assert (broker_dir / MARKER).read_text() == EPOCH, index  # nothing else has to be recovered
        report = hand_over(own, broker_dir, files=HastyDisk())
        assert report.executed, index
        seen.add(tuple(each.is_already_copied for each in report.partitions))
        assert records(broker_dir) == expected, index
        left = {path.name for path in broker_dir.rglob("*")}
        assert not [name for name in left if name.endswith(".cleaned") or name == HANDOVER], index
        assert "t 1 20" in (broker_dir / "recovery-point-offset-checkpoint").read_text()
    assert check_broker(broker_dir).ok
    assert seen == {(False, False), (True, False), (True, True)}
    assert snapshot(own) == before


def test_a_handover_of_which_a_kill_lost_folders_is_completed(own: Path, tmp_path: Path) -> None:
    expected = records(own)
    broker_dir, ids = tmp_path / "there", {"t": "A" * 19 + "BAA"}
    for index, tree in states(tmp_path, "kill", lost=True):
        materialise(tree, str(broker_dir))
        assert hand_over(own, broker_dir, topic_ids=ids, files=HastyDisk()).executed, index
        assert records(broker_dir) == expected, index


def test_run_again_by_the_same_command(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    command = ["handover", "--log-dir", str(own), "--to", str(broker_dir), "--execute"]
    assert main(command) == 0
    after = snapshot(broker_dir)
    capsys.readouterr()
    assert main(command) == 0
    assert "has all of it: nothing is left to be copied" in capsys.readouterr().out
    assert snapshot(broker_dir).keys() == after.keys()


def test_records_of_a_broker_that_ran_in_between_are_kept(own: Path, tmp_path: Path) -> None:
    """It served what was complete, began what was empty, and removed leftovers."""
    expected = records(own)
    broker_dir = tmp_path / "there"
    appended = 0
    for _, tree in states(tmp_path, "kill"):
        materialise(tree, str(broker_dir))
        for each in broker_dir.rglob("*.cleaned"):
            each.unlink()
        complete = [
            number
            for number in (0, 1)
            if compare_logs(DISK, str(own / f"t-{number}"), str(broker_dir / f"t-{number}"))
            is TargetContents.ALL
        ]
        begun = list(broker_dir.rglob(HANDOVER))
        if begun and complete:
            with kstore.open(broker_dir, config=QUIET) as store:
                store["t"][complete[0]].append(b"by the broker")
            appended += 1
        assert hand_over(own, broker_dir, files=HastyDisk()).executed
        assert records(broker_dir, 20) == expected
        if begun and complete:
            assert len(records(broker_dir)[complete[0]]) == 21
    assert appended > 5


def test_what_was_appended_to_a_part_is_not_lost(own: Path, tmp_path: Path) -> None:
    """A broker served the first segments alone, and appended behind them."""
    broker_dir = tmp_path / "there"
    refused = 0
    for _, tree in states(tmp_path, "kill"):
        materialise(tree, str(broker_dir))
        part = (
            compare_logs(DISK, str(own / "t-0"), str(broker_dir / "t-0"))
            is TargetContents.BEGINNING
        )
        if not part or refused:
            continue
        with kstore.open(broker_dir, config=QUIET) as store:
            store["t"][0].append(b"by the broker")
        before = snapshot(broker_dir)
        messages = refusals(plan_handover(own, broker_dir))
        assert any("since a handover that was interrupted" in each for each in messages)
        with pytest.raises(HandoverError):
            hand_over(own, broker_dir)
        assert snapshot(broker_dir) == before
        refused += 1
    assert refused


def test_a_grown_source_is_no_repetition(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    hand_over(own, broker_dir)
    with kstore.open(own, config=QUIET) as store:
        store["t"][0].append(b"one more")
    assert any(
        "has the beginning of it" in each for each in refusals(plan_handover(own, broker_dir))
    )


def test_a_log_of_which_only_the_end_is_left(own: Path, tmp_path: Path) -> None:
    """No record, but offsets that were given out: nothing else may begin there at 0."""
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    for path in (broker_dir / "t-0").glob("0*"):
        path.rename(path.with_stem(f"{20:020}"))
    messages = refusals(plan_handover(own, broker_dir))
    assert any("its log ends at 20, and has no record" in each for each in messages)
    with kstore.open(tmp_path / "empty", config=QUIET) as store:
        store.create_topic("t", 2)[0]._require_writer().truncator.skip_to(20)
    report = hand_over(tmp_path / "empty", broker_dir)
    assert [plan.is_already_copied for plan in report.partitions] == [True, False]


def test_compare_logs_finds_how_much_of_a_log_the_target_has(own: Path, tmp_path: Path) -> None:
    ours, theirs = str(own / "t-0"), tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    first, *_, last = sorted(theirs.glob("*.log"))
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.ALL
    complete = last.read_bytes()
    last.write_bytes(complete + b"more")
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.MORE
    last.write_bytes(complete[:-1])
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.BEGINNING
    last.write_bytes(bytes(len(complete)))
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.OTHER
    last.unlink()
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.BEGINNING
    write_damaged(first, first.read_bytes() + b"more")
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.OTHER
    for path in theirs.glob("*.log"):
        path.write_bytes(b"")
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.NOTHING
    (theirs / f"{7:020}.log").write_bytes(b"x")
    assert compare_logs(DISK, ours, str(theirs)) is TargetContents.OTHER


# --- what a broker would not know --------------------------------------------------------------


def leave_open(path: Path) -> None:
    with kstore.open(path, config=QUIET) as store:
        TransactionWriter(store["t"][1]).data(4001, 3)


def test_an_open_transaction_is_refused(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    leave_open(own)
    messages = refusals(plan_handover(own, broker_dir))
    assert len(messages) == 1
    assert "the transaction of producer 4001 is open from offset 20 on" in messages[0]
    before = snapshot(broker_dir)
    with pytest.raises(HandoverError, match="--abort-open-transactions"):
        hand_over(own, broker_dir)
    assert snapshot(broker_dir) == before


def test_an_open_transaction_is_aborted(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    leave_open(own)
    command = [
        "handover",
        "--log-dir",
        str(own),
        "--to",
        str(broker_dir),
        "--abort-open-transactions",
    ]
    before = snapshot(own)
    assert main(command) == 0
    assert "it is aborted in the source before the copy" in capsys.readouterr().out
    assert snapshot(own) == before
    assert main([*command, "--execute"]) == 0
    with kstore.open(broker_dir, "r") as store:
        log = store["t"][1]
        assert log.last_stable_offset == log.end_offset == 24
        assert len(list(log.view(isolation="read_committed"))) == 20
    assert (broker_dir / "t-1" / f"{0:020}.log").stat().st_size
    assert main([*command, "--execute"]) == 0  # once more: nothing is open, all is done


def test_a_refused_handover_aborts_nothing(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0")
    leave_open(own)
    with pytest.raises(HandoverError):
        hand_over(own, broker_dir, abort_open_transactions=True)
    with kstore.open(own, "r") as store:
        assert store["t"][1].last_stable_offset == 20


def test_committed_offsets_are_named(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    with kstore.open(own, config=QUIET) as store:
        store.create_topic("other").append(b"v")
        with store.consumer(["t", "other"], group="readers") as consumer:
            consumer.poll()
            consumer.commit()
    with (
        kstore.open(own, "r") as reader,  # beside: into a file of its own
        reader.consumer("t", group="beside") as consumer,
    ):
        consumer.poll(max_records=5)
        consumer.commit()
    assert list(own.glob(OFFSETS_PREFIX + "*"))
    messages = warnings(plan_handover(own, broker_dir, topics=["t"]))
    assert any("--group readers" in each and "t:0=20, t:1=20" in each for each in messages)
    assert any("--group beside" in each and "t:0=5" in each for each in messages)
    assert not any("other" in each for each in messages)
    report = hand_over(own, broker_dir, topics=["t"])  # a writer takes the file over first
    assert not [p for p in own.glob(OFFSETS_PREFIX + "*") if "lock" not in p.name]
    assert any("--group beside" in each and "t:0=5" in each for each in warnings(report))


def test_offsets_that_a_reader_of_the_broker_s_directory_committed(
    own: Path, tmp_path: Path
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    hand_over(own, broker_dir)
    with (
        kstore.open(broker_dir, "r") as reader,
        reader.consumer("t", group="beside") as consumer,
    ):
        consumer.poll(max_records=7)
        consumer.commit()
    assert any("--group beside" in each for each in warnings(plan_handover(own, broker_dir)))
    for number in (0, 1):  # the topic was deleted and recreated: they are not of this one
        (broker_dir / f"t-{number}" / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {OTHER}"
        )
    assert not any("--group beside" in each for each in warnings(plan_handover(own, broker_dir)))


def test_an_unfinished_file_of_offsets_is_ignored(own: Path, tmp_path: Path) -> None:
    """What a crash leaves of a reader's commit that was not acknowledged."""
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    (own / f"{OFFSETS_PREFIX}g.tmp").write_text("{")
    (own / f"{OFFSETS_PREFIX}h.tmp").write_text(
        '{"format": 1, "group": "h", "offsets": {"t": {"0": {"offset": 4, "commit_timestamp": 7}}}}'
    )
    messages = warnings(plan_handover(own, broker_dir))
    assert not any("offsets" in each for each in messages)


def test_offsets_that_cannot_be_read_are_named(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    (own / f"{OFFSETS_PREFIX}g").write_text("{")
    report = plan_handover(own, broker_dir)
    assert any("committed offsets that cannot be read" in each for each in warnings(report))
    assert report.ok
