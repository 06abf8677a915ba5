"""``kstore log-dirs``: what is where, and moves."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from support.stores import QUIET


@pytest.fixture
def dirs(tmp_path: Path) -> str:
    paths = [tmp_path / "d1", tmp_path / "d2"]
    with kstore.open(paths, config=QUIET) as store:
        for log in store.create_topic("a.b-c", 2):
            log.extend([b"x" * 100] * 10)
    (paths[0] / "gone-3.0f-delete").mkdir()
    (paths[1] / "a.b-c-0.1e-future").mkdir()
    (paths[1] / "odd-0.1e-stray").mkdir()
    return ",".join(map(str, paths))


def described(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["log-dirs", "--describe", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["brokers"][0]["broker"] == 0
    return list(document["brokers"][0]["logDirs"])


def test_describe_has_kafkas_shape(dirs: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = described(capsys, "--log-dir", dirs)
    path = dirs.split(",")[0]
    size = (Path(path) / "a.b-c-0" / f"{0:020d}.log").stat().st_size
    assert first == {
        "logDir": path,
        "error": None,
        "partitions": [{"partition": "a.b-c-0", "size": size, "offsetLag": 0, "isFuture": False}],
        "deleted": ["gone-3.0f-delete"],
        "strays": [],
        "strangers": [],
        "uncleanable": [],
    }
    assert second["partitions"][1] == {
        "partition": "a.b-c-0", "size": 0, "offsetLag": 0, "isFuture": True,
    }  # fmt: skip
    assert second["strays"] == ["odd-0.1e-stray"]
    only = described(capsys, "--topic-list", "other", "--log-dir", dirs)
    assert [each["partitions"] for each in only] == [[], []]


def test_move_moves_a_partition_once(dirs: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = dirs.split(",")
    move = ["log-dirs", "--move", "a.b-c-0", "--log-dir", dirs]
    assert main([*move, "--to", second, "--throttle", "100000000"]) == 0
    assert capsys.readouterr().out == f"Moved a.b-c-0 from {first} to {second}.\n"
    assert main([*move, "--to", second]) == 0
    assert capsys.readouterr().out == f"a.b-c-0 is in {second}.\n"
    with kstore.open([first, second], "r") as store:
        assert store["a.b-c"][0].path == f"{second}/a.b-c-0"
        assert store["a.b-c"][0].end_offset == 10
        assert store.log_dirs[1].futures == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one action"),
        (["--describe", "--move", "t-0"], "exactly one action"),
        (["--move", "t"], "such as orders-3"),
        (["--move", "t-x", "--to", "d2"], "such as orders-3"),
        (["--move", "a.b-c-0"], "--to"),
        (["--move", "a.b-c-0", "--to", "elsewhere"], "not one of the directories"),
        (
            ["--move", "a.b-c-0", "--to", "elsewhere", "--throttle", "0"],
            "--throttle: a whole number from 1",
        ),
    ],
)
def test_wrong_options_of_log_dirs_are_explained(
    dirs: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log-dirs", *arguments, "--log-dir", dirs]) == 1
    assert message in capsys.readouterr().err


def test_a_missing_partition_is_reported(dirs: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["log-dirs", "--move", "a.b-c-7", "--to", dirs.split(",")[0], "--log-dir", dirs]
    assert main(arguments) == 1
    assert "no partition 7" in capsys.readouterr().err
