"""Topics of messages v0 and v1, written by every way that a program appends: Kafka's tool reads
what was put in."""

import re
from pathlib import Path

import pytest

import kstore
from interop.dump import dump_log
from support.stores import QUIET

T0 = 1_600_000_000_000
FORMATS = {"0.9.0": 0, "0.10.2": 1}
CODECS = ("none", "gzip", "snappy", "lz4")

MESSAGE = re.compile(r"^offset: .* magic: (\d) compresscodec: (\w+) crc: \d+ isvalid: (\w+)")

Sent = tuple[int, bytes | None, bytes | None]  # timestamp, key, value


def records(start: int, count: int) -> list[Sent]:
    return [
        (
            T0 + n * 7 - 5000 * (n % 11 == 0),
            (None, b"", b"key-%d" % n)[n % 3],
            (b"value-%d" % n, None, b"", b"v" * (n % 300))[n % 4],
        )
        for n in range(start, start + count)
    ]


def write(store: kstore.Store, name: str, codec: str) -> list[Sent]:
    """By a producer with small batches, record by record through the topic, in bulk."""
    topic, sent = store[name], records(0, 240)
    with store.producer(name, batch_size=700, compression=codec) as producer:
        futures = [producer.send(value, key=key, timestamp=t) for t, key, value in sent[:100]]
    assert [each.result().offset for each in futures] == list(range(100))
    for n, (t, key, value) in enumerate(sent[100:140], start=100):
        assert topic.append(value, key=key, timestamp=t).offset == n
    bulk = [kstore.Record(0, t, key, value, ()) for t, key, value in sent[140:]]
    assert list(topic[0].extend(bulk)) == list(range(140, 240))
    return sent


@pytest.mark.parametrize("version", FORMATS)
def test_every_way_of_writing(tmp_path: Path, version: str) -> None:
    written: dict[Path, list[Sent]] = {}
    with kstore.open(tmp_path, config=QUIET) as store:
        for codec in CODECS:
            config = kstore.LogConfig(message_format_version=version, batch_compression=codec)
            store.create_topic(codec, config=config)
            written[tmp_path / f"{codec}-0" / f"{0:020}.log"] = write(store, codec, codec)
    dump = dump_log("3.9.2", written, "--deep-iteration", "--print-data-log")
    assert dump.complaints == ""
    for path, sent in written.items():
        file = dump.files[str(path)]
        printed = [found.groups() for line in file.lines if (found := MESSAGE.search(line))]
        assert printed, file.lines
        assert {(magic, valid) for magic, _, valid in printed} == {(str(FORMATS[version]), "true")}
        assert path.parent.name[:-2] in {codec for _, codec, _ in printed}
        assert [
            (r.offset, r.timestamp, r.key_size, r.value_size, r.key, r.value) for r in file.records
        ] == [
            (
                offset,
                t if FORMATS[version] else -1,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                None if key is None else key.decode(),
                None if value is None else value.decode(),
            )
            for offset, (t, key, value) in enumerate(sent)
        ]
