"""What brokers wrote in old formats, given to our leader as their clients sent it: the same bytes.

Every batch that a real broker has on disk is sent again, as a batch v2 and in its own format; what
our log writes must be what the broker wrote, but for what a compressor decides.
"""

from pathlib import Path

import pytest

from kafka_files.data_sets import BrokerSet, unpack
from kstore.config import LogConfig
from oracle.convert import unpacked
from oracle.plain import LOG_APPEND_TIME, PlainBatch
from oracle.reader import read_log
from support.client_batches import sent
from support.logs import log_bytes, open_log

VERSIONS = ("0.8.2", "0.10.2", "2.8")
# Of these the brokers rewrote or removed batches, or transactions are in them.
NOT_AS_SENT = ("compact", "tx", "__", "retention")


def again(batch: PlainBatch, magic: int) -> bytes:
    """The batch as its client sent it."""
    first = batch.records[0].offset
    records = [r._replace(offset=r.offset - first) for r in batch.records]
    return sent(magic, batch.codec, records)


@pytest.mark.parametrize("name", ["zk-0.8.2.2", "zk-0.10.2.2", "zk-2.8.2"])
def test_the_leader_writes_the_same_bytes_as_the_broker(tmp_path: Path, name: str) -> None:
    broker_set = BrokerSet(name, unpack(f"made-{name}", tmp_path / name))
    compared, formats = 0, set()
    for partition in sorted(p for p in broker_set.log_dir.iterdir() if p.is_dir()):
        if any(word in partition.name for word in NOT_AS_SENT):
            continue
        data = log_bytes(partition)
        batches = read_log(data).batches
        if not batches or any(b.codec == 4 for b in batches):
            continue
        for resent in (2, None):
            now = [0]
            log = open_log(tmp_path / f"{partition.name}-{resent}", clock=lambda now=now: now[0])
            for batch in batches:
                now[0] = max(batch.max_timestamp, 0)
                log.configure(
                    LogConfig(
                        message_format_version=VERSIONS[batch.magic],
                        message_timestamp_type=(
                            "LogAppendTime"
                            if batch.timestamp_type == LOG_APPEND_TIME
                            else "CreateTime"
                        ),
                    )
                )
                magic = batch.magic if resent is None else resent
                if magic == 2 and batch.magic == 2:
                    raw = data[batch.position : batch.position + batch.size]
                    log.append_as_leader(bytes(8) + raw[8:])
                else:
                    log.append_as_leader(again(batch, magic))
                formats.add(batch.magic)
            log.close()
            ours = list(unpacked(log_bytes(tmp_path / f"{partition.name}-{resent}")))
            kafkas = list(unpacked(data))
            for mine, theirs in zip(ours, kafkas, strict=True):
                # A wrapper that a v1 client sent keeps its own, overruled times inside.
                overruled = theirs[0].codec and theirs[0].timestamp_type == LOG_APPEND_TIME
                fields = 1 if overruled else 2
                assert mine[:fields] == theirs[:fields], (partition.name, resent)
                compared += 1
    assert compared > 100
    assert formats == {"zk-0.8.2.2": {0}, "zk-0.10.2.2": {0, 1}, "zk-2.8.2": {0, 1, 2}}[name]
