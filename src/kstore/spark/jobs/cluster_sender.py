"""Records to a Kafka cluster, by kafka-python's producer; the only place here that knows it."""

from collections.abc import Sequence
from typing import Any

from kstore.errors import KStoreError, SourceError

_MOST_WAITING = 10_000  # sends whose answer is not looked at yet


class MissingClientError(KStoreError, ImportError):
    """A cluster was asked for where kafka-python is not installed."""


class Sender:
    """Sends records in order; ``close``, or the end of the context, waits for every answer.

    One request is under way for each broker, so what is tried again keeps its place. A record
    may come twice, where its answer was lost (at least once); the client's idempotence, where
    the brokers have it, keeps that from happening within one Sender. Used by one thread.
    """

    def __init__(self, servers: str, settings: dict[str, Any], compression: str) -> None:
        try:
            from kafka import KafkaProducer
        except ImportError as error:
            raise MissingClientError(
                f"this needs kafka-python ({error}): pip install 'kstore[mirror]'"
            ) from None
        options: dict[str, Any] = {
            "acks": "all",
            "linger_ms": 20,
            "batch_size": 1 << 18,
            "max_request_size": 1 << 26,
            "compression_type": None if compression == "none" else compression,
            "max_in_flight_requests_per_connection": 1,
        }
        options.update(settings)
        try:
            self._producer = KafkaProducer(bootstrap_servers=servers.split(","), **options)
        except Exception as error:
            raise SourceError(f"{servers}: {error}") from error
        self._waiting: list[Any] = []

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        timestamp: int,
    ) -> None:
        """Send one record; a timestamp of -1 becomes the client's now, as Kafka's clients do.

        Raises SourceError for what the client or the cluster does not take.
        """
        try:
            answer = self._producer.send(
                topic,
                value=value,
                key=key,
                headers=list(headers),
                partition=partition,
                timestamp_ms=timestamp if timestamp >= 0 else None,
            )
        except Exception as error:  # no such topic or partition, too large, no metadata in time
            raise SourceError(f"{topic}-{partition} took no record: {error!r}") from error
        self._waiting.append(answer)
        if len(self._waiting) >= _MOST_WAITING:
            self.wait()

    def wait(self) -> None:
        """Return when everything sent so far is acknowledged; SourceError for what is refused."""
        self._producer.flush()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            try:
                each.get(timeout=60)
            except Exception as error:
                raise SourceError(f"a record was not taken: {error!r}") from error

    def close(self) -> None:
        self._producer.close()

    def __enter__(self) -> "Sender":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self.close()
