"""What the sink's commit does where things are not as they should be; without a Spark session."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore.errors import RecoveryNeededError
from kstore.log.files import Files
from kstore.spark.publishing import publish
from kstore.spark.sink_options import SinkOptions, Staged, parse_sink
from kstore.spark.staging import stage


class DyingError(Exception):
    """The process is gone here."""


class Dying(Files):
    """A disk whose process dies just before the switch: nothing is done from there on."""

    native = False

    def __init__(self, copy: Path) -> None:
        self._copy = copy

    def rename(self, source: Any, target: Any) -> None:
        if "kstore.published" in str(target):
            shutil.copytree(os.path.commonpath([*PLACES]), self._copy, dirs_exist_ok=True)
        super().rename(source, target)


PLACES: list[str] = []


def options(*paths: Path, **given: object) -> SinkOptions:
    named = {name: str(value) for name, value in given.items()}
    return parse_sink(
        {"paths": json.dumps([str(each) for each in paths]), "topic": "orders"} | named
    )


def rows(count: int = 10, partitions: int = 2, **columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"x%d" % n for n in range(count)], pa.binary()),
            "partition": pa.array([n % partitions for n in range(count)], pa.int32()),
        }
        | columns
    )


def staged(given: SinkOptions, job: str = "job", *batches: Any) -> list[Staged | None]:
    return [stage(given, job, batches or [rows()])]


def ends(*paths: Path, mode: str = "r", topic: str = "orders") -> list[int]:
    with kstore.open(list(paths), mode) as store:
        return [log.end_offset for log in store[topic]]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """One store over two directories, each with a partition."""
    paths = [tmp_path / "store" / "one", tmp_path / "store" / "two"]
    with kstore.open(paths) as store:
        store.create_topic("orders", 2)
    return paths


def cut_short(paths: list[Path], copy: Path) -> list[Path]:
    """The directories as a publication left them whose process died before the switch."""
    given = options(*paths)
    PLACES[:] = map(str, paths)
    assert publish(given, "job", staged(given), "q", 0, files=Dying(copy))
    return [copy / each.name for each in paths]


@pytest.mark.parametrize("written_down", [True, False])
def test_the_first_of_several_directories_alone_is_not_undone(
    two: list[Path], tmp_path: Path, written_down: bool
) -> None:
    """Its manifest is what hides the other half."""
    one, other = cut_short(two, tmp_path / "copy")
    manifest = one / "kstore.publishing.job"
    document = json.loads(manifest.read_bytes())
    assert [each["log_dir"] for each in document["partitions"]] == [".", "../two"]
    if not written_down:  # by a kstore that did not know better: as it was
        for each in document["partitions"]:
            del each["log_dir"]
        manifest.write_text(json.dumps(document))
        assert ends(one, other) == [0, 0]
        assert ends(one, other, mode="a") == [0, 0]
        assert not manifest.exists()
        return
    with pytest.raises(RecoveryNeededError, match=rf"orders-1, too.*{other} among"):
        kstore.open(one)
    assert manifest.exists()
    assert ends(other) == ends(one) == [0]
    assert ends(one, other, mode="a") == [0, 0]
    assert not manifest.exists()


def test_a_directory_that_is_offline_is_one_that_is_not_there(
    two: list[Path], tmp_path: Path
) -> None:
    one, other = cut_short(two, tmp_path / "copy")
    for each in (one / "kstore.topics", other / "kstore.topics"):
        each.unlink()  # as a broker's: nothing tells that there is a partition 1
    other.rename(tmp_path / "aside")
    other.touch()
    with pytest.raises(RecoveryNeededError, match="none of them offline"):
        kstore.open([one, other])
    other.unlink()
    (tmp_path / "aside").rename(other)
    assert ends(one, other, mode="a") == [0, 0]


def test_a_topic_that_is_really_gone_keeps_nobody_from_opening(
    two: list[Path], tmp_path: Path
) -> None:
    one, other = cut_short(two, tmp_path / "copy")
    shutil.rmtree(other / "orders-1")
    with kstore.open([one, other]) as store:
        assert store["orders"][0].end_offset == 0
    assert not (one / "kstore.publishing.job").exists()


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_without_what_was_staged_nothing_is_decided(
    two: list[Path], tmp_path: Path, damage: Any
) -> None:
    """A part would show, and the job that is run again would write it twice."""
    one, other = cut_short(two, tmp_path / "copy")
    (file,) = one.glob("kstore.staged.*")
    kept = file.read_bytes()
    damage(file)
    for _ in range(2):
        with pytest.raises(RecoveryNeededError, match="is gone or damaged"):
            kstore.open([one, other])
        assert ends(one, other) == [0, 0]
    file.write_bytes(kept)
    assert ends(one, other, mode="a") == [0, 0]
    assert not list(one.glob("kstore.staged.*"))
