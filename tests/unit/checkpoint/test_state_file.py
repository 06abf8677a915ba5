"""State files: the newest generation counts, and every directory gets the same file."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.state_file import StateFile
from kstore.errors import CorruptFileError, NewerFormatError, StorageError

FILE = StateFile("kstore.test", newest_format=2)
PRIVATE = StateFile("kstore.test", newest_format=2, is_private=True)


@pytest.fixture
def log_dirs(tmp_path: Path):
    with kstore.open([tmp_path / "a", tmp_path / "b"]) as store:
        yield store._manager._dirs


def save(log_dir: LogDir, document: object) -> None:
    Path(log_dir.path, FILE.name).write_text(json.dumps(document))


def newest(log_dirs: list[LogDir]) -> tuple[int, str | None]:
    return FILE.read_newest(log_dirs, lambda found: FILE.value(found.body, "x", str, found.path))


def test_the_highest_generation_counts(log_dirs: list[LogDir]) -> None:
    assert newest(log_dirs) == (0, None)
    save(log_dirs[0], {"format": 1, "generation": 8, "x": "new"})
    save(log_dirs[1], {"format": 2, "generation": 7, "x": "old"})
    assert newest(log_dirs) == (8, "new")
    log_dirs[0].offline = StorageError("failed", path=log_dirs[0].path)
    assert newest(log_dirs) == (7, "old")


def test_a_write_replaces_the_file_in_each_directory(log_dirs: list[LogDir]) -> None:
    FILE.write(log_dirs, 3, {"x": "a"})
    assert newest(log_dirs[:1]) == newest(log_dirs[1:]) == (3, "a")
    FILE.write(log_dirs, 4, {"x": "b"}, version=1)
    found = json.loads(Path(log_dirs[1].path, FILE.name).read_text())
    assert found == {"format": 1, "generation": 4, "x": "b"}


@pytest.mark.parametrize("is_offline", [True, False])
def test_a_write_fails_only_if_it_fails_in_all_directories(
    log_dirs: list[LogDir], is_offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = StorageError("failed", path="here")
    log_dirs[0].offline = failed
    FILE.write(log_dirs, 3, {"x": "a"})
    assert newest(log_dirs) == (3, "a")
    if is_offline:
        log_dirs[1].offline = failed
    else:  # it fails during the write, which takes it offline
        monkeypatch.setattr(log_dirs[1].files, "write_atomically", lambda *_: fail(log_dirs[1]))
    with pytest.raises(StorageError):
        FILE.write(log_dirs, 4, {"x": "b"})


def fail(log_dir: LogDir) -> None:
    log_dir.offline = StorageError("failed", path=log_dir.path)
    raise log_dir.offline


def test_an_error_of_a_directory_that_still_works_is_raised(
    log_dirs: list[LogDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("no permission", path="here")

    monkeypatch.setattr(log_dirs[1].files, "write_atomically", refuse)
    with pytest.raises(StorageError, match="no permission"):
        FILE.write(log_dirs, 4, {"x": "b"})


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[" * 100_000, b"[1]", b"null", b"{}", b'{"format":1}', b'{"generation":1}',
        b'{"format":0,"generation":1}', b'{"format":1,"generation":0}',
        b'{"format":true,"generation":1}', b'{"format":1,"generation":true}',
        b'{"format":1.0,"generation":1}', b'{"format":"1","generation":1}', b"\xff",
    ],
)  # fmt: skip
def test_a_frame_that_does_not_parse_is_an_error_with_its_path(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"kstore\.test does not parse") as caught:
        FILE.parse(data, "here")
    assert caught.value.path == "here"


def test_a_newer_format_is_refused_whatever_else_the_file_has() -> None:
    with pytest.raises(NewerFormatError, match=r"format 3 .* up to 2"):
        FILE.parse(b'{"format": 3, "generation": "later"}', "here")


def test_a_value_has_the_type_that_is_asked_for() -> None:
    body = {"number": 1, "flag": True, "text": "x"}
    assert FILE.value(body, "number", int, "here") == 1
    assert FILE.value(body, "flag", bool, "here") is True
    assert FILE.value(body, "missing", str, "here", default="y") == "y"
    for key, kind in (("flag", int), ("number", bool), ("text", int), ("missing", str)):
        with pytest.raises(CorruptFileError, match=f"kstore.test: '{key}' must be"):
            FILE.value(body, key, kind, "here")
    with pytest.raises(CorruptFileError):
        FILE.value([], "number", int, "here")


def test_an_error_about_a_private_file_does_not_show_its_content() -> None:
    with pytest.raises(CorruptFileError) as caught:
        PRIVATE.value({"key": "secret"}, "key", int, "here")
    assert "secret" not in str(caught.value)
    with pytest.raises(CorruptFileError) as caught:
        PRIVATE.parse(b'{"format": "secret"}', "here")
    assert "secret" not in str(caught.value)


def test_only_the_owner_can_read_a_private_file(log_dirs: list[LogDir]) -> None:
    PRIVATE.write(log_dirs, 1, {"x": "a"})
    modes = [Path(each.path, PRIVATE.name).stat().st_mode & 0o777 for each in log_dirs]
    assert modes == [0o600, 0o600]
