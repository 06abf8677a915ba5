"""``kstore recompress``, ``convert`` and ``reindex``: output, changes, exit status."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.errors import StorageError
from oracle.writer import message
from support.damage import write_damaged
from support.jobs import batches, logs, make_store, rebuilt_by_recovery, side_files
from support.stores import QUIET, snapshot


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


def add_old(store_dir: Path) -> None:
    config = kstore.LogConfig(segment_bytes=1000, file_delete_delay_ms=0)
    with kstore.open(store_dir, config=QUIET) as store:
        log = store.create_topic("old", config=config)[0]
        for n in range(60):
            log.append_as_follower(message(n, b"k", b"v%d" % n, magic=n % 2, timestamp=n))


def test_recompress_changes_the_codec_of_one_topic(store_dir: Path, capsys: Any) -> None:
    words = ["recompress", "--compression", "zstd", "--force", "--topic", "orders"]
    before = batches(store_dir)
    assert main([*words, "--log-dir", str(store_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["orders-0", "orders-1"]
    assert "segments rewritten, " in lines[0]
    assert lines[2].startswith("2 partitions, all ok: ")
    after = batches(store_dir)
    assert after["clicks-0"] == before["clicks-0"]
    assert [b.records for b in after["orders-0"]] == [b.records for b in before["orders-0"]]
    assert {b.codec for b in after["orders-0"][:20] if not b.control} == {4}


def test_one_partition_and_the_active_segment(store_dir: Path, capsys: Any) -> None:
    words = ["--topic", "clicks", "--partitions", "1", "--json", "--log-dir", str(store_dir)]
    assert main(["recompress", "--compression", "gzip", "--merge", "--roll", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    (only,) = tree["partitions"]
    assert (tree["ok"], tree["dry_run"]) == (True, False)
    assert (only["topic"], only["partition"], only["ok"]) == ("clicks", 1, True)
    assert only["path"] == str(store_dir / "clicks-1")
    assert only["merged_batches"] > 100
    assert only["bytes_after"] < only["bytes_before"]
    assert only["damages"] == []
    assert {b.codec for b in batches(store_dir)["clicks-1"]} == {1}


def test_a_level_that_no_codec_has_is_an_error_and_changes_nothing(
    store_dir: Path, capsys: Any
) -> None:
    before = snapshot(store_dir)
    words = ["--compression", "lz4", "--level", "3", "--log-dir", str(store_dir)]
    assert main(["recompress", *words]) == 1
    assert capsys.readouterr().err.startswith("kstore recompress: a level goes with a codec")
    assert snapshot(store_dir) == before


def test_convert_rewrites_old_messages_as_batches_v2(store_dir: Path, capsys: Any) -> None:
    add_old(store_dir)
    words = ["convert", "--topic", "old", "--log-dir", str(store_dir)]
    assert main([*words, "--message-format-version", "0.10.0"]) == 1
    assert "cannot hold headers" in capsys.readouterr().err
    assert main([*words, "--message-format-version", "2.8"]) == 0
    assert "old-0: " in capsys.readouterr().out
    found = batches(store_dir)["old-0"]
    assert {b.magic for b in found[:20]} == {2}
    assert {b.magic for b in found} == {0, 1, 2}
    assert main([*words, "--roll"]) == 0
    assert {b.magic for b in batches(store_dir)["old-0"]} == {2}
    with kstore.open(store_dir, "r") as store:
        assert [record.value for record in store["old"][0]] == [b"v%d" % n for n in range(60)]


def test_messages_that_zstd_cannot_have(store_dir: Path, capsys: Any) -> None:
    """The other partitions are recompressed; that one is as it was, and the sentence says why."""
    add_old(store_dir)
    before = logs(store_dir)
    words = ["recompress", "--compression", "zstd", "--force", "--log-dir", str(store_dir)]
    assert main([*words, "--dry-run"]) == 1
    assert "kstore convert" in capsys.readouterr().out
    assert logs(store_dir) == before
    assert main(words) == 1
    output = capsys.readouterr().out
    assert "5 partitions, 1 not ok: " in output
    assert "old-0: messages v0 and v1 cannot be compressed with zstd" in output
    after = logs(store_dir)
    changed = {Path(name).parent.name for name in before if before[name] != after.get(name)}
    assert changed == {"orders-0", "orders-1", "clicks-0", "clicks-1"}


def test_reindex_rebuilds_what_recovery_would(store_dir: Path, tmp_path: Path, capsys: Any) -> None:
    expected = rebuilt_by_recovery(store_dir, tmp_path / "copy")
    before = logs(store_dir)
    for each in [*store_dir.rglob("*.index"), *store_dir.rglob("*.txnindex")]:
        each.write_bytes(b"no index")
    assert main(["reindex", "--log-dir", str(store_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("4 partitions, all ok: ")
    assert side_files(store_dir) == expected
    assert logs(store_dir) == before
    assert main(["reindex", "--json", "--log-dir", str(store_dir)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert [each["written"] for each in tree["partitions"]] == [[]] * 4


@pytest.mark.parametrize("tool", [["reindex"], ["recompress", "--compression", "none"]])
def test_damage_is_reported_and_the_rest_is_done(
    store_dir: Path, tool: list[str], capsys: Any
) -> None:
    chosen = sorted((store_dir / "orders-1").glob("*.log"))[2]
    data = bytearray(chosen.read_bytes())
    data[100] ^= 4
    write_damaged(chosen, data)
    assert main([*tool, "--log-dir", str(store_dir)]) == 1
    output = capsys.readouterr().out
    assert f"\n  unchanged: {chosen} position 0 offset " in output
    assert "4 partitions, 1 not ok: " in output
    assert chosen.read_bytes() == data


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("tool", [["reindex"], ["recompress", "--compression", "none"]])
def test_the_report_is_printed_where_closing_the_store_fails(
    store_dir: Path,
    tool: list[str],
    more: list[str],
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = kstore.Store.close

    def close(store: kstore.Store) -> None:
        original(store)
        raise StorageError("cannot write the checkpoint", errno=28)

    monkeypatch.setattr(kstore.Store, "close", close)
    assert main([*tool, *more, "--log-dir", str(store_dir)]) == 1
    found = capsys.readouterr()
    assert "cannot write the checkpoint" in found.err
    if more:
        assert len(json.loads(found.out)["partitions"]) == 4
    else:
        assert "4 partitions, all ok: " in found.out


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        (["reindex"], "would read "),
        (["recompress", "--compression", "lz4"], "bytes; batches that would grow stay as they are"),
        (["recompress", "--compression", "lz4"], "may rewrite "),
        (["recompress", "--compression", "lz4", "--force"], "would rewrite "),
        (["convert"], "would rewrite 0 of "),
    ],
)
def test_a_dry_run_changes_nothing(
    store_dir: Path, tool: list[str], line: str, capsys: Any
) -> None:
    words = [*tool, "--dry-run", "--log-dir", str(store_dir)]
    with kstore.open(store_dir, config=QUIET):  # it reads beside a writer
        before = snapshot(store_dir)
        assert main(words) == 0
        output = capsys.readouterr().out
        assert output.count(line) == 4
        assert output.endswith("4 partitions, all ok: nothing was changed\n")
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["dry_run"] is True
        assert snapshot(store_dir) == before


def test_a_dry_run_plans_what_the_run_does(store_dir: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["--compression", "gzip", "--force", "--json", "--log-dir", str(store_dir)]
    with kstore.open(store_dir, config=QUIET) as store:
        store["clicks"][0].recompress("gzip", force=True)
    assert main(["recompress", "--dry-run", *words]) == 0
    planned = json.loads(capsys.readouterr().out)["partitions"]
    assert main(["recompress", *words]) == 0
    done = json.loads(capsys.readouterr().out)["partitions"]
    assert [each["segments_to_rewrite"] for each in planned] == [e["rewritten"] for e in done]
    assert [each["bytes"] for each in planned] == [each["bytes_before"] for each in done]
    assert planned[0]["segments_to_rewrite"] == 0


@pytest.mark.parametrize("name", ["recompress", "convert", "reindex"])
def test_an_error_is_one_sentence(store_dir: Path, name: str, capsys: Any) -> None:
    words = [name, *(["--compression", "zstd"] if name == "recompress" else [])]
    assert main([*words, "--topic", "nothing", "--log-dir", str(store_dir)]) == 1
    assert "'nothing' does not exist" in capsys.readouterr().err
    with kstore.open(store_dir, config=QUIET):
        assert main([*words, "--log-dir", str(store_dir)]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"kstore {name}: ")
    assert complaint.count("\n") == 1
    shutil.rmtree(store_dir / "clicks-0")
    assert main([*words, "--partitions", "x", "--log-dir", str(store_dir)]) == 1
    assert "--partitions takes numbers" in capsys.readouterr().err
    assert (
        main([*words, "--topic", "orders", "--partitions", "1,9", "--log-dir", str(store_dir)]) == 1
    )
    assert "no such partition: 9; orders has 0, 1" in capsys.readouterr().err
