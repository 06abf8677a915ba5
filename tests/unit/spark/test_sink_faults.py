"""What the sink's commit does where things are not as they should be; without a Spark session."""

import json
import os
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore.config import CODECS
from kstore.errors import (
    InvalidConfigError,
    InvalidRecordError,
    InvalidTopicError,
    LogDirOfflineError,
    MessageTooLargeError,
    RecoveryNeededError,
    StorageError,
    UnknownTopicOrPartitionError,
    UnsyncedError,
)
from kstore.files.files import Files
from kstore.spark.sink import stager as staging
from kstore.spark.sink.commit import new_job, publish, sweep
from kstore.spark.sink.options import SinkOptions, Staged, _warn_of_codec, parse_sink, prepare_sink
from kstore.spark.sink.stager import stage
from kstore.spark.sink.write_identity import of_query
from support.stores import leave_to_kafka, make_kafkas_partition


class Dying(Files):
    """Keeps a copy of the directories as they are just before the switch."""

    native = False

    def __init__(self, copy: Path) -> None:
        self._copy = copy

    def rename(self, source: Any, target: Any) -> None:
        if "kstore.published" in str(target):
            shutil.copytree(os.path.commonpath([*DIRECTORIES]), self._copy, dirs_exist_ok=True)
        super().rename(source, target)


DIRECTORIES: list[str] = []


def options(*paths: Path, **given: object) -> SinkOptions:
    named = {name: str(value) for name, value in given.items()}
    return parse_sink(
        {"paths": json.dumps([str(each) for each in paths]), "topic": "orders"} | named
    )


def rows(count: int = 10, partitions: int = 2, **columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"x%d" % n for n in range(count)], pa.binary()),
            "partition": pa.array([n % partitions for n in range(count)], pa.int32()),
        }
        | columns
    )


def staged(given: SinkOptions, job: str = "job", *batches: Any) -> list[Staged | None]:
    return [stage(given, job, batches or [rows()])]


def ends(*paths: Path, mode: str = "r", topic: str = "orders") -> list[int]:
    with kstore.open(list(paths), mode) as store:
        return [log.end_offset for log in store[topic]]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """One store over two directories, each with a partition."""
    paths = [tmp_path / "store" / "one", tmp_path / "store" / "two"]
    with kstore.open(paths) as store:
        store.create_topic("orders", 2)
    return paths


def cut_short(paths: list[Path], copy: Path) -> list[Path]:
    """The directories as a publication left them whose process died before the switch."""
    given = options(*paths)
    DIRECTORIES[:] = map(str, paths)
    assert publish(given, "job", staged(given), of_query("q", 0), files=Dying(copy))
    return [copy / each.name for each in paths]


@pytest.mark.parametrize("written_down", [True, False])
def test_an_unfinished_publication_is_undone_only_with_all_its_directories(
    two: list[Path], tmp_path: Path, written_down: bool
) -> None:
    """Its manifest is what hides the other half."""
    one, other = cut_short(two, tmp_path / "copy")
    manifest = one / "kstore.publishing.job"
    document = json.loads(manifest.read_bytes())
    assert [each["log_dir"] for each in document["partitions"]] == [".", "../two"]
    if not written_down:  # by a kstore that did not know better: as it was
        for each in document["partitions"]:
            del each["log_dir"]
        manifest.write_text(json.dumps(document))
        assert ends(one, other) == [0, 0]
        assert ends(one, other, mode="a") == [0, 0]
        assert not manifest.exists()
        return
    with pytest.raises(RecoveryNeededError, match=rf"orders-1, too.*{other}, and none"):
        kstore.open(one)
    assert manifest.exists()
    assert ends(other) == ends(one) == [0]
    assert ends(one, other, mode="a") == [0, 0]
    assert not manifest.exists()


def test_an_unfinished_publication_is_not_undone_with_a_directory_offline(
    two: list[Path], tmp_path: Path
) -> None:
    one, other = cut_short(two, tmp_path / "copy")
    for each in (one, other):
        leave_to_kafka(each)  # nothing says that the topic has a partition 1
    other.rename(tmp_path / "aside")
    other.touch()
    with pytest.raises(RecoveryNeededError, match="none of them offline"):
        kstore.open([one, other])
    other.unlink()
    (tmp_path / "aside").rename(other)
    assert ends(one, other, mode="a") == [0, 0]


def test_a_deleted_topic_does_not_prevent_opening(two: list[Path], tmp_path: Path) -> None:
    one, other = cut_short(two, tmp_path / "copy")
    shutil.rmtree(other / "orders-1")
    with kstore.open([one, other]) as store:
        assert store["orders"][0].end_offset == 0
    assert not (one / "kstore.publishing.job").exists()


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_without_what_was_staged_nothing_is_decided(
    two: list[Path], tmp_path: Path, damage: Any
) -> None:
    """A part would show, and the job that is run again would write it twice."""
    one, other = cut_short(two, tmp_path / "copy")
    (file,) = one.glob("kstore.staged.*")
    kept = file.read_bytes()
    damage(file)
    for _ in range(2):
        with pytest.raises(RecoveryNeededError, match="is missing or corrupt"):
            kstore.open([one, other])
        assert ends(one, other) == [0, 0]
    file.write_bytes(kept)
    assert ends(one, other, mode="a") == [0, 0]
    assert not list(one.glob("kstore.staged.*"))


def test_progress_is_found_in_whatever_order_the_directories_are_given(two: list[Path]) -> None:
    for number, paths in enumerate((two, two[::-1], two)):
        given = options(*paths)
        assert publish(given, f"{number}", staged(given), of_query("q", 4)) == (number == 0)
    given = options(*two[::-1])
    assert publish(given, "next", staged(given), of_query("q", 5))
    given = options(*two)  # the older one lies here, and counts no more
    assert not publish(given, "again", staged(given), of_query("q", 5))
    assert ends(*two) == [10, 10]
    assert not list(two[0].glob("kstore.staged.*")) + list(two[1].glob("kstore.staged.*"))


def test_a_job_fails_while_an_offline_directory_may_have_its_progress(two: list[Path]) -> None:
    given = options(*two)
    assert publish(given, "first", staged(given), of_query("q", 0))
    turned = options(*two[::-1])
    zero = pa.array([1] * 10, pa.int32())
    message = staged(turned, "second", rows(partition=zero))
    aside = two[0].rename(two[0].with_name("aside"))
    two[0].touch()
    with pytest.raises(LogDirOfflineError, match="may contain the progress file"):
        publish(turned, "second", message, of_query("q", 0))
    two[0].unlink()
    aside.rename(two[0])
    assert ends(*two) == [5, 5]
    assert not publish(turned, "second", message, of_query("q", 0))


@pytest.fixture
def one(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "one") as store:
        store.create_topic("orders", 2)
    return tmp_path / "one"


class Behind(Files):
    """A disk of which one method fails once everything shows."""

    native = False

    def __init__(self, *methods: str) -> None:
        self._methods, self._on = methods, False
        for name in methods:
            setattr(self, name, self._failing(getattr(super(), name)))

    def _failing(self, real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._on:
                raise StorageError("planted", errno=5)
            return real(*arguments, **named)

        return call

    def rename(self, source: Any, target: Any) -> None:
        super().rename(source, target)
        self._on = self._on or "kstore.published" in str(target)

    def remove(self, path: Any) -> None:
        super().remove(path)
        self._on = self._on or "kstore.publishing" in str(path)


@pytest.mark.parametrize("identity", [None, "q"])
@pytest.mark.parametrize(
    "methods", [["listdir"], ["write_atomically", "write_all_atomically"], ["write", "open"]]
)
def test_an_error_after_the_switch_does_not_fail_the_publication(
    one: Path, identity: str | None, methods: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A caller that gets an error would write it again."""
    given = options(one)
    of = None if identity is None else of_query(identity, 0)
    assert publish(given, "job", staged(given), of, files=Behind(*methods))
    assert "planted" in caplog.text
    assert ends(one) == [5, 5]
    assert ends(one, mode="a") == [5, 5]


def test_an_unsynced_publication_is_an_error_and_is_not_repeated(one: Path) -> None:
    given = options(one)
    with pytest.raises(UnsyncedError, match=r"published and visible.*batch of q.*nothing.* twice"):
        publish(given, "job", staged(given), of_query("q", 0), files=Behind("sync_directory"))
    assert ends(one) == [5, 5]
    assert list(one.glob("kstore.staged.*"))  # a power cut may bring the manifest back
    synced: list[str] = []

    class Syncing(Files):
        def sync_directory(self, path: Any) -> None:
            synced.append(str(path))
            super().sync_directory(path)

    assert not publish(given, "again", staged(given, "again"), of_query("q", 0), files=Syncing())
    assert str(one) in synced
    assert ends(one) == [5, 5]
    with pytest.raises(UnsyncedError, match="would write it twice"):
        publish(given, "none", staged(given, "none"), None, files=Behind("sync_directory"))


def age(path: Path, days: float) -> None:
    when = time.time() - days * 86_400
    os.utime(path, (when, when))


def test_each_query_says_how_long_it_is_remembered(one: Path) -> None:
    """Not the one that happens to commit."""
    usual, short, long = (
        options(one, **({"progressRetention": days} if days else {})) for days in ("", "1d", "200d")
    )
    for name, given in (("usual", usual), ("short", short), ("long", long)):
        assert publish(given, name, staged(given, name), of_query(name, 7))
        age(one / f"kstore.published.{name}", 2)
    assert json.loads((one / "kstore.published.short").read_text())["retention_ms"] == 86_400_000
    sweep(usual)
    assert len(list(one.glob("kstore.published.*"))) == 3  # not read yet
    sweep(short)
    assert {each.name for each in one.glob("kstore.published.*")} == {
        "kstore.published.usual", "kstore.published.long",
    }  # fmt: skip
    for name in ("usual", "long"):
        age(one / f"kstore.published.{name}", 100)
    sweep(usual)
    assert [each.name for each in one.glob("kstore.published.*")] == ["kstore.published.long"]
    document = json.loads((one / "kstore.published.long").read_text())
    del document["retention_ms"]  # an older kstore's: the default
    (one / "kstore.published.long").write_text(json.dumps(document))
    age(one / "kstore.published.long", 89)
    sweep(short)
    assert list(one.glob("kstore.published.*"))
    age(one / "kstore.published.long", 91)
    sweep(short)
    assert not list(one.glob("kstore.published.*"))


def test_each_job_says_how_long_what_it_staged_is_kept(one: Path) -> None:
    usual, short, long = (
        options(one, **({"stagingRetention": time} if time else {})) for time in ("", "1h", "30d")
    )
    for given in (usual, short, long):
        staged(given, new_job(given))
    files = sorted(one.glob("kstore.staged.*"))
    (of_short,) = one.glob("kstore.staged.*-3600000ms.*")
    (of_long,) = one.glob("kstore.staged.*-2592000000ms.*")
    for path in files:
        age(path, 0.1)
    sweep(short)
    assert sorted(one.glob("kstore.staged.*")) == [each for each in files if each != of_short]
    for path in one.glob("kstore.staged.*"):
        age(path, 8)
    sweep(short)
    assert list(one.glob("kstore.staged.*")) == [of_long]
    age(of_long, 31)
    sweep(usual)
    assert not list(one.glob("kstore.staged.*"))


def test_write_batch_without_what_it_numbers_is_refused(one: Path) -> None:
    with pytest.raises(InvalidConfigError, match="writeBatch numbers the jobs of one writeId"):
        options(one, writeBatch=3)
    assert options(one, writeBatch=3, writeId="w").write_batch == 3


@pytest.mark.spark
def test_write_batch_is_for_batch_jobs(one: Path) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("value", BinaryType())])
    named = {"path": str(one), "topic": "orders", "writeId": "w", "WRITEBATCH": "3"}
    assert prepare_sink(named, schema).write_batch == 3
    with pytest.raises(InvalidConfigError, match="writeBatch is for batch jobs"):
        prepare_sink(named, schema, streaming=True)


def test_internal_topics_are_refused(one: Path) -> None:
    """As a broker refuses to append to them; nor are they made."""
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        with pytest.raises(InvalidTopicError, match="is an internal topic"):
            options(one, topic=topic, numPartitions=1)
        given = parse_sink({"path": str(one), "numPartitions": "1"})
        with pytest.raises(InvalidTopicError, match="is an internal topic"):
            stage(given, "job", [rows(topic=[topic] * 10)])
    assert not list(one.glob("kstore.staged.*"))
    with kstore.open(one, "r") as store:
        assert set(store) == {"orders"}


def changed(one: Path, given: SinkOptions, messages: Any, error: Any, said: str) -> None:
    """A commit that refuses what tasks could not know leaves nothing behind."""
    before = sorted(path.name for path in one.glob("kstore.p*"))
    with kstore.open(one, "r") as store:
        topics = {name: [log.end_offset for log in store[name]] for name in store}
    with pytest.raises(error, match=said):
        publish(given, "job", messages, of_query("q", 0))
    with kstore.open(one, "r") as store:
        assert {name: [log.end_offset for log in store[name]] for name in store} == topics
    assert sorted(path.name for path in one.glob("kstore.p*")) == before


def test_a_topic_that_was_created_again_is_another_one(one: Path) -> None:
    given = options(one)
    messages = staged(given)
    with kstore.open(one) as store:
        store.delete_topic("orders")
    changed(one, given, messages, UnknownTopicOrPartitionError, "was deleted after")
    making = options(one, numPartitions=2)
    changed(one, making, messages, UnknownTopicOrPartitionError, "was deleted after")
    missing = staged(making, "missing")
    with kstore.open(one) as store:
        store.create_topic("orders", 3)
    changed(one, given, messages, UnknownTopicOrPartitionError, "was recreated after")
    changed(one, making, missing, UnknownTopicOrPartitionError, "was created with 3 partitions")
    assert publish(given, "again", staged(given, "again"), of_query("q", 0))  # tasks look again
    assert ends(one) == [5, 5, 0]


@pytest.mark.parametrize("has_stamp", [True, False])
@pytest.mark.parametrize("number", ["numPartitions", None])
def test_a_recreated_topic_without_an_id_is_another_topic_for_the_sink(
    tmp_path: Path, has_stamp: bool, number: str | None
) -> None:
    """A creation stamp shows it, or the id that kstore gave the topic; an upgrade does not."""

    def make() -> None:
        for partition in range(2):
            make_kafkas_partition(tmp_path, "orders", partition)

    make()
    if has_stamp:
        kstore.open(tmp_path).close()  # a writer stamps the topic
    given = options(tmp_path) if number is None else options(tmp_path, **{number: 2})
    messages, upgraded = staged(given), staged(given, "upgraded")
    for partition in range(2):
        metadata = tmp_path / f"orders-{partition}" / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert publish(given, "upgraded", upgraded, of_query("upgraded", 0))
    with kstore.open(tmp_path) as store:
        store.delete_topic("orders", foreign=True)
    changed(tmp_path, given, messages, UnknownTopicOrPartitionError, "was deleted after")
    if has_stamp:
        make()
        changed(tmp_path, given, messages, UnknownTopicOrPartitionError, "was recreated after")
        with kstore.open(tmp_path) as store:
            store.delete_topic("orders", foreign=True)
    with kstore.open(tmp_path) as store:
        store.create_topic("orders", 2)
    changed(tmp_path, given, messages, UnknownTopicOrPartitionError, "was recreated after")
    assert publish(given, "again", staged(given, "again"), of_query("q", 0))
    assert ends(tmp_path) == [5, 5]


def test_the_commit_checks_the_current_settings_of_the_topic(one: Path) -> None:
    given = options(one)
    keyed = staged(given, "keyed", rows(key=pa.array([b"k"] * 10, pa.binary())))
    keyless = staged(given, "keyless", rows(key=pa.array([b"k"] * 9 + [None], pa.binary())))

    def configure(**settings: Any) -> None:
        with kstore.open(one) as store:
            given = {name.replace("_", "."): value for name, value in settings.items()}
            unset = store["orders"].config.to_properties().keys() - given.keys()
            store.alter_topic("orders", config=given, unset=unset)

    configure(cleanup_policy="compact")
    changed(one, given, keyless, InvalidRecordError, "was made a compacted topic")
    configure(max_message_bytes=50)
    changed(one, given, keyed, MessageTooLargeError, "the topic now allows 50")
    configure(segment_bytes=64)
    changed(one, given, keyed, MessageTooLargeError, "the topic now allows 64")
    configure(compression_type="zstd")
    changed(
        one, given, keyed, InvalidConfigError, "compression.type zstd after the rows were staged"
    )
    configure(cleanup_policy="compact")
    assert publish(given, "keyed", keyed, of_query("q", 0))
    assert ends(one) == [5, 5]


@pytest.mark.parametrize("topic", ["orders", None])
def test_a_sink_that_asks_for_another_codec_than_the_topics_is_warned(
    one: Path, topic: str | None
) -> None:
    with kstore.open(one) as store:
        store.alter_topic("orders", config={"compression.type": "zstd"})
    named = {"path": str(one), "compression": "gzip"} | ({} if topic is None else {"topic": topic})
    with pytest.warns(UserWarning, match=r"orders has compression\.type zstd"):
        _warn_of_codec(parse_sink(named))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_of_codec(parse_sink({**named, "compression": "zstd"}))
    given = options(one, compression="gzip")
    codecs = {part.codec for each in staged(given) for part in each.partitions}
    assert codecs == {CODECS.index("zstd")}


def test_memory_of_a_stager_is_bounded_for_any_number_of_partitions(one: Path) -> None:
    """4,000 of them with less than 64 KiB each would be 248 MiB."""
    count = 4000
    given = options(one)
    stager = staging.Stager(given, "job", "0.0")
    target = staging._Target(tuple(range(count)), count, kstore.LogConfig(), 0, 8192, None)
    stager._targets["orders"] = target
    values = rows(5 * count, count, value=pa.array([b"%01000d" % n for n in range(5 * count)]))
    most = total = 0
    for _ in range(6):
        stager.add(values)
        waiting = [stream.filled for stream in stager._streams.values()]
        assert sum(waiting) == stager._waiting_bytes
        most, total = max(most, sum(waiting)), total + 5 * count * 1000
    parts = stager.finish()
    assert sum(part.count for part in parts) == 6 * 5 * count
    assert total > 110 << 20
    assert 16 << 20 < most <= 64 << 20


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("name", ["segment.bytes", "max.message.bytes"])
def test_a_sink_stages_batches_that_the_topic_takes(one: Path, codec: str, name: str) -> None:
    """Values that do not compress grow by it; only a record that cannot fit is refused."""
    with kstore.open(one) as store:
        store.alter_topic("orders", config={name: 2000, "compression.type": codec})
    given = options(one, batchSize="1m")
    values = [os.urandom(957) for _ in range(40)]  # two of them fill a batch
    table = rows(40, value=pa.array(values, pa.binary()))
    messages = staged(given, "job", table)
    assert max(part.largest for each in messages for part in each.partitions) <= 2000
    assert publish(given, "job", messages, of_query("q", 0))
    with kstore.open(one, "r") as store:
        assert sorted(r.value for log in store["orders"] for r in log) == sorted(values)
    table = rows(3, value=pa.array([b"a", os.urandom(3000), b"b"], pa.binary()))
    with pytest.raises(MessageTooLargeError, match=r"has 30\d\d bytes .* the topic allows 2000"):
        staged(given, "large", table)
