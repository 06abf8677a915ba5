"""Fetch in every version: limits, epochs, sessions, topic ids, isolation, down-conversion."""

from typing import Any

from interop.same_bytes import bodies
from interop.same_bytes.asker import Asker
from interop.same_bytes.produce import data
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey

FETCH = ApiKey.FETCH
MIB = 1 << 20
UNKNOWN_ID = bytes(range(16))
COUNT = 20  # batches of three records


class Fetches:
    """Builds Fetch requests by topic name, which version 13 replaces by ids."""

    def __init__(self, asker: Asker, version: int) -> None:
        self._asker, self._version = asker, version

    def topic(self, name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
        topic_id = self._asker.topic_ids.get(name, UNKNOWN_ID)
        return {"topic": name, "topic_id": topic_id, "partitions": list(partitions)}

    def ask(self, title: str, *topics: dict[str, Any], **fields: Any) -> Any:
        usual: dict[str, Any] = {"replica_id": -1, "max_wait_ms": 50, "min_bytes": 1}
        usual |= {"max_bytes": MIB, "topics": list(topics)}
        return self._asker.ask(title, FETCH, self._version, **{**usual, **fields})


def at(offset: int, partition: int = 0, max_bytes: int = MIB, **fields: Any) -> dict[str, Any]:
    """A partition of a request."""
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
        **fields,
    }


def ask(asker: Asker) -> None:
    codecs = ("gzip", "snappy", "lz4", "zstd")
    create(asker, specification("fetched", 3), specification("empty"), specification("deleted"))
    create(asker, *(specification(f"fetched-{name}") for name in (*codecs, "v0", "v1", "v1-gzip")))
    _fill(asker)
    for version in versions(FETCH):
        fetches = Fetches(asker, version)
        _offsets(fetches)
        _sizes(fetches)
        _faults(fetches)
        _epochs(fetches)
        for name in (*codecs, "v0", "v1", "v1-gzip"):
            fetches.ask(f"records of {name}", fetches.topic(f"fetched-{name}", at(0)))
    for version in (7, 11, 12, 13, 17):
        _sessions(Fetches(asker, version))


def _fill(asker: Asker) -> None:
    def send(version: int, topic: str, *batches: bytes) -> None:
        fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data(topic, *batches)}
        answer = asker.look(ApiKey.PRODUCE, version, **fields)
        partitions = answer.responses[0].partition_responses
        assert not any(each.error_code for each in partitions), (topic, partitions)

    for _ in range(COUNT):
        send(8, "fetched", bodies.good(), bodies.good(1))
        send(8, "deleted", bodies.good())
    for number, codec in enumerate(("gzip", "snappy", "lz4", "zstd"), 1):
        send(8, f"fetched-{codec}", bodies.good(codec=number))
        send(8, f"fetched-{codec}", bodies.good())
    send(2, "fetched-v0", bodies.message_set(0))
    send(2, "fetched-v1", bodies.message_set(1))
    send(2, "fetched-v1-gzip", bodies.wrapped(1, 1))
    topics = [{"name": "deleted", "partitions": [{"partition_index": 0, "offset": 10}]}]
    asker.look(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=5000)


def _offsets(fetches: Fetches) -> None:
    for offset in (0, 1, 3, 58, 59, 60, 61, -1, -2, 1 << 40):
        fetches.ask(f"offset {offset}", fetches.topic("fetched", at(offset)))
    for offset in (0, 9, 10, 11):
        fetches.ask(f"offset {offset} of a shortened log", fetches.topic("deleted", at(offset)))
    fetches.ask("an empty partition", fetches.topic("empty", at(0)))
    fetches.ask("an empty partition, offset 1", fetches.topic("empty", at(1)))


def _sizes(fetches: Fetches) -> None:
    for size in (0, 1, 60, 150, 400, -1):
        fetches.ask(f"{size} bytes of a partition", fetches.topic("fetched", at(0, 0, size)))
        topic = fetches.topic("fetched", at(0, 0), at(0, 1))
        fetches.ask(f"{size} bytes in all", topic, max_bytes=size)
        topic = fetches.topic("fetched", at(60, 0, size), at(0, 1, size))
        fetches.ask(f"{size} bytes each, the first at its end", topic)
    topic = fetches.topic("fetched", at(0, 0, 200), at(0, 1, 200), at(0, 2, 200))
    fetches.ask("200 bytes each", topic)
    fetches.ask(
        "min_bytes above the available bytes", fetches.topic("fetched", at(57)), min_bytes=MIB
    )
    fetches.ask("no wait at the end", fetches.topic("fetched", at(60)), max_wait_ms=0)
    fetches.ask("a negative wait", fetches.topic("fetched", at(60)), max_wait_ms=-1)
    fetches.ask("min_bytes 0 at the end", fetches.topic("fetched", at(60)), min_bytes=0)
    fetches.ask("no topics", max_wait_ms=0)


def _faults(fetches: Fetches) -> None:
    fetches.ask("an unknown topic", fetches.topic("none", at(0)))
    fetches.ask("an unknown partition", fetches.topic("fetched", at(0, 9)))
    fetches.ask("partition -1", fetches.topic("fetched", at(0, -1)))
    fetches.ask("known and unknown", fetches.topic("none", at(0)), fetches.topic("fetched", at(57)))
    fetches.ask("the same partition twice", fetches.topic("fetched", at(0), at(57)))
    fetches.ask("isolation level 1", fetches.topic("fetched", at(51)), isolation_level=1)
    fetches.ask("isolation level 2", fetches.topic("fetched", at(51)), isolation_level=2)
    fetches.ask("a rack", fetches.topic("fetched", at(57)), rack_id="rack")
    state = {"replica_id": 7, "replica_epoch": 1}
    fetches.ask(
        "an unknown follower", fetches.topic("fetched", at(57)), replica_id=7, replica_state=state
    )
    fetches.ask("the debugging consumer", fetches.topic("fetched", at(57)), replica_id=-2)


def _epochs(fetches: Fetches) -> None:
    for epoch in (-1, 0, 1, -2):
        topic = fetches.topic("fetched", at(57, current_leader_epoch=epoch))
        fetches.ask(f"leader epoch {epoch}", topic)
        topic = fetches.topic("fetched", at(57, last_fetched_epoch=epoch))
        fetches.ask(f"last fetched epoch {epoch}", topic)


def _sessions(fetches: Fetches) -> None:
    both = fetches.topic("fetched", at(57), at(19, 1))
    opened = fetches.ask("session: open", both, session_epoch=0)
    if opened is None or not opened.session_id:
        return
    known = {"session_id": opened.session_id}
    fetches.ask("session: nothing new", session_epoch=1, **known)
    fetches.ask(
        "session: a changed offset", fetches.topic("fetched", at(54)), session_epoch=2, **known
    )
    fetches.ask("session: what changed", session_epoch=3, **known)
    fetches.ask(
        "session: a third partition", fetches.topic("fetched", at(0, 2)), session_epoch=4, **known
    )
    fetches.ask("session: an error", fetches.topic("fetched", at(99, 2)), session_epoch=5, **known)
    fetches.ask("session: the error again", session_epoch=6, **known)
    fetches.ask("session: a wrong epoch", session_epoch=9, **known)
    forgotten = fetches.topic("fetched")
    forgotten["partitions"] = [0, 2]
    fetches.ask("session: forgotten", session_epoch=7, forgotten_topics_data=[forgotten], **known)
    fetches.ask("session: what is left", session_epoch=8, max_wait_ms=0, **known)
    fetches.ask("session: close", session_epoch=-1, max_wait_ms=0, **known)
    fetches.ask("session: closed", session_epoch=9, **known)
    fetches.ask("session: unknown", session_id=12345, session_epoch=1)
    fetches.ask("session: unknown, close", both, session_id=12345, session_epoch=-1)
    fetches.ask("session: an unknown topic", fetches.topic("none", at(0)), session_epoch=0)
