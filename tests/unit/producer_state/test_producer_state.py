"""Idempotent and transactional producers at one log: what it takes, knows, writes down."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    KStoreError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kstore.log.log import Log
from kstore.producer_state import snapshot
from kstore.segment import transaction_index
from oracle.producers import Leader, Refused
from oracle.reader import read_log as oracle_read
from support.damage import write_damaged
from support.logs import log_bytes, open_log, read_log
from support.producers import NOW, sent

FOREVER = {"producer_id_expiration_ms": 2**62}
LARGEST = 2**31 - 1


def opened(directory: Path, **settings: Any) -> Log:
    return open_log(directory, clock=lambda: NOW, **{**FOREVER, **settings})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return opened(tmp_path / "t-0")


def files_of(log: Log, kind: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(log.path).glob(f"*.{kind}"))}


# --- sequences and epochs ------------------------------------------------------------------------


def test_a_repeated_batch_is_answered_and_not_written(log: Log) -> None:
    first = [log.append_as_leader(sent(7, 0, 10 * n, 10)) for n in range(6)]
    size = log.size
    for n in range(1, 6):
        again = log.append_as_leader(sent(7, 0, 10 * n, 10))
        assert tuple(again) == (*first[n][:3], 0)
    assert log.size == size
    assert log.end_offset == 60
    with pytest.raises(OutOfOrderSequenceError) as caught:  # beyond the five that are kept
        log.append_as_leader(sent(7, 0, 0, 10))
    assert caught.value.code == 45
    assert log.append_as_leader(sent(7, 0, 60)).first_offset == 60


def test_a_part_of_a_batch_is_not_a_duplicate(log: Log) -> None:
    log.append_as_leader(sent(7, 0, 0, 10))
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(7, 0, 0, 5))


@pytest.mark.parametrize("sequence", [0, 3, 5, LARGEST])
def test_a_gap_is_refused(log: Log, sequence: int) -> None:
    log.append_as_leader(sent(7, 0, 0, 4))
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(7, 0, sequence))
    assert log.end_offset == 4


def test_a_producer_that_is_not_known_may_begin_anywhere(log: Log) -> None:
    assert log.append_as_leader(sent(7, 3, 1234)).first_offset == 0
    assert log.append_as_leader(sent(7, 3, 1235)).first_offset == 1


def test_sequences_wrap(log: Log) -> None:
    log.append_as_leader(sent(7, 0, LARGEST - 1, 4))
    assert [entry.last_sequence for entry in log.producers()] == [1]
    assert log.append_as_leader(sent(7, 0, LARGEST - 1, 4)).size == 0
    assert log.append_as_leader(sent(7, 0, 2)).first_offset == 4
    log.append_as_leader(sent(8, 0, LARGEST))
    assert log.append_as_leader(sent(8, 0, 0)).first_offset == 6


def test_an_older_epoch_is_refused_and_a_newer_one_begins_at_0(log: Log) -> None:
    log.append_as_leader(sent(7, 5, 0, 3))
    with pytest.raises(InvalidProducerEpochError) as caught:
        log.append_as_leader(sent(7, 4, 3))
    assert caught.value.code == 47
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(7, 6, 3))
    log.append_as_leader(sent(7, 6, 0))
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(sent(7, 5, 0, 3))  # a repetition, but of an epoch that is over


def test_a_batch_is_compared_only_with_batches_of_its_epoch(log: Log) -> None:
    log.append_as_leader(sent(7, 0, 0))
    log.append_as_leader(sent(7, 1, 0))
    assert log.append_as_leader(sent(7, 1, 0)).first_offset == 1


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("target", ["producer", "zstd"])
def test_every_path_of_a_leader_keeps_the_state(
    tmp_path: Path, codec: int, kind: str, target: str
) -> None:
    log = opened(tmp_path / "t-0", message_timestamp_type=kind, compression_type=target)
    info = log.append_as_leader(sent(7, 2, 0, 3, codec=codec, timestamp=NOW - 50))
    again = log.append_as_leader(sent(7, 2, 0, 3, codec=codec, timestamp=NOW - 50))
    newest = NOW if kind == "LogAppendTime" else NOW - 48
    assert tuple(info)[:3] == tuple(again)[:3] == (0, 2, newest)
    assert [tuple(entry) for entry in log.producers()] == [(7, 2, 2, 2, 2, newest, -1, -1)]
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(7, 2, 4, codec=codec))


def test_control_batches_come_from_no_client(log: Log) -> None:
    from oracle.plain import ABORT
    from oracle.writer import marker

    data = marker(0, ABORT, timestamp=NOW, producer_id=7, producer_epoch=0)
    for append in (log.append_as_leader, log.append_as_coordinator):
        with pytest.raises(InvalidRecordError):
            append(data)


def test_a_coordinator_s_batches_have_no_sequence(log: Log) -> None:
    for n in range(3):
        info = log.append_as_coordinator(sent(7, 1, -1, transactional=True))
        assert info.first_offset == n
    assert log.last_stable_offset == 0
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_coordinator(sent(7, 0, -1, transactional=True))
    log.append_end_marker(7, 1, commit=True)
    assert log.last_stable_offset == 4


def test_duplicates_of_thousands_of_producers_are_found(log: Log) -> None:
    ids = [(n * 7919) % 100_003 + (1 << 62) for n in range(3000)]
    for n, producer_id in enumerate(ids):
        log.append_as_leader(sent(producer_id, 0, n))
    for n, producer_id in enumerate(ids):
        assert log.append_as_leader(sent(producer_id, 0, n)).first_offset == n
    assert {entry.producer_id for entry in log.producers()} == set(ids)


# --- transactions --------------------------------------------------------------------------------


def test_a_marker_as_kafka_writes_it(log: Log) -> None:
    log.append_as_leader(sent(7, 3, 0, transactional=True))
    info = log.append_end_marker(7, 3, commit=False, coordinator_epoch=9)
    assert tuple(info) == (1, 1, NOW, 78)
    (marker,) = oracle_read(log_bytes(Path(log.path))).batches[1:]
    assert marker.crc_ok
    assert (marker.producer_id, marker.producer_epoch, marker.base_sequence) == (7, 3, -1)
    from oracle.plain import ABORT
    from oracle.writer import marker as plain

    assert log_bytes(Path(log.path))[-78:] == plain(
        1, ABORT, timestamp=NOW, producer_id=7, producer_epoch=3, coordinator_epoch=9
    )


def test_a_marker_of_a_log_with_its_own_time(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", message_timestamp_type="LogAppendTime")
    log.append_end_marker(7, 3, commit=True)
    (marker,) = oracle_read(log_bytes(Path(log.path))).batches
    assert marker.crc_ok
    assert (marker.max_timestamp, marker.timestamp_type) == (NOW, "LogAppendTime")


def test_the_last_stable_offset_waits_for_the_oldest(log: Log) -> None:
    log.append(b"plain")
    log.append_as_leader(sent(1, 0, 0, 2, transactional=True))  # 1, 2
    log.append_as_leader(sent(2, 0, 0, 2, transactional=True))  # 3, 4
    assert log.last_stable_offset == 1
    log.append_end_marker(2, 0, commit=False)  # 5
    assert log.last_stable_offset == 1
    log.append_end_marker(1, 0, commit=False)  # 6
    assert log.last_stable_offset == log.end_offset == 7
    aborted = log.aborted_transactions(0, 7)
    assert [tuple(entry) for entry in aborted] == [(0, 2, 3, 5, 1), (0, 1, 1, 6, 7)]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 2)] == [1]
    assert [entry.producer_id for entry in log.aborted_transactions(6, 7)] == [1]
    assert [record.offset for record in log.view(isolation="read_committed")] == [0]


def test_a_plain_batch_within_a_transaction_is_refused(log: Log) -> None:
    log.append_as_leader(sent(1, 0, 0, transactional=True))
    with pytest.raises(InvalidTxnStateError) as caught:
        log.append_as_leader(sent(1, 0, 1))
    assert caught.value.code == 48
    log.append_end_marker(1, 0, commit=True)
    log.append_as_leader(sent(1, 0, 1))


def test_a_marker_may_raise_the_epoch(log: Log) -> None:
    log.append_as_leader(sent(1, 0, 0, 3, transactional=True))
    log.append_end_marker(1, 1, commit=True, transaction_version=2)
    assert log.last_stable_offset == 4
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent(1, 1, 3, transactional=True))
    log.append_as_leader(sent(1, 1, 0, transactional=True))
    with pytest.raises(InvalidProducerEpochError):  # of the records' own epoch
        log.append_end_marker(1, 1, commit=True, transaction_version=2)
    log.append_end_marker(1, 2, commit=True, transaction_version=2)
    log.append_end_marker(1, 2, commit=True, transaction_version=2)  # sent again: nothing is open


def test_an_older_coordinator_is_fenced(log: Log) -> None:
    log.append_as_leader(sent(1, 0, 0, transactional=True))
    log.append_end_marker(1, 0, commit=True, coordinator_epoch=5)
    log.append_as_leader(sent(1, 0, 1, transactional=True))
    with pytest.raises(TransactionCoordinatorFencedError) as caught:
        log.append_end_marker(1, 0, commit=True, coordinator_epoch=4)
    assert caught.value.code == 52
    log.append_as_leader(sent(1, 2, 0, transactional=True))
    with pytest.raises(InvalidProducerEpochError):
        log.append_end_marker(1, 1, commit=True, coordinator_epoch=5)


def test_a_marker_without_a_transaction(log: Log) -> None:
    log.append_end_marker(9, 4, commit=False, coordinator_epoch=2)
    assert log.aborted_transactions(0, 10) == []
    assert [tuple(entry) for entry in log.producers()] == [(9, 4, -1, -1, 0, NOW, 2, -1)]
    assert files_of(log, "txnindex") == {}


@pytest.mark.parametrize("arguments", [(-1, 0), (1, -1)])
def test_markers_with_an_id_or_epoch_out_of_range_are_refused(
    log: Log, arguments: tuple[int, int]
) -> None:
    with pytest.raises(ValueError, match="whole number from 0 to"):
        log.append_end_marker(*arguments, commit=True)
    with pytest.raises(ValueError, match="whole number from 0 to 32767"):
        log.append_end_marker(1, 1 << 15, commit=True)


def test_a_follower_takes_state_without_asking(log: Log, tmp_path: Path) -> None:
    log.append_as_leader(sent(1, 0, 0, 2, transactional=True))
    log.append_as_leader(sent(2, 0, 5))
    log.append_end_marker(1, 0, commit=False, coordinator_epoch=3)
    log.append_as_leader(sent(1, 0, 2, transactional=True))
    other = opened(tmp_path / "u-0")
    other.append_as_follower(log_bytes(Path(log.path)))
    assert sorted(other.producers()) == sorted(log.producers())
    assert other.last_stable_offset == log.last_stable_offset == 4
    assert files_of(other, "txnindex") == files_of(log, "txnindex") != {}
    assert other.aborted_transactions(0, 9) == log.aborted_transactions(0, 9)
    # A leader would refuse these; a follower does as its leader did.
    odd = sent(2, 0, 99)
    odd = (5).to_bytes(8, "big") + odd[8:]
    other.append_as_follower(odd)
    assert other.append_as_leader(sent(2, 0, 100)).first_offset == 6


# --- expiry ----------------------------------------------------------------------


def test_idle_producers_are_forgotten_but_not_their_transactions(tmp_path: Path) -> None:
    now = [NOW]
    log = open_log(tmp_path / "t-0", clock=lambda: now[0], producer_id_expiration_ms=1000)
    log.append_as_leader(sent(1, 0, 0))
    log.append_as_leader(sent(2, 0, 0, transactional=True))
    log.append_as_leader(sent(3, 0, 0, timestamp=NOW + 500))
    now[0] += 999
    assert log.expire_producers() == 0
    now[0] += 1
    assert log.expire_producers() == 1
    assert {entry.producer_id for entry in log.producers()} == {2, 3}
    assert log.append_as_leader(sent(1, 0, 77)).first_offset == 3
    assert log.append_as_leader(sent(3, 0, 1)).first_offset == 4
    assert log.last_stable_offset == 1


def test_an_opening_expires_producers_by_the_logs_clock(tmp_path: Path) -> None:
    now = [NOW]

    def reopened():
        return open_log(tmp_path / "t-0", clock=lambda: now[0], producer_id_expiration_ms=1000)

    log = reopened()
    log.append_as_leader(sent(1, 0, 0))
    log.close()
    for passed, expected in ((999, [1]), (1000, [])):
        now[0] = NOW + passed
        log = reopened()
        assert [entry.producer_id for entry in log.producers()] == expected
        log.close()


# --- snapshots ----------------------------------------------------------------------


def test_a_roll_and_a_close_write_snapshots(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.append_as_leader(sent(1, 0, 0, 2, transactional=True))
    log.roll()
    log.append_end_marker(1, 0, commit=False, coordinator_epoch=4)
    state = log.producers()
    log.close()
    found = files_of(log, "snapshot")
    assert list(found) == [f"{2:020d}.snapshot", f"{3:020d}.snapshot"]
    assert [tuple(e) for e in snapshot.parse(found[f"{2:020d}.snapshot"])] == [
        (1, 0, 1, 1, 1, NOW + 1, -1, 0)
    ]
    assert snapshot.parse(found[f"{3:020d}.snapshot"]) == state
    index = files_of(log, "txnindex")
    assert list(index) == [f"{2:020d}.txnindex"]  # in the segment of the marker
    assert transaction_index.parse(index[f"{2:020d}.txnindex"]) == [(0, 1, 0, 2, 3)]


def test_a_snapshot_without_producers_has_kafkas_bytes(log: Log) -> None:
    log.close()
    assert files_of(log, "snapshot") == {}
    log = opened(Path(log.path))
    log.append(b"no producer")
    log.close()
    assert files_of(log, "snapshot") == {
        f"{1:020d}.snapshot": bytes.fromhex("00 01 48 67 4b c7 00 00 00 00")
    }


def test_only_the_last_batch_survives_a_restart(log: Log) -> None:
    for n in range(3):
        log.append_as_leader(sent(1, 0, n))
    log.close()
    again = opened(Path(log.path))
    assert again.append_as_leader(sent(1, 0, 2)).first_offset == 2
    with pytest.raises(OutOfOrderSequenceError):
        again.append_as_leader(sent(1, 0, 1))
    assert again.append_as_leader(sent(1, 0, 3)).first_offset == 3


def busy(log: Log) -> None:
    """Three segments with transactions that end in each way, one left open."""
    for n in range(3):
        log.append_as_leader(sent(1, n, 0, 3, transactional=True))
        log.append_as_leader(sent(2, 0, 2 * n, 2))
        log.append_as_leader(sent(3, 0, n, transactional=True))
        if n < 2:
            log.roll()
        log.append_end_marker(1, n + 1, commit=n == 1, coordinator_epoch=n)
        if n == 1:
            log.append_end_marker(3, 0, commit=False)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", ["nothing", "*.snapshot", "*.txnindex", "newest", "damaged"])
def test_side_files_are_derived(tmp_path: Path, lost: str, clean: bool) -> None:
    log = opened(tmp_path / "t-0")
    busy(log)
    state, stable = sorted(log.producers()), log.last_stable_offset
    aborted = log.aborted_transactions(0, log.end_offset)
    assert len(aborted) == 3
    log.close()
    index = files_of(log, "txnindex")
    snapshots = sorted(Path(log.path).glob("*.snapshot"))
    if lost == "newest":
        snapshots[-1].unlink()
    elif lost == "damaged":
        for path in snapshots:
            write_damaged(path, path.read_bytes()[:-1] + b"?")
    elif lost != "nothing":
        for path in Path(log.path).glob(lost):
            path.unlink()
    outside = read_log(Path(log.path))
    assert sorted(outside.producers()) == state
    assert outside.aborted_transactions(0, 99) == aborted
    assert outside.last_stable_offset == stable
    again = opened(Path(log.path), clean=clean)
    assert sorted(again.producers()) == state
    assert again.last_stable_offset == stable
    assert again.aborted_transactions(0, 99) == aborted
    assert files_of(again, "txnindex") == index
    again.close()


def test_a_wrong_index_is_rebuilt_after_an_unclean_stop(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    busy(log)
    log.close()
    index = files_of(log, "txnindex")
    for path in Path(log.path).glob("*.txnindex"):
        write_damaged(path, path.read_bytes() + bytes(10))
    again = opened(Path(log.path), clean=False)
    assert files_of(again, "txnindex") == index


def test_stray_snapshots_go_and_the_newest_stays(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    busy(log)
    log.close()
    directory = Path(log.path)
    newest = sorted(directory.glob("*.snapshot"))[-1]
    for offset in (1, 12, 999):
        shutil.copy(newest, directory / f"{offset:020d}.snapshot")
    state = sorted(read_log(directory).producers())
    again = opened(directory)
    assert sorted(again.producers()) == state
    bases = {path.stem for path in directory.glob("*.log")}
    left = [path.stem for path in sorted(directory.glob("*.snapshot"))]
    assert set(left) - bases <= {newest.stem}
    again.close()


def test_truncation_takes_the_state_back(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    seen = []
    for n in range(6):
        info = log.append_as_leader(sent(1, n, 0, 2, transactional=True))
        seen.append((info.last_offset + 1, sorted(log.producers()), log.last_stable_offset))
        log.append_end_marker(1, n + 1, commit=n % 2 == 0, coordinator_epoch=n)
        seen.append((log.end_offset, sorted(log.producers()), log.last_stable_offset))
        if n % 2:
            log.roll()
    aborted = log.aborted_transactions(0, 99)
    assert len(aborted) == 3
    for end, state, stable in reversed(seen):
        log.truncate_to(end)
        assert sorted(log.producers()) == state
        assert log.last_stable_offset == stable
        left = [entry for entry in aborted if entry.last_offset < end]
        assert log.aborted_transactions(0, 99) == left
        assert b"".join(files_of(log, "txnindex").values()) == transaction_index.encode(left)
    log.truncate_to(0)
    assert log.producers() == []
    log.append_as_leader(sent(1, 0, 17))
    log.close()


def test_retention_takes_snapshots_with_their_segments(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", file_delete_delay_ms=0)
    busy(log)
    state = sorted(log.producers())
    bases = [view.base_offset for view in log.segments.views]
    log.delete_records(bases[2])
    assert list(files_of(log, "snapshot")) == [f"{bases[2]:020d}.snapshot"]
    assert sorted(log.producers()) == state  # who wrote what is gone is known until it expires
    log.close()
    again = opened(tmp_path / "t-0", log_start_offset=bases[2])
    assert sorted(again.producers()) == state
    again.close()


def test_a_log_that_was_parked_takes_appends(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    busy(log)
    assert log.park()
    log.append_end_marker(3, 0, commit=False)
    assert log.append_as_leader(sent(2, 0, 4, 2)).size == 0
    assert len(log.aborted_transactions(0, 99)) == 4
    assert read_log(Path(log.path)).aborted_transactions(0, 99) == log.aborted_transactions(0, 99)


# --- against the oracle ----------------------------------------------------------------------


SEQUENCES = st.sampled_from([0, 0, 1, 5, LARGEST])
EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.integers(1, 3),
            st.integers(0, 3),
            st.one_of(st.just("next"), st.just("again"), SEQUENCES),
            st.integers(1, 3),
            st.booleans(),
        ),
        st.tuples(
            st.just("end"),
            st.integers(1, 3),
            st.integers(0, 3),
            st.booleans(),
            st.integers(0, 2),
            st.sampled_from([0, 2]),
        ),
        st.tuples(st.sampled_from(["roll", "reopen", "crash", "park"])),
    ),
    max_size=40,
)


def agree(log: Log, leader: Leader) -> None:
    assert log.end_offset == leader.end
    assert {tuple(entry) for entry in log.producers()} == leader.entries()
    assert log.last_stable_offset == leader.last_stable_offset
    found = [tuple(entry)[1:] for entry in log.aborted_transactions(0, leader.end)]
    assert found == leader.aborted


def act(log: Log, leader: Leader, event: tuple[Any, ...]) -> None:
    """Do the same to both; both take it with the same answer, or refuse it with one code."""
    if event[0] == "send":
        _, producer_id, epoch, sequence, count, transactional = event
        known = leader.producers.get(producer_id)
        recent = known.recent if known is not None else []
        if sequence in ("next", "again"):
            last = recent[-1] if recent else None
            if last is None:
                sequence = 0
            elif sequence == "again":
                epoch, sequence, count = recent[0].epoch, recent[0].first_sequence, recent[0].count
            else:
                epoch, sequence = last.epoch, (last.last_sequence + 1) % (LARGEST + 1)
        data = sent(producer_id, epoch, sequence, count, transactional=transactional)
        mine = answer(lambda: tuple(log.append_as_leader(data)[:2]))
        theirs = answer(
            lambda: leader.append(
                producer_id, epoch, sequence, count, NOW + count - 1, transactional=transactional
            )
        )
    else:
        _, producer_id, epoch, commit, coordinator, version = event
        options = {"commit": commit, "coordinator_epoch": coordinator}
        mine = answer(
            lambda: (
                log.append_end_marker(
                    producer_id, epoch, transaction_version=version, **options
                ).first_offset
            )
        )
        theirs = answer(
            lambda: leader.end_transaction(producer_id, epoch, NOW, version=version, **options)
        )
    assert mine == theirs, event


def answer(call: Any) -> Any:
    try:
        return call()
    except (KStoreError, Refused) as error:
        return f"code {error.code}"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=EVENTS)
def test_producer_state_agrees_with_the_oracle_after_any_events(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any]
) -> None:
    directory = tmp_path_factory.mktemp("oracle") / "t-0"
    log, leader = opened(directory), Leader()
    for event in events:
        if event[0] == "roll":
            log.roll()
        elif event[0] == "park":
            log.park()
        elif event[0] in ("reopen", "crash"):
            if event[0] == "reopen":
                log.close()
                leader.reopened()
                log = opened(directory)
            else:  # all is in the files, which were not closed
                leave(log)
                log = opened(directory, clean=False)
                forget(leader, log)
        else:
            act(log, leader, event)
        agree(log, leader)
    outside = read_log(directory)
    assert {tuple(entry) for entry in outside.producers()} == leader.entries()
    assert outside.last_stable_offset == leader.last_stable_offset
    found = [tuple(entry)[1:] for entry in outside.aborted_transactions(0, leader.end)]
    assert found == leader.aborted
    log.close()
    shutil.rmtree(directory)


def leave(log: Log) -> None:
    """As a process that was killed leaves its log."""
    log._writer.active_segment.drop_files()


def forget(leader: Leader, log: Log) -> None:
    """After a crash a log knows what the replay saw: one batch to five of each producer."""
    table = log._writer.state.producers.table
    assert {entry[0] for entry in table.entries()} == set(leader.producers)
    log._writer.state.producers.take_snapshot(leader.end)
    leader.reopened()
    table.load(table.entries())
