"""A topic's compression.type is applied by every append that assigns offsets, and by no other."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig, Store, StoreConfig
from kstore.cli import main
from kstore.config import CODECS, codec_of_batches
from kstore.record import Record
from kstore.record.builder import BatchBuilder
from support.stores import QUIET

VALUES = [b"the same words again and again %d" % (n % 3) for n in range(1000)]


def codecs(log: Log) -> set[int]:
    """The codecs of a log's batches that are no control batches."""
    found = set()
    for view in log.segments.views:
        data, position = Path(view.path).read_bytes()[: view.size], 0
        while position < len(data):
            attributes = data[position + 22]
            if not attributes & 0x20:
                found.add(attributes & 7)
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def built(compression: str = "none") -> bytes:
    builder = BatchBuilder(compression=compression)
    for value in VALUES:
        assert builder.append(value, key=b"k", timestamp=1)
    return builder.build()


def append(store: Store, log: Log) -> None:
    log.append(VALUES[0] * 100)


def extend(store: Store, log: Log) -> None:
    log.extend(VALUES)


def extend_records(store: Store, log: Log) -> None:
    log.extend([Record(-1, 1, b"k", value) for value in VALUES])


def topic_append(store: Store, log: Log) -> None:
    store["t"].append(VALUES[0] * 100)


def produce(store: Store, log: Log) -> None:
    with store.producer("t") as producer:
        for value in VALUES:
            producer.send(value)


def transact(store: Store, log: Log) -> None:
    with store.transactional_producer("id") as producer, producer.transaction():
        for value in VALUES:
            producer.send("t", value)


def client_plain(store: Store, log: Log) -> None:
    log.append_as_leader(built())


def client_gzip(store: Store, log: Log) -> None:
    log.append_as_leader(built("gzip"))


APPENDS = [
    append, extend, extend_records, topic_append, produce, transact, client_plain, client_gzip,
]  # fmt: skip


@pytest.mark.parametrize("work", APPENDS)
@pytest.mark.parametrize("codec", ["uncompressed", *CODECS])
def test_every_append_that_assigns_offsets_applies_the_topics_codec(
    tmp_path: Path, codec: str, work: Callable[[Store, Log], None]
) -> None:
    config = LogConfig(compression_type=codec, batch_compression="snappy")
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        work(store, log)
        assert codecs(log) == {CODECS.index("none" if codec == "uncompressed" else codec)}
        assert log.verify().ok
        assert next(iter(log)).value in (VALUES[0], VALUES[0] * 100)


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_old_formats_take_the_topics_codec_too(tmp_path: Path, version: str) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        config = LogConfig(compression_type="gzip", message_format_version=version)
        log = store.create_topic("t", config=config)[0]
        log.extend(VALUES)
        assert log.size < 5000 < sum(map(len, VALUES))
        assert [record.value for record in log] == VALUES


def test_compression_type_producer_keeps_each_codec(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(batch_compression="lz4"))[0]
        log.extend(VALUES)
        assert codecs(log) == {CODECS.index("lz4")}
        log.append_as_leader(built("gzip"))
        assert codecs(log) == {CODECS.index("lz4"), CODECS.index("gzip")}


def test_a_follower_keeps_the_bytes(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(compression_type="zstd"))[0]
        batch = built("gzip")
        log.append_as_follower(batch)
        assert Path(log.segments.views[0].path).read_bytes()[: len(batch)] == batch


def test_internal_topics_and_markers_keep_their_bytes(tmp_path: Path) -> None:
    default = StoreConfig(background=False, log=LogConfig(compression_type="zstd"))
    with kstore.open(tmp_path, config=default) as store:
        store.create_topic("t", config=LogConfig(compression_type="zstd"))
        for name in ("__consumer_offsets", "__transaction_state"):
            store.create_topic(
                name, config=LogConfig(cleanup_policy="compact", compression_type="zstd")
            )
        transact(store, store["t"][0])
        with store.consumer("t", group="group") as consumer:
            consumer.commit({("t", 0): 5})
        with store.transactional_producer("id") as producer, producer.transaction():
            producer.send("t", b"x")
            producer.send_offsets_to_transaction({("t", 0): 6}, "group")
        for name in ("__consumer_offsets", "__transaction_state"):
            assert codecs(store[name][0]) == {0}
        assert codecs(store["t"][0]) == {CODECS.index("zstd")}


def test_the_codec_changes_with_the_settings(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t")
        topic[0].append(VALUES[0])
        topic.alter(config={"compression.type": "zstd"})
        producer = store.producer("t")
        topic[0].append(VALUES[0])
        assert codecs(topic[0]) == {0, 4}
        topic.alter(config={"compression.type": "gzip"})
        producer.send(VALUES[0])
        producer.close()
        assert codecs(topic[0]) == {0, 4, 1}


def test_a_producer_that_asks_for_another_codec_is_warned(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t", config=LogConfig(compression_type="zstd"))
        with pytest.warns(UserWarning, match=r"'lz4' was requested, but t has compression\.type"):
            producer = store.producer("t", compression="lz4")
        producer.send(VALUES[0])
        producer.close()
        with (
            store.transactional_producer("id", compression="gzip") as transactional,
            transactional.transaction(),
        ):
            with pytest.warns(UserWarning, match="'gzip' was requested"):
                transactional.send("t", VALUES[0])
            transactional.send("t", VALUES[0])
        assert codecs(topic[0]) == {CODECS.index("zstd")}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.producer("t", compression="zstd").close()
            store.producer("t").close()


def test_console_producer_warns_and_applies_the_topics_codec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", config=LogConfig(compression_type="zstd"))
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"\n".join(VALUES))
    with lines.open() as source:
        monkeypatch.setattr("sys.stdin", source)
        options = ["--topic", "t", "--log-dir", str(tmp_path), "--compression-codec", "gzip"]
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert main(["console-producer", *options]) == 0
    assert "kstore console-producer: compression 'gzip' was requested" in capsys.readouterr().err
    with kstore.open(tmp_path, config=QUIET) as store:
        assert codecs(store["t"][0]) == {CODECS.index("zstd")}
        assert store["t"][0].end_offset == 1000


def test_compression_type_overrides_the_codec_of_batches() -> None:
    assert codec_of_batches(LogConfig(batch_compression="lz4")) == "lz4"
    assert codec_of_batches(LogConfig(batch_compression="lz4"), "gzip") == "gzip"
    assert codec_of_batches(LogConfig(compression_type="uncompressed"), "gzip") == "none"
    assert codec_of_batches(LogConfig(compression_type="zstd"), "gzip") == "zstd"
