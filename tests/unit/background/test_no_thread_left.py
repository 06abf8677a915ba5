"""The system has no thread left: an error at the caller, or the caller does the work."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kstore
from kstore.background.scheduler import Scheduler, call_for_all
from kstore.broker.alter_replica_log_dirs import AlterReplicaLogDirs
from kstore.broker.metrics.http_server import MetricsServer
from kstore.errors import KStoreError
from kstore.log.group_commit import Committer
from kstore.store.staged_recovery import StagedRecovery

Refuse = Callable[[str], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refuse]:
    """Let no thread start whose name begins so; "": all may start."""
    refused = ""
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        if refused and thread.name.startswith(refused):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)

    def refuse(prefix: str) -> None:
        nonlocal refused
        refused = prefix

    yield refuse
    refused = ""


def test_work_for_a_pool_is_done_by_the_caller(refuse: Refuse) -> None:
    refuse("pool")
    done: list[int] = []
    with ThreadPoolExecutor(4, "pool") as pool:
        call_for_all(pool, 4, done.append, range(10))
    assert done == list(range(10))


def test_an_error_in_a_pool_is_raised() -> None:
    def fail(item: int) -> None:
        raise ValueError(item)

    with ThreadPoolExecutor(4) as pool, pytest.raises(ValueError):
        call_for_all(pool, 4, fail, range(10))


def test_a_shared_committer_syncs_all_it_was_asked_for(tmp_path: Path, refuse: Refuse) -> None:
    with kstore.open(tmp_path) as store, kstore.SharedCommitter() as committer:
        logs = list(store.create_topic("t", 5))
        for log in logs:
            log.append(b"")
        refuse(committer.NAME)  # the threads of its pool
        committer.flush(logs)
        assert [log.recovery_point for log in logs] == [1] * 5


def test_topics_are_created(tmp_path: Path, refuse: Refuse) -> None:
    refuse("kstore-create")
    with kstore.open(tmp_path) as store:
        assert len(store.create_topic("t", 30)) == 30


def test_a_committer_is_not_created(tmp_path: Path, refuse: Refuse) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        refuse(Committer.NAME)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Committer(log)
        refuse("")
        log.append(b"")
        with Committer(log) as committer:
            assert committer.wait()


def test_a_producer_is_not_created(tmp_path: Path, refuse: Refuse) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")
        refuse("kstore-producer")
        with pytest.raises(RuntimeError, match="can't start new thread"):
            store.producer("t")
        refuse("")
        with store.producer("t") as producer:
            producer.send(b"")
        assert store["t"][0].end_offset == 1


def test_upkeep_begins_with_a_later_log(tmp_path: Path, refuse: Refuse) -> None:
    errors: list[object] = []
    config = kstore.StoreConfig(on_background_error=errors.append)
    with kstore.open(tmp_path, config=config) as store:
        topic = store.create_topic("t", 2)
        refuse(Scheduler.NAME)
        topic[0].append(b"")
        assert "can't start new thread" in str(errors)
        assert store._manager._scheduler is None
        refuse("")
        topic[1].append(b"")
        assert store._manager._scheduler is not None


def test_a_move_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    with kstore.open([tmp_path / "a", tmp_path / "b"]) as store:
        store.create_topic("t")[0].append(b"")
        moves = AlterReplicaLogDirs(store)
        refuse("kstore-replica-move")
        source, target = store.paths
        if not (Path(source) / "t-0").exists():
            source, target = target, source
        with pytest.raises(KStoreError, match="no thread can be started"):
            moves.request("t", 0, target)
        assert moves.targets() == {}
        refuse("")
        moves.request("t", 0, target)
        while moves.targets():
            threading.Event().wait(0.01)
        assert (Path(target) / "t-0").exists()


def test_a_recovery_that_cannot_begin_lets_nobody_wait(
    tmp_path: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].append(b"")
        recoveries = store._manager.recoveries
        due = [(("t", 0), store._catalog.live[0])]  # as after a crash
        monkeypatch.setattr(recoveries, "_begin", lambda: due)
        refuse(StagedRecovery.NAME)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            recoveries.start(lambda: None)
        assert not recoveries.is_any_waiting


def test_a_metrics_server_that_did_not_start_closes(refuse: Refuse) -> None:
    server = MetricsServer("127.0.0.1", 0)
    refuse("kstore-broker-metrics")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        server.start()
    server.close()


@pytest.mark.parametrize("settings", [{}, {"kstore.metrics.port": 0}])
def test_a_broker_that_did_not_start_leaves_its_store(
    tmp_path: Path, refuse: Refuse, settings: dict[str, object]
) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")[0].append(b"")
        broker = kstore.Broker(store, port=0, settings=settings)
        refuse("kstore-broker")
        with pytest.raises(RuntimeError, match="can't start new thread"):
            broker.start()
        with store.consumer("t", group="g") as consumer:  # no broker owns the groups
            assert len(consumer.poll(timeout=0)) == 1
            consumer.commit()
        refuse("")
        with broker.start():
            assert broker.bootstrap_servers
