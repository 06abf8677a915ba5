"""Which partitions a broker serves, and what clients of the others get."""

import threading
import time
from pathlib import Path

import kstore
from kstore.errors import StorageError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.remote.connection import Connection
from kstore.store.open_store import open_to_serve
from support.damage import flip
from support.stores import QUIET, copy_as_killed
from unit.store.test_staged_recovery import WAIT, Waiting, files, killed

__all__ = ["files", "killed"]
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def ask_metadata(client: Connection, topic: str) -> list[tuple[int, int]]:
    """(error, leader) of each partition."""
    asked = MetadataRequest(topics=[MetadataRequest.Topics(name=topic)])
    (found,) = client.ask(asked, MetadataResponse).topics
    assert found.error_code == ErrorCode.NONE
    return [(each.error_code, each.leader_id) for each in found.partitions]


def ask_end(client: Connection, topic: str, number: int = 0) -> tuple[int, int]:
    """(error, offset) of ListOffsets for the end."""
    partition = ListOffsetsRequest.Topics.Partitions(
        partition_index=number, current_leader_epoch=-1, timestamp=-1
    )
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsRequest.Topics(name=topic, partitions=[partition])],
    )
    answer = client.ask(asked, ListOffsetsResponse).topics[0].partitions[0]
    return answer.error_code, answer.offset


def ask_fetch(client: Connection, topic: str) -> int:
    """The error of a Fetch by name."""
    partition = FetchRequest.Topics.Partitions(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    asked = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchRequest.Topics(topic=topic, partitions=[partition])],
    )
    answer = client.ask(asked, FetchResponse, highest=12)
    return answer.responses[0].partitions[0].error_code


def test_the_port_is_open_while_a_partition_is_recovered(killed: Path, files: Waiting) -> None:
    is_done = threading.Event()
    with (
        open_to_serve(killed, files=files, on_recovered=lambda store: is_done.set()) as store,
        kstore.Broker(store, port=0) as broker,
        Connection("127.0.0.1", broker.port) as client,
    ):
        assert files.is_listing.wait(WAIT)
        store._manager.recoveries.wait(("fast", 0), ("fast", 1))
        assert ask_metadata(client, "fast") == [(0, 0), (0, 0)]
        assert ask_end(client, "fast", 1) == (0, 10)
        assert ask_fetch(client, "fast") == ErrorCode.NONE
        assert ask_metadata(client, "slow") == [(ErrorCode.LEADER_NOT_AVAILABLE, -1)] * 2
        assert ask_end(client, "slow")[0] == ErrorCode.LEADER_NOT_AVAILABLE
        # Java's consumer fails with 5 here, and refreshes its metadata after 6.
        assert ask_fetch(client, "slow") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        files.may_list.set()
        assert is_done.wait(WAIT)
        assert ask_metadata(client, "slow") == [(0, 0), (0, 0)]
        assert ask_end(client, "slow") == (0, 10)
        assert ask_fetch(client, "slow") == ErrorCode.NONE


def test_a_partition_that_needs_manual_recovery_is_a_storage_error(tmp_path: Path) -> None:
    config = kstore.LogConfig(segment_bytes=1000, segment_index_bytes=4096)
    with kstore.open(tmp_path / "live", config=QUIET) as store:
        for log in store.create_topic("t", 2, config=config):
            for _ in range(10):
                log.append(bytes(300))
        copy_as_killed(tmp_path / "live", tmp_path / "killed")
    flip(tmp_path / "killed/t-0" / f"{0:020}.log", 100)
    with (
        kstore.serve(tmp_path / "killed", port=0) as broker,
        Connection("127.0.0.1", broker.port) as client,
    ):
        broker.store._manager.recoveries.wait_for_all()
        assert ask_end(client, "t", 0)[0] == STORAGE_ERROR
        assert ask_end(client, "t", 1) == (0, 10)


def test_partitions_of_a_directory_that_fails_lose_their_leader(tmp_path: Path) -> None:
    """Without another change of any topic, and for a request that waits."""
    with kstore.open([tmp_path / "a", tmp_path / "b"], config=QUIET) as store:
        store.create_topic("t", partitions=4)
        failed = store._manager._dirs[0]
        lost = [n for n, each in store._catalog.topics["t"].items() if each is failed]
        assert len(lost) == 2
        with (
            kstore.Broker(store, port=0) as broker,
            Connection("127.0.0.1", broker.port) as client,
        ):
            assert ask_metadata(client, "t") == [(0, 0)] * 4
            before = broker._services.metadata.image
            is_published = threading.Event()
            broker._services.metadata.on_change(lambda old, new: is_published.set())
            failed.fail(StorageError("planted", errno=5))
            assert is_published.wait(WAIT)  # no request has asked for it
            without = (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            assert ask_metadata(client, "t") == [without if n in lost else (0, 0) for n in range(4)]
            for number in range(4):
                error = STORAGE_ERROR if number in lost else ErrorCode.NONE
                assert ask_end(client, "t", number)[0] == error
            after = broker._services.metadata.image
            assert after.topics["t"].topic_id == before.topics["t"].topic_id
            assert after.version > before.version
            found = after.topics["t"].partitions[lost[0]]
            assert found.offline_replicas == (0,)


def test_the_logs_of_a_topic_that_a_client_created_open_before_its_next_request(
    tmp_path: Path,
) -> None:
    """ListOffsets of both partitions waited for their logs while Produce wrote to the first."""
    with (
        kstore.serve(tmp_path, port=0, settings={"num.partitions": 2}) as broker,
        Connection("127.0.0.1", broker.port) as client,
    ):
        asked = MetadataRequest([MetadataRequest.Topics(name="t")], allow_auto_topic_creation=True)
        assert client.ask(asked, MetadataResponse).topics[0].error_code != ErrorCode.NONE
        until = time.monotonic() + WAIT
        logs = broker.store._logs
        while None in (opened := [logs.get(("t", n)) for n in (0, 1)]) and time.monotonic() < until:
            time.sleep(0.01)
        assert None not in opened


def test_serve_after_a_kill_is_closed_cleanly(killed: Path) -> None:
    with kstore.serve(killed, port=0) as broker:
        broker.store._manager.recoveries.wait_for_all()
        broker.store["slow"].append(b"more")
    with kstore.open(killed, config=QUIET) as store:
        assert not store.recovery.unclean
        assert sum(log.end_offset for log in store["slow"]) == 21
