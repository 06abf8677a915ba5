"""DumpLogSegments over Kafka's own files: proves the harness before it judges ours."""

from collections import Counter

from interop.dump import dump_log
from support.damage import flip


def test_counts_of_every_fixture(kafka, fixtures):
    """Batches, records, formats, codecs and checksums as independent readers counted them."""
    intact = [f for f in fixtures.of_kind("log") if f.expected["size"] and f.path.suffix == ".log"]
    logs = {str(fixture.path): fixture.expected for fixture in intact}
    dump = dump_log(kafka, [fixture.path for fixture in intact])
    assert dump.files.keys() == logs.keys()
    for name, expected in logs.items():
        batches = dump.files[name].batches
        assert len(batches) == expected["batches"], name
        assert sum(batch.count for batch in batches) == expected["records"], name
        assert all(batch.valid for batch in batches), name
        assert dict(Counter(batch.codec for batch in batches)) == expected["codecs"], name
        assert batches[0].base_offset == expected["base_offset"], name
        assert batches[-1].last_offset == expected["last_offset"], name
        assert max(batch.max_timestamp for batch in batches) == (expected["max_timestamp"] or -1)
    assert sum(len(file.batches) for file in dump.files.values()) > 15_000


def test_a_corrupt_batch_is_reported(kafka, fixtures, tmp_path):
    """The harness can see damage: one bit of a record makes a batch invalid."""
    fixture = next(f for f in fixtures.of_kind("log") if f.expected["batches"] > 3)
    path = tmp_path / fixture.path.name
    path.write_bytes(fixture.data)
    flip(path, 80)
    batches = dump_log(kafka, [path]).files[str(path)].batches
    assert [batch.valid for batch in batches[:2]] == [False, True]


def test_records_of_a_fixture(kafka, fixtures):
    logs = fixtures.of_kind("log")
    fixture = next(f for f in logs if f.name.startswith("segments/kafka-1.0.0-plain/test-0/"))
    records = dump_log(kafka, [fixture.path], "--print-data-log").files[str(fixture.path)].records
    listed = fixture.expected["records_listed"]
    assert [(r.offset, r.timestamp, r.key, r.value.encode().hex()) for r in records] == [
        (r["offset"], r["timestamp"], r["key"], r["value"]) for r in listed
    ]
