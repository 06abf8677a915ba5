"""The broker for tests: a process that starts, is killed, and starts again on its port."""

import os
from pathlib import Path

import pytest

import kstore
import kstore.testing
from kstore.errors import KStoreError
from kstore.remote.store import RemoteStore
from kstore.testing import BrokerProcess

pytest_plugins = ["pytester"]


def test_it_serves_and_keeps_its_port(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "kafka") as broker:
        server, pid = broker.bootstrap_servers, broker.pid
        broker.create_topic("orders", 3, {"segment.bytes": 1 << 20})
        with RemoteStore(server) as cluster:
            assert list(cluster) == ["orders"]
            assert cluster["orders"].partitions == (0, 1, 2)
        broker.restart()
        assert (broker.bootstrap_servers, broker.pid != pid) == (server, True)
        with RemoteStore(server) as cluster:
            assert list(cluster) == ["orders"]
        broker.stop()
    with kstore.open(tmp_path / "kafka", "r") as store:
        assert list(store) == ["orders"]


def test_a_kill_leaves_an_unclean_directory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "kafka") as broker:
        broker.create_topic("orders")
        pid = broker.pid
        broker.kill()
        assert not broker.is_running
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert not (tmp_path / "kafka" / ".kafka_cleanshutdown").exists()
        broker.start()
        with RemoteStore(broker.bootstrap_servers) as cluster:
            assert list(cluster) == ["orders"]


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "kafka"):
        broker = BrokerProcess(tmp_path / "kafka")
        with pytest.raises(KStoreError, match="open for writing"):
            broker.start()
        assert not broker.is_running


def test_a_broker_of_another_process_has_no_store(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "kafka")
    with pytest.raises(AttributeError, match="in_process_kafka_broker, which has `store`"):
        broker.store  # noqa: B018


def test_settings_reach_the_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "kafka", settings={"no.such.setting": 1})
    with pytest.raises(KStoreError, match=r"no\.such\.setting"):
        broker.start()


def test_a_group_does_not_wait_for_members_unless_a_setting_says_so(tmp_path: Path) -> None:
    delay = "group.initial.rebalance.delay.ms"
    assert BrokerProcess(tmp_path).settings == {delay: 0}
    given = BrokerProcess(tmp_path, settings={delay: 5, "num.partitions": 3})
    assert given.settings == {delay: 5, "num.partitions": 3}
    assert f"{delay}=5" in given._command()
    with kstore.testing.broker("orders") as broker:
        assert broker._settings.group_initial_rebalance_delay_ms == 0
    with kstore.testing.broker("orders", settings={delay: 5}) as broker:
        assert broker._settings.group_initial_rebalance_delay_ms == 5
