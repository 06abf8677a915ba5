"""Mirroring from a log of kstore that answers as a leader; real brokers: tests/interop."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig, Store, arguments
from kstore._native.format.batch_scan import scan
from kstore.cli import main
from kstore.cli.mirror import numbers
from kstore.errors import (
    CorruptRecordError,
    InvalidConfigError,
    KStoreError,
    PolicyViolationError,
    SourceChangedError,
    SourceError,
    UnknownTopicOrPartitionError,
)
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror import copy as engine
from kstore.mirror.settings import connection_settings
from kstore.mirror.source_types import EARLIEST, Fetched, Position, TopicDescription
from support.stores import QUIET

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=100, file_delete_delay_ms=0)


class Leader:
    """A topic of a store, answering as the leader of its partitions."""

    def __init__(self, store: Store, topic: str) -> None:
        self.store = store
        self.topic = topic
        self.id: str | None = store[topic].topic_id
        self.errors: list[int] = []  # to be answered, one a fetch, in place of records
        self.cut = 0  # bytes missing at the end of an answer
        self.damage: int | None = None  # a byte of the next answer that is turned over
        self.before_fetch = lambda: None
        self.asked: list[Position] = []

    def describe(self) -> TopicDescription:
        if self.topic not in self.store:
            raise UnknownTopicOrPartitionError("there is no such topic")
        return TopicDescription(self.topic, self.id, len(self.store[self.topic]))

    def offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]:
        logs = {number: self.store[self.topic][number] for number in partitions}
        return {
            n: log.start_offset if when == EARLIEST else log.end_offset for n, log in logs.items()
        }

    def sentence(self, code: int) -> str:
        return f"error {code}"

    def leader_of(self, partition: int) -> str:
        return "broker 1"

    def problem(self, partition: int) -> str:
        return "broker 1 is gone"

    def fetch(
        self,
        positions: Mapping[int, Position],
        *,
        max_wait_ms: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> dict[int, Fetched]:
        self.before_fetch()
        self.asked += positions.values()
        return {n: self._answer(n, at, partition_max_bytes) for n, at in positions.items()}

    def _answer(self, number: int, at: Position, size: int) -> Fetched:
        log = self.store[self.topic][number]
        if self.errors:
            return Fetched(self.errors.pop(0), -1, -1, b"")
        if not log.start_offset <= at.offset <= log.end_offset:
            return Fetched(1, -1, -1, b"")
        found = log.read(at.offset, size)
        data = b"" if found is None else bytes(found)
        stable, aborted = log.last_stable_offset, []
        if at.committed:
            data = below(data, stable)
            entries = log.aborted_transactions(at.offset, log.end_offset)
            aborted = [(entry.producer_id, entry.first_offset) for entry in entries]
        if self.damage is not None:
            data = data[: self.damage] + bytes([data[self.damage] ^ 1]) + data[self.damage + 1 :]
            self.damage = None
        cut = self.cut if len(data) > 400 else 0  # else no complete batch would be left
        data = data[: len(data) - cut]
        return Fetched(0, log.end_offset, log.start_offset, data, None, stable, aborted)


def below(data: bytes, offset: int) -> bytes:
    """The batches that end below an offset."""
    table = scan(data, check_crc=False)
    stop = sum(
        size for size, last in zip(table.size, table.last_offset, strict=True) if last < offset
    )
    return data[:stop]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    with kstore.open(tmp_path / "source", config=QUIET) as store:
        store.create_topic("t", 2, config=SMALL)
        yield Leader(store, "t")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path / "copy", config=QUIET) as store:
        yield store


def fill(leader: Leader, count: int, partition: int = 0) -> None:
    log = leader.store["t"][partition]
    for _ in range(count):
        log.append(b"x" * 100)


def copied(store: Store, partition: int = 0) -> bytes:
    log = store["t"][partition]
    return b"".join(bytes(view.all_published()) for view in log.segments.views)


def run(leader: Leader, target: Store, **options: object) -> MirrorReport:
    return Mirror(target, leader, **options).run()


def test_all_of_a_topic_then_its_new_records(leader: Leader, target: Store) -> None:
    fill(leader, 100)
    fill(leader, 7, 1)
    report = run(leader, target)
    assert report.created
    assert report.topic_id == target["t"].topic_id == leader.id
    assert [each.end_offset for each in report.partitions] == [100, 7]
    assert copied(target) == copied(leader.store)
    assert copied(target, 1) == copied(leader.store, 1)

    fill(leader, 3)
    again = run(leader, target)
    assert not again.created
    assert [(p.first_offset, p.end_offset) for p in again.partitions] == [(100, 103), (7, 7)]
    assert copied(target) == copied(leader.store)


def test_only_the_named_partitions_are_copied(leader: Leader, target: Store) -> None:
    fill(leader, 3)
    fill(leader, 4, 1)
    run(leader, target, partitions=[1])
    assert len(target["t"]) == 2
    assert [log.end_offset for log in target["t"]] == [0, 4]
    with pytest.raises(UnknownTopicOrPartitionError):
        run(leader, target, partitions=[2])


def test_a_partial_last_batch_is_left_for_the_next_answer(leader: Leader, target: Store) -> None:
    fill(leader, 50)
    leader.cut = 30
    run(leader, target)
    assert copied(target) == copied(leader.store)


def test_a_batch_beyond_the_fetch_size_is_copied(
    leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetch versions up to 2 cut the first batch, too: more has to be asked for."""
    leader.store["t"][0].append(b"x" * 1800)
    monkeypatch.setattr(engine, "_PARTITION_BYTES", 1000)
    answer_all = leader._answer

    def answer_cut(number: int, at: Position, size: int) -> Fetched:
        answer = answer_all(number, at, size)
        return answer._replace(records=answer.records[:size])

    monkeypatch.setattr(leader, "_answer", answer_cut)
    Mirror(target, leader).run()
    assert copied(target) == copied(leader.store)
    assert len(leader.asked) > 1


def test_begins_where_the_source_begins(leader: Leader, target: Store) -> None:
    leader.store["t"][0].extend([b"x" * 10] * 500)  # batches of many records
    fill(leader, 60)
    leader.store["t"][0].delete_records(300)
    run(leader, target)
    log = target["t"][0]
    assert (log.start_offset, log.end_offset) == (300, 560)
    assert [r.offset for r in log] == list(range(300, 560))
    base = log.segments.views[0].base_offset
    assert base == leader.store["t"][0].segments.views[0].base_offset or base > 0


def test_the_log_start_follows(leader: Leader, target: Store) -> None:
    fill(leader, 60)
    run(leader, target)
    leader.store["t"][0].delete_records(40)
    report = run(leader, target)
    assert target["t"][0].start_offset == 40
    assert "the log start moved from 0 to 40" in report.partitions[0].notes[0]


def test_keep_deleted_keeps_what_the_source_deletes(leader: Leader, target: Store) -> None:
    fill(leader, 60)
    run(leader, target)
    leader.store["t"][0].delete_records(40)
    assert run(leader, target, keep_deleted=True).partitions[0].notes == []
    assert target["t"][0].start_offset == 0
    fill(leader, 60)
    leader.store["t"][0].delete_records(100)
    report = run(leader, target, keep_deleted=True)
    assert "deleted offsets 60 to 99" in report.partitions[0].notes[0]
    assert [r.offset for r in target["t"][0]] == [*range(60), *range(100, 120)]


def test_retention_overtook_the_copy(leader: Leader, target: Store) -> None:
    fill(leader, 30)
    run(leader, target)
    fill(leader, 60)
    leader.store["t"][0].delete_records(70)
    report = run(leader, target)
    log = target["t"][0]
    assert (log.start_offset, log.end_offset) == (70, 90)
    assert any("deleted offsets 30 to 69 before" in note for note in report.partitions[0].notes)
    assert [r.offset for r in log] == list(range(70, 90))


def test_the_copy_of_an_emptied_partition_begins_at_its_log_start(
    leader: Leader, target: Store, tmp_path: Path
) -> None:
    fill(leader, 30)
    leader.store["t"][0].delete_records(-1)
    run(leader, target)
    assert (target["t"][0].start_offset, target["t"][0].end_offset) == (30, 30)
    target.close()
    with kstore.open(tmp_path / "copy", config=QUIET) as store:
        assert store["t"][0].end_offset == 30
        fill(leader, 2)
        run(leader, store)
        assert [r.offset for r in store["t"][0]] == [30, 31]


def test_nothing_left_up_to_the_end(leader: Leader, target: Store) -> None:
    """What compaction removed at the end: the copy ends where the source does."""
    fill(leader, 10)
    leader.store["t"][0]._require_writer().truncator.skip_to(25)
    run(leader, target)
    assert target["t"][0].end_offset == 25
    fill(leader, 1)
    run(leader, target)
    assert [r.offset for r in target["t"][0]][-2:] == [9, 25]
    assert [*(report := target["t"][0].verify()).findings, *report.warnings] == []


def test_partitions_added_at_the_source_are_added(leader: Leader, target: Store) -> None:
    fill(leader, 3)
    run(leader, target)
    leader.store.add_partitions("t", 5)
    fill(leader, 2, 4)
    run(leader, target)
    assert [log.end_offset for log in target["t"]] == [3, 0, 0, 0, 2]
    assert {(target["t"].topic_id), leader.id} == {leader.id}


# --- what is refused --------------------------------------------------------------------------


def test_a_topic_that_was_created_again_is_an_error(leader: Leader, target: Store) -> None:
    fill(leader, 3)
    run(leader, target)
    leader.id = "AAAAAAAAAAAAAAAAAAABAA"
    with pytest.raises(SourceChangedError, match=r"created again.*delete the topic here"):
        run(leader, target)


def test_a_source_without_topic_ids_is_copied_and_continued(leader: Leader, target: Store) -> None:
    leader.id = None
    fill(leader, 3)
    run(leader, target)
    fill(leader, 3)
    run(leader, target)
    assert target["t"][0].end_offset == 6


def test_a_truncated_source_is_an_error_and_the_copy_stays(leader: Leader, target: Store) -> None:
    fill(leader, 9)
    run(leader, target)
    leader.store["t"][0].truncate_to(5)
    with pytest.raises(SourceChangedError, match="ends at 5 in the cluster and at 9 here"):
        run(leader, target)
    assert target["t"][0].end_offset == 9


def test_a_source_that_was_truncated_and_written_again_is_an_error(
    leader: Leader, target: Store
) -> None:
    fill(leader, 9)
    run(leader, target)
    leader.store["t"][0].truncate_to(5)
    leader.store["t"][0].extend([b"other"] * 20)
    with pytest.raises(SourceChangedError, match="last batch"):
        run(leader, target)


def test_a_mirror_with_records_of_its_own_is_refused(leader: Leader, target: Store) -> None:
    fill(leader, 9)
    run(leader, target)
    target["t"][0].append(b"mine")
    fill(leader, 9)
    with pytest.raises(SourceChangedError, match="other records were appended here"):
        run(leader, target)


def test_a_source_that_diverges_from_the_copy_is_an_error(leader: Leader, target: Store) -> None:
    fill(leader, 3)
    answer_all = leader._answer
    leader._answer = lambda n, at, size: answer_all(n, at, size)._replace(diverged=2)
    with pytest.raises(SourceChangedError, match="diverges from the copy here at offset 2"):
        run(leader, target)


def test_the_copy_stops_before_a_damaged_batch(leader: Leader, target: Store) -> None:
    fill(leader, 9)
    batch = len(bytes(leader.store["t"][0].read(0, 0)))
    leader.damage = batch * 4 + batch - 1
    with pytest.raises(CorruptRecordError, match="the batches before it were copied"):
        run(leader, target, partitions=[0])
    assert target["t"][0].end_offset == 4
    run(leader, target)
    assert copied(target) == copied(leader.store)


def test_what_passes_is_waited_for(
    leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_PAUSE", 0)
    fill(leader, 9)
    leader.errors = [6, 5, 56]
    run(leader, target, partitions=[0])
    assert target["t"][0].end_offset == 9
    monkeypatch.setattr(engine, "_PATIENCE", 0)
    fill(leader, 1)
    leader.errors = [6] * 9
    with pytest.raises(SourceError, match="no leader has answered"):
        run(leader, target, partitions=[0])


def test_an_error_that_does_not_pass_is_raised(leader: Leader, target: Store) -> None:
    fill(leader, 1)
    leader.errors = [29]
    with pytest.raises(SourceError, match="refuses: error 29"):
        run(leader, target, partitions=[0])


def test_an_epoch_that_the_leader_does_not_know(
    leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers OFFSET_OUT_OF_RANGE to an offset that it has: then it is asked without."""
    monkeypatch.setattr(engine, "_PAUSE", 0)
    fill(leader, 4)
    run(leader, target, partitions=[0])
    fill(leader, 4)
    answer_all = leader._answer
    leader._answer = lambda n, at, size: (
        answer_all(n, at, size) if at.epoch < 0 else Fetched(1, -1, -1, b"")
    )
    run(leader, target, partitions=[0])
    assert target["t"][0].end_offset == 8


@pytest.mark.parametrize(("start", "high_watermark"), [(2**62, 9), (10, 9)])
def test_a_leader_that_lies_about_its_start_deletes_nothing(
    leader: Leader, target: Store, start: int, high_watermark: int
) -> None:
    fill(leader, 9)
    run(leader, target, partitions=[0])
    before = copied(target)
    fill(leader, 1)
    answer_all = leader._answer
    leader._answer = lambda n, at, size: answer_all(n, at, size)._replace(
        log_start_offset=start, high_watermark=high_watermark, records=b""
    )
    with pytest.raises(SourceError, match=f"log start {start} and the log end 9, which contradict"):
        run(leader, target, partitions=[0])
    assert (target["t"][0].start_offset, copied(target)) == (0, before)
    leader.offsets = lambda numbers, when: dict.fromkeys(numbers, 2**62 if when == EARLIEST else 20)
    with pytest.raises(SourceError, match="contradict each"):
        run(leader, target, partitions=[0])
    assert (target["t"][0].start_offset, copied(target)) == (0, before)


def test_batches_that_the_mirror_already_has_are_refused(leader: Leader, target: Store) -> None:
    """Batches that the mirror has already, under the offsets that they had."""
    fill(leader, 9)
    run(leader, target, partitions=[0])
    before = copied(target)
    fill(leader, 9)
    answer_all = leader._answer
    leader._answer = lambda n, at, size: answer_all(n, at._replace(offset=min(at.offset, 3)), size)
    with pytest.raises(KStoreError):
        run(leader, target, partitions=[0])
    assert copied(target) == before


# --- the rest ---------------------------------------------------------------------------------


def test_follow_until_stopped(leader: Leader, target: Store) -> None:
    fill(leader, 2)
    rounds = []

    def more() -> None:
        rounds.append(1)
        fill(leader, 1)

    leader.before_fetch = more
    mirror = Mirror(target, leader, partitions=[0])
    mirror.run(follow=True, stop=lambda: len(rounds) >= 5)
    assert target["t"][0].end_offset == 7


def test_a_follower_copies_partitions_that_are_added(leader: Leader, target: Store) -> None:
    fill(leader, 2)
    rounds: list[int] = []

    def more() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            leader.store.add_partitions("t", 4)
            fill(leader, 6, 3)

    leader.before_fetch = more
    done = lambda: len(rounds) >= 8  # noqa: E731
    report = Mirror(target, leader, metadata_max_age=0)
    assert [p.end_offset for p in report.run(follow=True, stop=done).partitions] == [2, 0, 0, 6]
    assert copied(target, 3) == copied(leader.store, 3)


def test_a_follower_of_some_partitions_leaves_the_added_ones(leader: Leader, target: Store) -> None:
    fill(leader, 2)
    rounds: list[int] = []

    def more() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            leader.store.add_partitions("t", 3)
            fill(leader, 6, 2)

    leader.before_fetch = more
    mirror = Mirror(target, leader, partitions=[0], metadata_max_age=0)
    report = mirror.run(follow=True, stop=lambda: len(rounds) >= 8)
    assert [each.partition for each in report.partitions] == [0]
    assert [log.end_offset for log in target["t"]] == [2, 0, 0]


def test_how_often_a_follower_asks_for_partitions(
    leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr(engine.time, "monotonic", lambda: next(clock))
    asked: list[int] = []
    describe = leader.describe
    leader.describe = lambda: (asked.append(1), describe())[1]
    rounds: list[int] = []
    leader.before_fetch = lambda: rounds.append(1)
    mirror = Mirror(target, leader, metadata_max_age=10**5)
    mirror.run(follow=True, stop=lambda: len(rounds) >= 20)
    assert len(asked) == 1
    mirror = Mirror(target, leader, metadata_max_age=30)
    mirror.run(follow=True, stop=lambda: len(rounds) >= 80)
    assert 1 < len(asked) - 1 < 20


def test_the_copy_keeps_to_its_rate_and_reports_progress(
    leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(leader, 50)
    slept: list[float] = []
    monkeypatch.setattr(engine.time, "sleep", slept.append)
    clock = iter(n / 10 for n in range(10**6))
    monkeypatch.setattr(engine.time, "monotonic", lambda: next(clock))
    reported: list[tuple[int, int, str]] = []
    run(leader, target, max_bytes_per_second=4000, progress=lambda *at: reported.append(at))
    assert reported[-1] == (50, 50, "t-0")
    assert len(reported) > 1  # asked for in several requests
    assert slept
    with pytest.raises(InvalidConfigError):
        Mirror(target, leader, max_bytes_per_second=0)


def test_partitions_can_be_added_but_not_removed(target: Store) -> None:
    target.create_topic("t", 2)
    assert len(target.add_partitions("t", 3)) == 3
    assert target["t"][2].append(b"v") == 0
    with pytest.raises(InvalidConfigError, match="cannot have fewer"):
        target.add_partitions("t", 1)
    with pytest.raises(UnknownTopicOrPartitionError):
        target.add_partitions("none", 1)


def test_a_brokers_topic_does_not_grow(tmp_path: Path) -> None:
    (tmp_path / "theirs-0").mkdir()
    with kstore.open(tmp_path, config=QUIET) as store, pytest.raises(PolicyViolationError):
        store.add_partitions("theirs", 2)


def test_the_option_partitions_takes_numbers_and_ranges() -> None:
    assert numbers("0,4-6") == [0, 4, 5, 6]
    for text in ("", "a", "3-1", "1-", "-1"):
        with pytest.raises(KStoreError, match="--partitions"):
            numbers(text)


def test_settings_of_the_connection_have_the_names_of_kafkas_clients(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nrequest.timeout.ms=1500\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="reader" password="000123";\nclient.id=me\ngroup.id=of a consumer\n'
    )
    found = connection_settings(arguments.read_properties(str(path)))
    assert (found.client_id, found.timeout) == ("me", 1.5)
    assert found.security.tls is not None
    assert found.security.sasl is not None
    assert (found.security.sasl.user, found.security.sasl.password) == ("reader", "000123")
    plain = connection_settings({})
    assert (plain.client_id, plain.timeout) == ("kstore-mirror", None)
    assert (plain.security.tls, plain.security.sasl) == (None, None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("security_protocol", "SASL_SSL", "instead of it: security.protocol"),
        ("ssl_cafile", "ca.pem", "ssl.truststore.location"),
        ("ssl.cafile", "ca.pem", "ssl.truststore.location"),
        ("ssl_check_hostname", False, "ssl.endpoint.identification.algorithm"),
        ("sasl_plain_password", "secret", "instead of it: sasl.jaas.config"),
        ("api_version", (0, 8, 2), "a broker before 0.10 is recognised"),
        ("security.protocoll", "SSL", "security.protocoll"),
        ("ssl.cipher.suites", "x", "ssl.cipher.suites"),
        ("request.timeout.ms", "soon", "request.timeout.ms"),
        ("request.timeout.ms", 0, "request.timeout.ms"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(name: str, value: object, message: str) -> None:
    """An ignored ``security_protocol=SASL_SSL`` would mean a connection in plaintext."""
    with pytest.raises(InvalidConfigError, match=message) as caught:
        connection_settings({name: value})
    assert "secret" not in str(caught.value)


def test_the_name_of_a_setting_is_a_text() -> None:
    given: Any = {7: "x"}
    with pytest.raises(InvalidConfigError, match="a text, not 7"):
        connection_settings(given)


def test_invalid_options_of_mirror_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ["--bootstrap-server", "b:1", "--topic", "t", "--log-dir", str(tmp_path)]
    assert main(["mirror", *some, "--throttle", "0"]) == 1
    assert main(["mirror", *some, "--partitions", "x"]) == 1
    assert main(["mirror", *some[2:]]) == 1
    messages = capsys.readouterr().err
    assert "--throttle: a whole number from 1" in messages
    assert 'Missing required argument "[bootstrap-server]"' in messages
