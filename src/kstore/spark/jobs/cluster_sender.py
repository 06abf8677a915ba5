"""Sends records to a Kafka cluster; the only module here that imports kafka-python."""

from collections.abc import Sequence
from typing import Any

from kstore.errors import KStoreError, SourceError

_MAX_WAITING = 10_000  # sends whose acknowledgement is not checked yet


class MissingClientError(KStoreError, ImportError):
    """Sending to a cluster needs kafka-python, which is not installed."""


class Sender:
    """Sends records in order; ``close``, or the end of the context, waits for all acknowledgements.

    Each broker has one request in flight, so that a retry keeps the order. If an acknowledgement
    is lost, the retry may write the record twice (at least once); the client's idempotence, if the
    brokers support it, prevents that within one Sender. Used by one thread.
    """

    def __init__(self, servers: str, settings: dict[str, Any], compression: str) -> None:
        try:
            from kafka import KafkaProducer
        except ImportError as error:
            raise MissingClientError(
                f"this needs kafka-python ({error}): pip install 'kstore[restore]'"
            ) from None
        options: dict[str, Any] = {
            "acks": "all",
            "linger_ms": 20,
            "batch_size": 1 << 18,
            "max_request_size": 1 << 26,
            "compression_type": None if compression == "none" else compression,
            "max_in_flight_requests_per_connection": 1,
        }
        from kstore.spark.jobs.client_settings import of_the_client

        options.update(of_the_client(settings, KafkaProducer.DEFAULT_CONFIG))
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
        """Send one record; a timestamp of -1 becomes the current time, as in Kafka's clients.

        Raises SourceError if the client or the cluster rejects the record.
        """
        try:
            future = self._producer.send(
                topic,
                value=value,
                key=key,
                headers=list(headers),
                partition=partition,
                timestamp_ms=timestamp if timestamp >= 0 else None,
            )
        except Exception as error:  # no such topic or partition, too large, no metadata in time
            raise SourceError(f"{topic}-{partition} rejected a record: {error!r}") from error
        self._waiting.append(future)
        if len(self._waiting) >= _MAX_WAITING:
            self.wait()

    def wait(self) -> None:
        """Wait until all records are acknowledged; raises SourceError for a rejected one."""
        self._producer.flush()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            try:
                future.get(timeout=60)
            except Exception as error:
                raise SourceError(f"a record was rejected: {error!r}") from error

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
