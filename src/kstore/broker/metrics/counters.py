"""The counters of one broker: requests, topics, syncs."""

import threading
from functools import cache
from typing import TYPE_CHECKING

from kstore.broker.metrics.time_summary import TimeSummary
from kstore.protocol.messages import message_types

if TYPE_CHECKING:
    from kstore.log.append_info import AppendInfo


class TopicCounters:
    """The traffic of clients with one topic; requests count once for each partition."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.produces = self.failed_produces = self.fetches = self.failed_fetches = 0

    def appended(self, info: "AppendInfo") -> None:
        """Count an appended client batch; a duplicate, which has size 0, counts only as a
        request."""
        self.produces += 1
        if info.size:
            self.bytes_in += info.size
            self.messages_in += info.last_offset - info.first_offset + 1

    def batches_appended(self, count: int, size: int, messages: int) -> None:
        """Count requests whose batches were appended, none of them a duplicate."""
        self.produces += count
        self.bytes_in += size
        self.messages_in += messages

    def produce_failed(self) -> None:
        self.produces += 1
        self.failed_produces += 1

    def fetched(self, size: int, error_code: int) -> None:
        """Count a partition's response with this many bytes of records, or with an error."""
        self.fetches += 1
        self.bytes_out += size
        if error_code:
            self.failed_fetches += 1

    def add(self, other: "TopicCounters") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class BrokerCounters:
    """All counters of a broker. The loop's thread writes, except ``synced``; any thread reads."""

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = {}  # completed requests, by API key and version
        # from the last byte of the request to the response, by API key
        self.times: dict[int, TimeSummary] = {}
        self.topics: dict[str, TopicCounters] = {}
        self.syncs = TimeSummary()
        self._sync_lock = threading.Lock()

    def answered(self, key: int, version: int, seconds: float, count: int = 1) -> None:
        """Count requests whose responses are queued, this long after their last byte arrived."""
        requests = self.requests
        requests[key, version] = requests.get((key, version), 0) + count
        times = self.times.get(key)
        if times is None:
            times = self.times[key] = TimeSummary()
        times.add(seconds, count)

    def topic(self, name: str) -> TopicCounters:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicCounters()
        return found

    def synced(self, seconds: float) -> None:
        """Count a sync of a log. Thread safe."""
        with self._sync_lock:
            self.syncs.add(seconds)


@cache
def request_name(key: int) -> str:
    """Kafka's name of a request: ``ListOffsets``."""
    return message_types(key)[0].__name__.removesuffix("Request")
