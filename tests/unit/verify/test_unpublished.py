"""What tools say of a publication that is not finished: they see files, readers do not."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from kstore.files.filenames import FENCE
from kstore.files.files import Files
from kstore.verify.distributed import merge_reports, plan_ranges, verify_range
from support.stores import QUIET


@pytest.fixture
def fenced(tmp_path: Path) -> Path:
    """Three segments: the first is published, of the second the first batch."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.append(b"shown")
        log.roll()
        log.append(b"shown, too")
        active = log.segments.views[-1]
        document = {
            "format": 1,
            "segment": active.base_offset,
            "position": active.size,
            "offset": log.end_offset,
            "manifest": "../kstore.publishing.job",
        }
        log.append(b"not yet")
        log.roll()
        log.append(b"nor this")
    (tmp_path / "kstore.publishing.job").write_text("{}")
    (tmp_path / "t-0" / FENCE).write_text(json.dumps(document))
    return tmp_path


def logs_of(log_dir: Path) -> list[Path]:
    return sorted((log_dir / "t-0").glob("*.log"))


def hidden(log_dir: Path) -> int:
    """Bytes behind the fence."""
    fence = json.loads((log_dir / "t-0" / FENCE).read_text())
    return sum(path.stat().st_size for path in logs_of(log_dir)[1:]) - fence["position"]


def test_verify_checks_it_and_counts_it(fenced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kstore.open(fenced, mode="r") as store:
        log = store["t"][0]
        assert log.end_offset == 2
        report = log.verify()
        assert (report.batches, report.unpublished) == (4, hidden(fenced))
        sizes = [(int(path.stem), path.stat().st_size) for path in logs_of(fenced)]
        parts = plan_ranges(sizes, 1)
        assert len(parts) == 3
        assert merge_reports([verify_range(Files(), log.path, part) for part in parts]) == report
    assert main(["verify", "--log-dir", str(fenced)]) == 0
    assert f", {hidden(fenced)} bytes not published" in capsys.readouterr().out
    (fenced / "kstore.publishing.job").unlink()  # published
    assert main(["verify", "--log-dir", str(fenced)]) == 0
    assert "not published" not in capsys.readouterr().out


def test_verify_reports_a_fence_that_does_not_parse(fenced: Path) -> None:
    with kstore.open(fenced, mode="r") as store:
        log = store["t"][0]
        (fenced / "t-0" / FENCE).write_text("{")
        assert [each.kind for each in log.verify().findings] == ["publication"]


def test_a_dump_says_where_it_begins(fenced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = map(str, logs_of(fenced))
    assert main(["dump-log", "--files", first, second, third]) == 0
    said = capsys.readouterr()
    assert said.out.count("baseOffset: ") == 4  # the files as they are
    position = json.loads((fenced / "t-0" / FENCE).read_text())["position"]
    kinds = [line.partition(": ")[0] for line in said.err.splitlines()]
    assert kinds == [
        f"Not published from position {position} of {second} on",
        f"Not published from position 0 of {third} on",
    ]
    (fenced / "kstore.publishing.job").unlink()
    assert main(["dump-log", "--files", first, second, third]) == 0
    assert capsys.readouterr().err == ""


def test_a_fence_in_a_segment_that_a_power_cut_took_hides_nothing_in_front(fenced: Path) -> None:
    """The fence of the next publication came to the disk, the roll behind which it stands not."""
    document = json.loads((fenced / "t-0" / FENCE).read_text())
    document |= {"segment": 4, "position": 0, "offset": 4}
    (fenced / "t-0" / FENCE).write_text(json.dumps(document))
    with kstore.open(fenced, mode="r") as store:
        assert [record.offset for record in store["t"][0]] == [0, 1, 2, 3]
        assert store["t"].end_offsets() == {0: 4}
    with kstore.open(fenced, mode="r") as store:
        assert store["t"].end_offsets() == {0: 4}  # a look at the files
