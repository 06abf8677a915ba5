"""The current leader of a partition, in responses of Produce 10 and Fetch 16 (KIP-951).

A client that gets the new leader with the error needs no Metadata request.
"""

from kstore.broker.partitions import HostedPartition
from kstore.broker.request import Request

Leader = tuple[int, int]  # node id and leader epoch
NodeEndpoint = tuple[int, str, int, str | None]  # node id, host, port, rack


class LeaderHints:
    """Collects the leaders that one response names, and their endpoints."""

    __slots__ = ("_endpoints", "_request")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._endpoints: dict[int, NodeEndpoint] = {}

    def leader_of(self, hosted: HostedPartition) -> Leader | None:
        """The partition's leader and leader epoch; None if there is no leader."""
        image = hosted.image
        if image is None or image.leader < 0:
            return None
        broker = self._request.image.brokers.get(image.leader)
        if broker is not None:
            endpoint = broker.endpoints.get(self._request.connection.listener)
            if endpoint is not None:
                self._endpoints[image.leader] = (
                    image.leader,
                    endpoint.host,
                    endpoint.port,
                    broker.rack,
                )
        return image.leader, image.leader_epoch

    def endpoints(self) -> list[NodeEndpoint]:
        """The endpoints of the leaders collected so far, on the request's listener."""
        return list(self._endpoints.values())
