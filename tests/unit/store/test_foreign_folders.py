"""What someone else put where a topic's new partition belongs is neither used nor removed."""

import shutil
from pathlib import Path

import pytest

from kstore.checkpoint.log_dir import LogDir
from kstore.config import LogConfig
from kstore.errors import StorageError, TopicExistsError
from kstore.files.files import DISK, Files
from kstore.store.topic_registry import TopicRegistry
from support.disks import FaultyDisk

TOPIC_ID = "AAAAAAAAQACAAAAAAAAAqg"
OTHER_ID = "BBBBBBBBQBCBBBBBBBBBqg"


def catalog(path: Path, *, files: Files = DISK) -> TopicRegistry:
    return TopicRegistry([LogDir(files, str(path), writable=False)], LogConfig())


@pytest.mark.parametrize("is_new", [False, True], ids=["extended", "created"])
def test_no_partition_is_made_where_someone_else_put_files(tmp_path: Path, is_new: bool) -> None:
    """A folder that was restored while the store was open, say."""
    registry = catalog(tmp_path)
    if not is_new:
        registry.create("t", 2, None, TOPIC_ID)
    (tmp_path / "t-3").write_bytes(b"a file")
    (tmp_path / "t-2").mkdir()
    before = registry.settings.get("t")

    def make() -> None:
        registry.create("t", 4, None, OTHER_ID) if is_new else registry.grow("t", 4)

    with pytest.raises(TopicExistsError, match="t-3, which is not a directory: move it away"):
        make()
    (tmp_path / "t-3").unlink()
    (tmp_path / "t-2" / "00000000000000000000.log").write_bytes(b"records")
    with pytest.raises(TopicExistsError, match="t-2, which has files that kstore did not make"):
        make()
    assert registry.settings.get("t") == before
    assert sorted(registry.topics.get("t", ())) == ([] if is_new else [0, 1])
    shutil.rmtree(tmp_path / "t-2")
    make()
    assert sorted(registry.topics["t"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("fail_at", range(30))
@pytest.mark.parametrize("is_new", [False, True], ids=["extended", "created"])
def test_what_is_undone_has_no_files_that_someone_else_put_there(
    tmp_path: Path, fail_at: int, is_new: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """They came while the partitions were made."""
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    if not is_new:
        registry.create("t", 2, None, TOPIC_ID)
    records = tmp_path / "t-2" / "00000000000000000000.log"

    def fail() -> StorageError:
        records.parent.mkdir(exist_ok=True)
        records.write_bytes(b"records")
        return StorageError("no space", errno=28)

    def make() -> None:
        registry.create("t", 4, None, OTHER_ID) if is_new else registry.grow("t", 4)

    disk.arm(fail_at, fail)
    try:
        make()
    except StorageError:
        assert records.read_bytes() == b"records"
        if "not undone" in caplog.text:
            assert "t-2, which has files that kstore did not make" in caplog.text
        if 2 not in registry.topics.get("t", ()):  # a failed extension may have found it
            with pytest.raises(TopicExistsError, match="t-2, which has files that kstore did not"):
                make()
            assert records.read_bytes() == b"records"
    else:
        assert fail_at >= len(disk.calls)
