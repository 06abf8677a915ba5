"""A producer's open batches of one topic, and their appends to the topic's logs."""

from typing import TYPE_CHECKING, cast

from kstore._native.append.encode import BatchBuffer
from kstore.client.delivery import CallbackErrors, ProducerBatch
from kstore.config import CODECS, codec_of_batches, warn_of_codec
from kstore.errors import InvalidConfigError
from kstore.integers import check_integer_setting
from kstore.log.append_split import append_split
from kstore.log.writable_log import WritableLog
from kstore.producer_state.producer_ids import SEQUENCES, new_producer_id, next_sequence
from kstore.record import codec
from kstore.record.split import NO_PRODUCER

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.topic import Topic

MAGIC = 2


def check_batch_settings(batch_size: int | None, compression: str | None) -> None:
    """Raise InvalidConfigError for a wrong setting of a producer's batches."""
    if compression is not None and compression not in CODECS:
        raise InvalidConfigError(
            f"compression must be one of {', '.join(CODECS)}, not {compression!r}"
        )
    if batch_size is not None:
        check_integer_setting("batch_size", batch_size, 1)


class TopicBatches:
    """The batches of one topic. The sender's condition guards ``open``; only the sender appends."""

    def __init__(
        self,
        topic: "Topic",
        *,
        batch_size: int | None,
        compression: str | None,
        enable_idempotence: bool,
    ) -> None:
        config = topic.config
        check_batch_settings(batch_size, compression)
        warn_of_codec(config, compression, topic.name)
        size = config.batch_size if batch_size is None else int(batch_size)
        self.topic = topic
        self.batch_size = min(size, config.max_message_bytes, config.segment_bytes)
        self.open: dict[int, ProducerBatch] = {}
        self.callback_errors = CallbackErrors(topic.name)
        self._codec = codec.codec_id(codec_of_batches(config, compression))
        self._producer_id = new_producer_id() if enable_idempotence else -1
        self._sequences: dict[int, int] = {}  # of the next batch, by partition
        self._unsure: set[int] = set()  # partitions where a failed append may have succeeded
        self._logs: dict[int, Log] = {}

    def check_wait(self, partition: int) -> None:
        """Raise RuntimeError if a wait for a batch of this partition would never end.

        The source of an extend holds the lock of its log, which the append of a batch waits for.
        Another thread that the source waits for is not recognized.
        """
        opened = getattr(self.topic.store, "_logs", None)  # a remote store has no logs here
        log = None if opened is None else opened.get((self.topic.name, partition))
        if isinstance(log, WritableLog) and log._state.is_source:
            raise RuntimeError(
                "the source of an extend must not wait for a producer of the same log"
            )

    def append(self, batch: ProducerBatch) -> "Log | None":
        """Append a batch, or note its error; returns the log to sync."""
        try:
            log = self._log(batch.partition)
            self._append(batch, log)
        except Exception as error:
            batch.error = error
            self._unsure.add(batch.partition)
            return None
        return log

    def _append(self, batch: ProducerBatch, log: "Log") -> None:
        encoded, count = self._encode(batch), len(cast(BatchBuffer, batch.buffer))
        producer = NO_PRODUCER
        if self._producer_id >= 0:
            producer = (self._producer_id, 0, self._sequences.get(batch.partition, 0))
        appended = append_split(log, encoded, producer)
        batch.base_offset = appended[0].base_offset
        if len(appended) > 1 or appended[0].error is not None:
            batch.appended = appended
            refused = [each.error for each in appended if each.error is not None]
            batch.error = refused[0] if refused else None
            count -= len(refused)
        if self._producer_id >= 0:
            self._advance_sequence(batch, count)

    def _log(self, partition: int) -> "Log":
        log = self._logs.get(partition)
        if log is None or log.closed:  # closed: the topic was deleted, and perhaps recreated
            log = self._logs[partition] = self.topic[partition]
        return log

    def _encode(self, batch: ProducerBatch) -> bytes:
        """The complete batch, compressed; the log assigns offsets and leader epoch."""
        buffer = cast(BatchBuffer, batch.buffer)
        if self._producer_id >= 0:
            if batch.partition in self._unsure:
                known = self._log(batch.partition).producers()
                self._sequences[batch.partition] = next_sequence(known, self._producer_id, 0)
                self._unsure.discard(batch.partition)
            buffer.set_producer(self._producer_id, 0, self._sequences.get(batch.partition, 0))
        if self._codec:
            buffer.replace_records(codec.compress(self._codec, MAGIC, buffer.records))
        return buffer.to_bytes(attributes=self._codec)

    def _advance_sequence(self, batch: ProducerBatch, count: int) -> None:
        """Advance by the number of appended records; sequence numbers wrap at 2^31."""
        sequence = self._sequences.get(batch.partition, 0)
        self._sequences[batch.partition] = (sequence + count) % SEQUENCES
