"""What tests of several folders share: data sets unpacked once a run, never written to."""

import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from kafka_files import data_sets

# A shared machine is slow at times; what is tested here is never time.
settings.register_profile("kstore", deadline=None)
settings.load_profile("kstore")

# A shell's background jobs, and some CI runners, start with Ctrl-C ignored; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def broker_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("kstore-broker")}


@pytest.fixture(autouse=True)
def _no_thread_of_a_broker_is_left() -> Iterator[None]:
    """The test that leaves one fails, not a later one that counts threads.

    A broker that a fixture of several tests runs may start disk workers during any of them.
    """
    before = broker_threads()
    yield
    if any(each.name == "kstore-broker" for each in before):
        return
    left = broker_threads() - before
    for thread in left:
        thread.join(5)  # one that is about to end
    assert not [each.name for each in left if each.is_alive()]


@pytest.fixture(scope="session")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> data_sets.Fixtures:
    """Files of public origin, written by many Kafkas and clients."""
    return data_sets.Fixtures(data_sets.unpack("fixtures", tmp_path_factory.mktemp("fixtures")))


@pytest.fixture(scope="session", params=data_sets.BROKER_SETS)
def broker_set(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> data_sets.BrokerSet:
    """One complete log.dir after another, each written by a real broker. Copy before writing."""
    name = request.param
    return data_sets.BrokerSet(
        name, data_sets.unpack(f"made-{name}", tmp_path_factory.mktemp("broker_set"))
    )


@pytest.fixture(scope="session", params=data_sets.RECOVERED_SETS)
def recovered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> data_sets.RecoveredSet:
    """What brokers left unclean, and how they recovered it. Copy before writing."""
    name = request.param
    root = data_sets.unpack(f"recovered-{name}", tmp_path_factory.mktemp("recovered"))
    return data_sets.RecoveredSet(name, root)
