"""DumpLogSegments over directories of kstore's Log: segments, indexes, sanity."""

import pytest

import kstore
from interop.dump import dump_log, usual_complaints
from interop.samples import batch_bytes, sample_records
from kstore import LogConfig
from kstore.config import CODECS
from support.damage import write_damaged


@pytest.mark.parametrize("codec", CODECS)
def test_segments_and_indexes(kafka, tmp_path, codec):
    """Many segments with dense indexes: every index entry is where Kafka expects it."""
    config = LogConfig(
        segment_bytes=40_000, index_interval_bytes=256, batch_compression=codec, batch_size=2000
    )
    with kstore.open(tmp_path) as store:
        log = store.create_topic("dumped", config=config)[0]
        for number in range(30):
            records = [r._replace(offset=n) for n, r in enumerate(sample_records(0, 5 + number))]
            log.append_as_leader(batch_bytes(records, leader_epoch=-1, codec=codec))
            log.extend([b"value-%d-%d" % (number, n) for n in range(400)])
            log.append(b"one", key=b"key")
        expected = list(log)
        bases = [segment.base_offset for segment in log.segments.views]
    assert len(bases) > (2 if codec != "none" else 6)
    folder = tmp_path / "dumped-0"
    logs = [folder / f"{base:020}.log" for base in bases]
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]

    dump = dump_log(kafka, logs, "--deep-iteration", "--print-data-log")
    assert sorted(dump.complaints.splitlines()) == sorted(usual_complaints(kafka, logs))
    records = [record for path in logs for record in dump.files[str(path)].records]
    assert [(r.offset, r.timestamp, r.key_size, r.value_size) for r in records] == [
        (r.offset, r.timestamp, size(r.key), size(r.value)) for r in expected
    ]
    assert all(batch.valid for path in logs for batch in dump.files[str(path)].batches)
    assert {batch.codec for path in logs for batch in dump.files[str(path)].batches} >= {codec}

    sane = dump_log(kafka, indexes, "--index-sanity-check")
    assert sane.complaints == ""
    for path in indexes:
        verdict = "passed sanity check" if path.stat().st_size else "is empty"
        assert sane.files[str(path)].lines == [f"{path} {verdict}."]
    assert dump_log(kafka, indexes, "--verify-index-only").complaints == ""
    shown = dump_log(kafka, indexes)
    assert shown.complaints == ""
    entries = sum(len(shown.files[str(path)].entries) for path in indexes)
    assert entries > 20, "the indexes hold next to nothing"


def size(data):
    return -1 if data is None else len(data)


def test_a_corrupt_index_is_reported(kafka, tmp_path):
    """The harness can see a wrong index: an entry that names another batch's offset."""
    config = LogConfig(index_interval_bytes=16)
    with kstore.open(tmp_path) as store:
        log = store.create_topic("dumped", config=config)[0]
        for number in range(50):
            log.append(b"value-%d" % number)
    path = tmp_path / "dumped-0" / f"{0:020}.index"
    data = bytearray(path.read_bytes())
    assert len(data) > 80
    data[8 * 5 + 3] ^= 1
    write_damaged(path, data)
    dump = dump_log(kafka, [path])
    assert "Mismatches in" in dump.complaints + " ".join(dump.files[str(path)].lines)
