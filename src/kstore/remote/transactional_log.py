"""A partition of a cluster whose batches belong to transactions."""

import struct
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.crc import crc32c
from kstore.log.append_info import AppendInfo
from kstore.log.append_split import is_split_after
from kstore.remote.remote_log import RemoteLog
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.config import LogConfig
    from kstore.remote.cluster import Cluster
    from kstore.remote.transactional_id import TransactionalId

_PRODUCER = struct.Struct(">qhi")  # producer id, epoch, base sequence
_PRODUCER_POSITION = batch_fields.V2_PRODUCER_EPOCH_POSITION - 8


class TransactionalLog(RemoteLog):
    """Adds the partition to the transaction before its first batch, and stamps each batch."""

    def __init__(
        self,
        cluster: "Cluster",
        topic: str,
        partition: int,
        *,
        config: "LogConfig",
        transactions: "TransactionalId",
    ) -> None:
        super().__init__(cluster, topic, partition, config=config)
        self.transactional_id = transactions.name
        self._transactions = transactions

    def append_as_leader(self, batch: bytes) -> AppendInfo:
        """As :meth:`RemoteLog.append_as_leader`; an error makes the transaction fail."""
        transactions = self._transactions
        tp = TopicPartition(self.topic, self.partition)
        count = batch_fields.record_count(batch)
        append = super().append_as_leader
        try:
            sequence = transactions.add_partition(tp)
            stamped = _stamped(
                batch, transactions.producer_id, transactions.producer_epoch, sequence
            )
            appended = transactions.unless_fenced(lambda: append(stamped))
        except BaseException as error:
            if not is_split_after(error, count):
                transactions.fail(error)
            raise
        transactions.wrote(tp, count)
        return appended


def _stamped(batch: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """The batch as one of a transaction of this producer, with a new checksum."""
    data = bytearray(batch)
    attributes = batch_fields.attributes(batch) | batch_fields.TRANSACTIONAL_BIT
    struct.pack_into(">h", data, batch_fields.V2_ATTRIBUTES_POSITION, attributes)
    _PRODUCER.pack_into(data, _PRODUCER_POSITION, producer_id, epoch, sequence)
    crc = crc32c(memoryview(data)[batch_fields.V2_CRC_START :])
    struct.pack_into(">I", data, batch_fields.V2_CRC_POSITION, crc)
    return bytes(data)
