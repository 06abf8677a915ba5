"""kafka-python, aiokafka and the oracle read kstore's batches back as they were put in."""

import pytest

from interop.samples import SAMPLES, batch_bytes, sample_records
from kstore.config import CODECS
from oracle.client_parsers import READERS
from oracle.reader import read_log


@pytest.mark.parametrize("codec", CODECS)
def test_python_clients_and_the_oracle_read_kstores_batches(codec):
    batches = [sample_records(start, count) for start, count in SAMPLES]
    data = b"".join(batch_bytes(records, codec=codec) for records in batches)
    records = [record for batch in batches for record in batch]
    log = read_log(data)
    assert log.tail_reason is None
    assert log.records == tuple(records)
    assert [len(batch.records) for batch in log.batches] == [count for _, count in SAMPLES]
    seen = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
    for read in READERS:
        assert read(data) == seen
