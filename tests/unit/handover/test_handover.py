"""Handing over, without a broker: what is refused and why, what is copied, a crash on the way."""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.cli import main
from kstore.errors import CorruptRecordError, HandoverError, StorageError
from kstore.files.files import Files
from kstore.handover import HANDOVER, check_broker, hand_over, plan_handover
from support import metadata
from support.damage import write_damaged
from support.stores import MARKER, QUIET, snapshot

ID = "AAAAAAAAAAAAAAAAAAABAA"
OTHER = "AAAAAAAAAAAAAAAAAAACAA"
META = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAABQQ\n"


def broker(path: Path, *partitions: str, topic_id: str | None = ID) -> Path:
    """A stopped KRaft broker's directory with empty partitions, as a broker leaves it."""
    path.mkdir()
    (path / "meta.properties").write_text(META)
    (path / ".lock").touch()
    (path / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    for name in partitions:
        folder = path / name
        folder.mkdir()
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
        for kind in ("log", "index", "timeindex"):
            (folder / f"{0:020}.{kind}").touch()
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    with kstore.open(path, config=QUIET) as store:
        topic = store.create_topic("t", 2, config=LogConfig(segment_bytes=2000))
        for n in range(80):
            topic[n % 2].append(b"x" * 100, key=b"%d" % n)
        topic[1].delete_records(5)
    return path


def refusals(report):
    return [each.sentence for each in report.findings if each.level == "refused"]


def test_segments_are_exchanged_and_ids_stay(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1", "else-0")
    before = snapshot(own)
    plan = plan_handover(own, broker_dir)
    assert plan.ok
    assert plan.kind == "KRaft"
    assert not plan.executed
    assert snapshot(own) == before
    report = hand_over(own, broker_dir)
    assert report.executed
    assert (broker_dir / "t-0" / "partition.metadata").read_text().endswith(ID)
    assert (broker_dir / MARKER).read_text() == '{"version":0,"brokerEpoch":7}'
    assert not (broker_dir / "t-0" / HANDOVER).exists()
    for number in (0, 1):
        for path in (own / f"t-{number}").iterdir():
            if path.name != "partition.metadata" and not path.name.startswith("kstore."):
                assert (broker_dir / f"t-{number}" / path.name).read_bytes() == path.read_bytes()
    with kstore.open(own, "r") as ours, kstore.open(broker_dir, "r") as theirs:
        assert [list(log) for log in theirs["t"]] == [list(log) for log in ours["t"]]
        assert theirs["t"][1].start_offset == 5
    assert "t 0 40" in (broker_dir / "replication-offset-checkpoint").read_text()
    assert "t 1 40" in (broker_dir / "recovery-point-offset-checkpoint").read_text()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda p: (p / "meta.properties").unlink(), "no broker has used this directory"),
        (lambda p: (p / "meta.properties").write_text("version=7\n"), "unknown version"),
        (lambda p: (p / MARKER).unlink(), "not closed cleanly"),
        (lambda p: (p / "lost+found").mkdir(), "below the mount point"),
        (lambda p: (p / "backup").mkdir(), "not a partition directory"),
        (
            lambda p: (p / "recovery-point-offset-checkpoint").write_text("0\n2\n"),
            "does not start with it",
        ),
        (
            lambda p: (p / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n"),
            "does not start with it",
        ),
        (lambda p: (p / "t-0" / "partition.metadata").unlink(), "renames the folder to -stray"),
        (lambda p: (p / "t-0" / "partition.metadata").write_text("x"), "would not recognize"),
        (
            lambda p: (p / "t-0" / "partition.metadata").write_text(
                f"version: 0\ntopic_id: {OTHER}"
            ),
            "different ids",
        ),
        (lambda p: (p / "t-1" / f"{0:020}.log").write_bytes(b"\0" * 99), "not empty"),
        (lambda p: [x.unlink() for x in (p / "t-1").iterdir()] + [(p / "t-1").rmdir()], "Create"),
    ],
)
def test_what_a_broker_would_not_serve(own: Path, tmp_path: Path, spoil, reason: str) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    spoil(broker_dir)
    assert any(reason in each for each in refusals(plan_handover(own, broker_dir)))
    before = snapshot(broker_dir)
    with pytest.raises(HandoverError):
        hand_over(own, broker_dir)
    assert snapshot(broker_dir) == before


def test_directories_of_another_node_or_cluster_are_refused(own: Path, tmp_path: Path) -> None:
    first = broker(tmp_path / "first", "t-0")
    second = broker(tmp_path / "second", "t-1")
    both = [first, second]
    assert any("copy of the other" in each for each in refusals(plan_handover(own, both)))
    (second / "meta.properties").write_text(
        META.replace("ABQQ", "ACQQ").replace("node.id=1", "node.id=2")
    )
    assert any("only its own" in each for each in refusals(plan_handover(own, both)))
    (second / "meta.properties").write_text(META.replace("ABQQ", "ACQQ"))
    broker(tmp_path / "third", "t-1")
    (tmp_path / "third" / "meta.properties").write_text(META.replace("ABQQ", "ADQQ"))
    messages = refusals(plan_handover(own, [*both, tmp_path / "third"]))
    assert any("the same partition is in" in each for each in messages)
    assert hand_over(own, both).executed
    with kstore.open(both, "r") as store:
        assert [log.end_offset for log in store["t"]] == [40, 40]


def test_a_directory_whose_lock_is_held_is_refused(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    with kstore.open(broker_dir):
        assert any(".lock is held" in each for each in refusals(plan_handover(own, broker_dir)))
    with kstore.open(own):
        assert any(".lock is held" in each for each in refusals(plan_handover(own, broker_dir)))


def test_a_lost_folder_with_the_id_given(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "else-0")
    assert hand_over(own, broker_dir, topic_ids={"t": ID}).executed
    assert (broker_dir / "t-1" / "partition.metadata").read_text().endswith(ID)
    assert any(
        "not a UUID" in s for s in refusals(plan_handover(own, broker_dir, topic_ids={"t": "x"}))
    )


def test_zookeeper_adopts_folders(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "else-0", topic_id=None)
    (broker_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    report = hand_over(own, broker_dir)
    assert report.kind == "ZooKeeper"
    assert any("adopted" in each.sentence for each in report.findings)
    assert not (broker_dir / "t-0" / "partition.metadata").exists()
    with kstore.open(broker_dir, "r") as store:
        assert store["t"][0].end_offset == 40


def test_counts_and_replicas_are_warned_of(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1", "t-2")
    levels = [(each.level, each.sentence) for each in plan_handover(own, broker_dir).findings]
    assert any(level == "warning" and "3 partitions" in text for level, text in levels)
    assert any(level == "note" and "other replicas" in text for level, text in levels)


def test_a_damaged_source_is_refused_and_changes_nothing(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    path = own / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    write_damaged(path, data)
    before = snapshot(broker_dir)
    with pytest.raises(CorruptRecordError):
        hand_over(own, broker_dir)
    assert snapshot(broker_dir) == before


class Interrupted(Files):
    """A disk on which the nth rename fails."""

    def __init__(self, left: int) -> None:
        self.left = left

    def rename(self, source, target) -> None:
        self.left -= 1
        if self.left == 0:
            raise StorageError("full", path=str(target))
        super().rename(source, target)


@pytest.mark.parametrize("when", range(1, 12, 2))
def test_an_interrupted_handover_is_completed_by_the_next(
    own: Path, tmp_path: Path, when: int
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    with pytest.raises(StorageError):
        hand_over(own, broker_dir, files=Interrupted(when))
    assert (broker_dir / MARKER).exists()  # nothing else in the directory is touched
    assert hand_over(own, broker_dir).executed
    with kstore.open(own, "r") as ours, kstore.open(broker_dir, "r") as theirs:
        assert [list(log) for log in theirs["t"]] == [list(log) for log in ours["t"]]
    assert not list(broker_dir.rglob("*.cleaned"))


def test_a_brokers_directory_is_checked_before_kstore_takes_it_back(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    hand_over(own, broker_dir)
    (broker_dir / f"old-0.{'0' * 32}-stray").mkdir()
    (broker_dir / f"t-0.{'0' * 32}-future").mkdir()
    report = check_broker(broker_dir)
    assert report.ok
    messages = " ".join(each.sentence for each in report.findings)
    assert "stray replica" in messages
    assert "unfinished" in messages
    assert main(["handover", "--from", str(broker_dir)]) == 0
    assert "kstore can write in" in capsys.readouterr().out
    arguments = [
        "--from",
        str(broker_dir),
        "--adopt",
        "t",
        "--config",
        "retention.ms=9",
        "--execute",
    ]
    assert main(["handover", *arguments]) == 0
    with kstore.open(broker_dir, "r") as store:
        assert store["t"].config.retention_ms == 9


def test_a_high_watermark_below_the_log_end_is_a_warning(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    hand_over(own, broker_dir)
    (broker_dir / "replication-offset-checkpoint").write_text("0\n2\nt 0 40\nt 1 39\n")
    metadata.write(
        broker_dir, metadata.topic("t", ID), *(metadata.partition(ID, n) for n in (0, 1))
    )
    warned = [each for each in check_broker(broker_dir).findings if each.level == "warning"]
    assert len(warned) == 1
    assert "39 is below the log end 40" in warned[0].sentence


def warnings(report):
    return [each.sentence for each in report.findings if each.level == "warning"]


HERE, AWAY = "AAAAAAAAAAAAAAAAAAABQQ", "AAAAAAAAAAAAAAAAAAAHQQ"


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "no topic 't'"),
        ([metadata.topic("t", OTHER)], f"has the id {OTHER}, not {ID}"),
        ([metadata.topic("t", ID), metadata.partition(ID, 0)], "has only 1 partition, no 1"),
        ([metadata.topic("t", ID), metadata.remove(ID)], "no topic 't'"),
        (
            [metadata.topic("t", ID), metadata.partition(ID, 0), metadata.partition(ID, 1, (2, 3))],
            "assigned to nodes [2, 3], not to 1",
        ),
        (
            [
                metadata.topic("t", ID),
                metadata.partition(ID, 0, (1,), (HERE,)),
                metadata.partition(ID, 1, (1,), (AWAY,)),
            ],
            "name all log.dirs",
        ),
    ],
)
def test_what_the_cluster_does_not_know(own: Path, tmp_path: Path, records, reason: str) -> None:
    """Ids that are valid but not the cluster's, by the node's own metadata; both ways."""
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    metadata.write(broker_dir, metadata.topic("else", AWAY), *records)
    assert any(reason in each for each in refusals(plan_handover(own, broker_dir)))
    assert any(reason in each for each in refusals(check_broker(broker_dir)))
    with pytest.raises(HandoverError):
        hand_over(own, broker_dir)


def test_a_folder_that_the_cluster_does_not_know_is_reported(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1", "gone-0")
    own_metadata = [metadata.topic("t", ID), metadata.partition(ID, 0, (1,), (HERE,))]
    metadata.write(broker_dir, *own_metadata, metadata.partition(ID, 1, (3, 1), (AWAY, HERE)))
    report = plan_handover(own, broker_dir)
    assert report.ok  # a folder that is not handed over does not stop it
    assert any("no topic 'gone'" in each for each in warnings(report))
    assert any("no topic 'gone'" in each for each in refusals(check_broker(broker_dir)))
    assert hand_over(own, broker_dir).executed


def test_a_lost_folder_that_the_cluster_knows(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0")
    parts = [metadata.partition(ID, number) for number in (0, 1)]
    metadata.write(broker_dir, metadata.topic("t", ID), *parts)
    assert any(f"--topic-id t={ID}" in each for each in refusals(plan_handover(own, broker_dir)))
    wrong = plan_handover(own, broker_dir, topic_ids={"t": OTHER})
    assert any(f"has the id {ID}, not {OTHER}" in each for each in refusals(wrong))
    assert hand_over(own, broker_dir, topic_ids={"t": ID}).executed


def test_metadata_that_is_not_there_or_not_understood(own: Path, tmp_path: Path) -> None:
    """Never a silent pass: it is said that ids were not compared with the cluster's."""
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    unchecked = "were not checked"
    assert any(unchecked in each for each in warnings(plan_handover(own, broker_dir)))
    aside = tmp_path / "aside"
    aside.mkdir()
    messages = refusals(plan_handover(own, broker_dir, metadata_log_dir=str(aside)))
    assert any("of another node" in each for each in messages)
    (aside / "meta.properties").write_text(META.replace("ABQQ", "AHQQ"))
    folder = metadata.write(aside, metadata.topic("t", OTHER))
    for look in (
        plan_handover(own, broker_dir, metadata_log_dir=str(aside)),
        check_broker(broker_dir, metadata_log_dir=str(aside)),
    ):
        assert any(OTHER in each for each in refusals(look))
    log = next(folder.glob("*.log"))
    for data in (b"\xff" * 100, log.read_bytes()[:-1] + b"\7"):
        log.write_bytes(data)
        report = check_broker(broker_dir, metadata_log_dir=str(aside))
        assert report.ok
        assert any(
            "cannot read the cluster metadata" in each and unchecked in each
            for each in warnings(report)
        )
    (aside / "meta.properties").write_text("version=9")
    messages = refusals(check_broker(broker_dir, metadata_log_dir=str(aside)))
    assert any("would not start" in each for each in messages)


def test_an_interrupted_handover_is_continued_unless_its_marker_is_unknown(
    own: Path, tmp_path: Path
) -> None:
    """kstore does not write on in it; a newer kstore's sign is not guessed at."""
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    with pytest.raises(StorageError):
        hand_over(own, broker_dir, files=Interrupted(3))
    (broker_dir / MARKER).write_text("{}")
    assert any("was interrupted" in each for each in refusals(check_broker(broker_dir)))
    assert plan_handover(own, broker_dir).ok
    (broker_dir / "t-0" / HANDOVER).write_text('{"format":2}')
    for report in (check_broker(broker_dir), plan_handover(own, broker_dir)):
        assert any("newer kstore" in each for each in refusals(report))
    (broker_dir / "t-0" / HANDOVER).write_text("{}")
    assert any("not a file of kstore" in each for each in refusals(plan_handover(own, broker_dir)))


def test_ids_that_kstore_would_not_write_under(own: Path, tmp_path: Path) -> None:
    broker_dir = broker(tmp_path / "there", "t-0", "t-1")
    (broker_dir / "t-0" / "partition.metadata").write_text("version: 0\ngarbage")
    (broker_dir / "t-1" / "partition.metadata").unlink()
    messages = refusals(check_broker(broker_dir))
    assert any("takes the directory offline" in each for each in messages)
    assert any("renames the folder to -stray" in each for each in messages)


def test_the_command_changes_nothing_without_execute(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker_dir = broker(tmp_path / "there", "t-0")
    some = ["handover", "--log-dir", str(own), "--to", str(broker_dir)]
    assert main(some) == 2
    assert "kafka-topics --create" in capsys.readouterr().out
    broker(tmp_path / "right", "t-0", "t-1")
    some[-1] = str(tmp_path / "right")
    assert main([*some, "--json"]) == 0
    assert main(some) == 0
    assert "--execute does it" in capsys.readouterr().out
    assert main([*some, "--topic", "t", "--execute"]) == 0
    assert main([*some, "--topic", "none"]) == 2
    assert main(["handover", "--to", "x"]) == 1
    assert main(["handover", "--from", "x", "--to", "y"]) == 1


def test_a_missing_directory_is_refused(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nowhere")
    for words in (["--log-dir", str(own), "--to", missing], ["--from", missing]):
        assert main(["handover", *words]) == 2
        messages = capsys.readouterr().out.splitlines()
        assert messages[0] == f"refused: {missing}: the directory does not exist"
        assert len(messages) == 2
