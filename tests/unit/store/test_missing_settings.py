"""``kstore.topics`` is removed from a log directory: opening it warns, and says what is lost."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.errors import MissingSettingsWarning
from kstore.files.filenames import RECOVERY_POINTS
from support.stores import MARKER, QUIET, leave_to_kafka, make_kafkas_partition, snapshot

KEPT = LogConfig(retention_ms=3_600_000, cleanup_policy="compact")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store whose topic has settings and a rolled segment."""
    with kstore.open(tmp_path / "store", config=QUIET) as store:
        log = store.create_topic("orders", 2, config=KEPT)[0]
        log.append(b"value", key=b"key")
        log.roll()
        log.flush()
    return tmp_path / "store"


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_store_without_kstore_topics_warns_at_each_opening(path: Path, mode: str) -> None:
    (path / "kstore.topics").unlink()
    for _ in range(2):
        with pytest.warns(
            MissingSettingsWarning, match=f"kstore.topics is missing in {path}"
        ) as got:
            store = kstore.open(path, mode, config=QUIET)
        with store:
            assert store["orders"].config.retention_ms == -1
            assert any("kstore.topics is missing" in note for note in store.recovery.notes)
        (warning,) = got
        assert warning.filename == __file__  # the caller of open
        assert "no longer apply" in str(warning.message)
        assert "alter_topic" in str(warning.message)


def test_setting_a_topic_again_ends_the_warning(path: Path) -> None:
    (path / "kstore.topics").unlink()
    with pytest.warns(MissingSettingsWarning), kstore.open(path, config=QUIET) as store:
        store.alter_topic("orders", config={"retention.ms": 3_600_000})
    kstore.open(path, config=QUIET).close()


@pytest.mark.parametrize(
    ("damage", "trace"),
    [
        (lambda path: (path / MARKER).unlink(), RECOVERY_POINTS),
        (lambda path: (path / RECOVERY_POINTS).unlink(), f"orders-0/kstore.seal.{0:020}"),
        (lambda path: (path / "kstore.published.w").write_bytes(b"{}"), "kstore.published.w"),
        (lambda path: leave_to_kafka(path).joinpath("kstore.uncleanable").write_bytes(b"{}"),
         "kstore.uncleanable"),
    ],
)  # fmt: skip
def test_the_trace_of_lost_settings_is_named(
    path: Path, damage: Callable[[Path], object], trace: str
) -> None:
    (path / "kstore.topics").unlink()
    damage(path)
    with pytest.warns(MissingSettingsWarning) as got:
        kstore.open(path, "r").close()
    assert f"({path / trace})" in str(got[0].message)


def test_a_warning_that_is_an_error_leaves_the_directory_unlocked(path: Path) -> None:
    (path / "kstore.topics").unlink()
    before = snapshot(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in ("a", "r"):
            with pytest.raises(MissingSettingsWarning):
                kstore.open(path, mode)
    assert snapshot(path) == before
    with pytest.warns(MissingSettingsWarning):
        kstore.open(path, config=QUIET).close()


def test_a_broker_s_directory_does_not_warn(path: Path) -> None:
    """Also after kstore wrote there, and a consumer of kstore's committed beside the broker."""
    leave_to_kafka(path)
    with kstore.open(path, "r") as reader, reader.consumer("orders", group="g") as consumer:
        consumer.commit({("orders", 0): 0})
    with kstore.open(path, config=QUIET) as store:
        store["orders"][0].append(b"value", key=b"key")
        store["orders"][0].roll()
    kstore.open(path, config=QUIET).close()


def test_partitions_that_were_copied_from_a_broker_do_not_warn(tmp_path: Path) -> None:
    """A writer creates an empty file there, so that a later loss is seen."""
    folder = make_kafkas_partition(tmp_path, "orders")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAABAA")
    kstore.open(tmp_path, "r").close()
    assert not (tmp_path / "kstore.topics").exists()
    for _ in range(2):
        with kstore.open(tmp_path, config=QUIET) as store:
            store["orders"][0].append(b"x")
    assert b'"topics": {}' in (tmp_path / "kstore.topics").read_bytes()
    (tmp_path / "kstore.topics").unlink()
    with pytest.warns(MissingSettingsWarning):
        kstore.open(tmp_path, config=QUIET).close()


def test_a_directory_of_kafka_0_8_does_not_warn(tmp_path: Path) -> None:
    """It has checkpoints, and neither topic ids nor always a ``meta.properties``."""
    make_kafkas_partition(tmp_path, "orders")
    (tmp_path / RECOVERY_POINTS).write_text("0\n1\norders 0 0\n")
    kstore.open(tmp_path, "r").close()


def test_one_directory_of_several_has_the_settings_of_all(path: Path, tmp_path: Path) -> None:
    paths = [path, tmp_path / "other"]
    with kstore.open(paths, config=QUIET) as store:
        store.move("orders", 1, paths[1])
    shutil.copy(path / "kstore.topics", tmp_path)
    (path / "kstore.topics").unlink()
    (paths[1] / "kstore.topics").unlink(missing_ok=True)
    with pytest.warns(MissingSettingsWarning, match=f"{paths[0]}, {paths[1]}"):
        kstore.open(paths, "r").close()
    shutil.copy(tmp_path / "kstore.topics", paths[1])
    with kstore.open(paths, "r") as store:
        assert store["orders"].config == KEPT
