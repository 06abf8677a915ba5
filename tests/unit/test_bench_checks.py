"""Workloads that would not notice: every check of a result can fail, and waits end."""

import os
import threading
from pathlib import Path

import pytest

import kstore
from kstore.bench import latency, log_stream, peers, sockets
from kstore.bench.contests import batch, committed, fetch
from kstore.cli import main
from kstore.errors import KStoreError

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")


# --- congestion control -----------------------------------------------------------------------


def refusing(monkeypatch, *names):
    """As for a process without privilege, which may only set what the system allows."""
    real = sockets._refused
    monkeypatch.setattr(
        sockets, "_refused", lambda name: "not permitted" if name in names else real(name)
    )


def test_a_default_that_is_not_allowed_is_told_and_reno_stands_in(monkeypatch, tmp_path):
    monkeypatch.delenv("KSTORE_BENCH_CONGESTION", raising=False)
    refusing(monkeypatch, "cubic")
    missing: dict[str, str] = {}
    assert sockets.congestion(missing) == "reno"
    assert missing == {"congestion control cubic": "not permitted: reno instead"}
    peers.missing.clear()
    (tmp_path / "file").write_bytes(bytes(MIB))
    for contest in fetch.sending(None, tmp_path / "file", tmp_path, "copies"):
        assert ", reno, " in contest.name
    assert "congestion control cubic" in peers.missing


@pytest.mark.parametrize("name", ["no-such-control", ""])
def test_a_named_congestion_control_that_is_refused_is_an_error(monkeypatch, name):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", name)
    with pytest.raises(KStoreError, match=f"KSTORE_BENCH_CONGESTION={name}: .* allowed here: "):
        sockets.congestion()


def test_a_named_congestion_control_is_never_another(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "cubic")
    refusing(monkeypatch, "cubic")
    with pytest.raises(KStoreError, match="not permitted"):
        sockets.congestion({})


def test_a_run_with_another_congestion_control_than_named_is_not_begun(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "cubik")
    assert main(["bench", "memory/chains", "--dir", str(tmp_path)]) == 1
    assert "KSTORE_BENCH_CONGESTION=cubik" in capsys.readouterr().err


# --- syncs ------------------------------------------------------------------------------------


def test_batches_of_about_a_mebibyte_are_synced_one_by_one(monkeypatch, tmp_path):
    syncs = []
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    log_stream.buffered(tmp_path, 6 * log_stream.WIDE.together, MIB)
    assert len(syncs) == 6
    syncs.clear()
    log_stream.buffered(tmp_path, 6 * log_stream.WIDE.together)
    assert len(syncs) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("requests", [1, 30])
@pytest.mark.parametrize("way", [latency.shared_syncs, latency.group_commits])
def test_a_sync_that_fails_ends_who_waits_for_it(monkeypatch, tmp_path, way, requests):
    real = os.fdatasync

    def failing(fd):
        if threading.current_thread() is not threading.main_thread():
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises((OSError, KStoreError), match="Input/output error"):
        way(tmp_path, 1000.0, requests)
    assert list(tmp_path.iterdir()) == []


# --- results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("spoilt", ["limits.read_all", "limits_disk.read_at"])
def test_bytes_that_were_not_read_are_seen(monkeypatch, spoilt):
    monkeypatch.setattr(f"kstore.bench.contests.fetch.{spoilt}", lambda *given, **named: 0)
    for contest in fetch.contests():
        if "reads" in contest.name:
            with pytest.raises(AssertionError, match="gave 0, not"):
                contest.check()


def test_what_reads_sum_is_what_the_file_has(tmp_path):
    data = os.urandom(8 * 1000 + 3)
    path = tmp_path / "file"
    path.write_bytes(data)
    words = 0
    for at in range(0, len(data), 8):
        words ^= int.from_bytes(data[at : at + 8], "little")
    assert fetch.words_of(path) == words == fetch.by_first_touch(path)
    for cut in range(9):
        assert (
            fetch.at(0, fetch.limits.read_all(data[:cut]))
            ^ fetch.at(cut, fetch.limits.read_all(data[cut:]))
            == words
        )


def test_reads_of_a_log_agree_with_its_file():
    for contest in fetch.contests():
        contest.check()


def test_committed_records_are_known_beforehand(monkeypatch):
    assert len([contest.check() for contest in committed.contests()]) == 4
    real = kstore.Log.view
    monkeypatch.setattr(  # aborted records are not left out
        kstore.Log, "view", lambda self, *given, isolation="": real(self, *given)
    )
    failed = 0
    for contest in committed.contests():
        try:
            contest.check()
        except AssertionError:
            failed += 1
    assert failed == 2


def test_a_log_of_the_workload_is_gone_before_the_next(monkeypatch, tmp_path):
    monkeypatch.setattr(committed, "TemporaryDirectory", lambda: Held(tmp_path))
    for _ in committed.contests():
        assert len(list(tmp_path.iterdir())) == 1


class Held:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        return str(self._path)

    def __exit__(self, *error: object) -> None:
        return None


def test_a_checksum_that_is_wrong_is_seen(monkeypatch):
    contest = batch.leading(1024)
    contest.check()
    monkeypatch.setattr(batch.checksum, "crc32c", lambda data: 1)
    with pytest.raises(AssertionError, match="its CRC alone gave False"):
        contest.check()
