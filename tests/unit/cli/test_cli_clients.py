"""Formatters, deserializers and client settings of console-consumer and console-producer."""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import kstore
from kstore.cli import main
from kstore.cli.console_producer import producer_options
from kstore.cli.deserializers import deserializer, java_double
from kstore.cli.formatters import Formatter, InternalTopicFormatter, make_formatter
from kstore.errors import KStoreError
from kstore.record import Record

Tool = Callable[..., tuple[int, list[str], list[str]]]
PACKAGE = "org.apache.kafka.common.serialization."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        log = store.create_topic("numbers")[0]
        for number in (1, -2, 1 << 40):
            log.append(struct.pack(">q", number), key=struct.pack(">i", number % 7))
    return path


@pytest.fixture
def consume(data: Path, capfd: Any) -> Tool:
    def run(*words: object, topic: str = "numbers") -> tuple[int, list[str], list[str]]:
        words = ("--topic", topic, "--timeout-ms", 0, *words)
        status = main(["console-consumer", *map(str, words), "--log-dir", str(data)])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


# --- deserializers ------------------------------------------------------------------------------


def test_keys_and_values_are_deserialized(consume: Tool) -> None:
    words = ("--from-beginning", "--property", "print.key=true")
    short = ("--key-deserializer", "IntegerDeserializer", "--value-deserializer")
    expected = ["1\t1", "5\t-2", "2\t1099511627776"]
    assert consume(*words, *short, f"{PACKAGE}LongDeserializer")[1] == expected
    formatted = [
        word
        for what, kind in (("key", "Integer"), ("value", "Long"))
        for word in ("--formatter-property", f"{what}.deserializer={PACKAGE}{kind}Deserializer")
    ]
    assert consume(*words, *formatted)[1] == expected


def test_an_option_wins_over_the_property_and_the_file(consume: Tool, tmp_path: Path) -> None:
    path = tmp_path / "f.properties"
    path.write_text("value.deserializer=IntegerDeserializer\nprint.offset=true\n")
    words = ("--from-beginning", "--max-messages", 1, "--formatter-config", path)
    assert consume(*words, "--value-deserializer", "LongDeserializer")[1] == ["Offset:0\t1"]
    assert consume(*words, "--property", "value.deserializer=LongDeserializer")[1] == [
        "Offset:0\t1"
    ]


def test_a_record_of_another_size_ends_the_tool_or_is_skipped(data: Path, consume: Tool) -> None:
    with kstore.open(data) as store:
        store["numbers"].append(b"short")
        store["numbers"].append(struct.pack(">q", 9))
    words = ("--from-beginning", "--value-deserializer", "LongDeserializer")
    status, lines, errors = consume(*words)
    assert (status, lines) == (1, ["1", "-2", "1099511627776"])
    assert errors[-1].endswith(
        "Size of data received by LongDeserializer is not 8; --skip-message-on-error skips such "
        "records: partition 0 (offset 3)"
    )
    status, lines, errors = consume(*words, "--skip-message-on-error")
    assert (status, lines) == (0, ["1", "-2", "1099511627776", "9"])


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("Short", b"\xff\xfe", "-2"),
        ("Integer", b"\0\0\1\0", "256"),
        ("Float", struct.pack(">f", 0.1), "0.1"),
        ("Double", struct.pack(">d", 0.1), "0.1"),
        ("Boolean", b"\1", "true"),
        ("UUID", str(UUID(int=7)).encode(), str(UUID(int=7))),
    ],
)
def test_deserializers_print_as_javas_and_refuse_other_sizes(
    kind: str, data: bytes, text: str
) -> None:
    function = deserializer(f"{PACKAGE}{kind}Deserializer")
    assert function is not None
    assert function(data) == text
    with pytest.raises(KStoreError, match=f"received by {kind}Deserializer is not {len(data)}"):
        function(data + b"x")


def test_text_and_bytes_are_printed_as_they_are() -> None:
    for name in (None, "", "StringDeserializer", f"{PACKAGE}ByteArrayDeserializer"):
        assert deserializer(name) is None


def test_null_is_not_deserialized() -> None:
    values = {"value.deserializer": "LongDeserializer", "null.literal": "-"}
    assert Formatter(values).render(Record(0, 0, None, None), 0) == b"-\n"


def test_headers_are_deserialized() -> None:
    values = {"headers.deserializer": "ShortDeserializer", "print.headers": "true"}
    record = Record(0, 0, None, b"v", [("h", b"\0\5")])
    assert Formatter(values).render(record, 0) == b"h:5\tv\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (1234567.0, "1234567.0"),
        (1e7, "1.0E7"),
        (1.25e-5, "1.25E-5"),
        (0.001, "0.001"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_by_java(number: float, text: str) -> None:
    assert java_double(number) == text


def test_a_float_has_the_digits_of_32_bits() -> None:
    for number, text in ((3.14, "3.14"), (1e10, "1.0E10"), (16777216.0, "1.6777216E7")):
        (single,) = struct.unpack(">f", struct.pack(">f", number))
        assert java_double(single, 9) == text


# --- formatters ---------------------------------------------------------------------------------


def test_no_op_prints_nothing_and_counts(consume: Tool) -> None:
    words = (
        "--from-beginning",
        "--formatter",
        "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
    )
    assert consume(*words) == (0, [], ["Processed a total of 3 messages"])


_OF_KAFKA_3 = "kafka.coordinator.group.GroupMetadataManager$"


def test_the_last_line_for_system_tests_follows_the_records_and_errors(consume: Tool) -> None:
    words = ("--from-beginning", "--enable-systest-events", "--value-deserializer")
    count = ["Processed a total of 3 messages"]
    last = "shutdown_complete"
    assert consume(*words, "LongDeserializer") == (0, ["1", "-2", "1099511627776", last], count)
    status, lines, errors = consume(*words, "IntegerDeserializer")
    assert (status, lines, errors[0]) == (1, [last], "Processed a total of 0 messages")
    # As in Kafka, a wrong option ends the tool before it has a consumer.
    assert consume(*words, "LongDeserializer", "--offset", "x")[:2] == (1, [])


@pytest.mark.parametrize("package", ["", _OF_KAFKA_3, "org.apache.kafka.tools.consumer."])
def test_internal_topics_are_json_lines(data: Path, consume: Tool, package: str) -> None:
    with kstore.open(data) as store, store.consumer("numbers", group="g") as consumer:
        consumer.commit({("numbers", 0): 2})
    words = ("--from-beginning", "--formatter", f"{package}OffsetsMessageFormatter")
    status, (line,), _ = consume(*words, topic="__consumer_offsets")
    assert status == 0
    tree = json.loads(line)
    assert tree["key"]["data"] == {"group": "g", "topic": "numbers", "partition": 0}
    assert tree["value"]["data"]["offset"] == 2
    words = ("--from-beginning", "--formatter", f"{package}GroupMetadataMessageFormatter")
    assert consume(*words, topic="__consumer_offsets")[:2] == (0, [])


def test_a_formatter_has_its_names_of_kafka_3_and_4() -> None:
    names = (
        "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
        "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        "TransactionLogMessageFormatter",
    )
    assert {type(make_formatter(name, {})) for name in names} == {InternalTopicFormatter}


def test_the_formatter_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="kstore")
    shown = make_formatter("LoggingMessageFormatter", {"print.key": "true"})
    for key, value in ((b"k", b"v\xff"), (None, b""), (b"", None), (None, None)):
        record = Record(value=value, key=key, timestamp=1000)
        assert shown.render(record, 0) == Formatter({"print.key": "true"}).render(record, 0)
    old = Record(value=b"v", key=b"k", timestamp_type="NoTimestampType")
    shown.render(old, 0)
    at = "CreateTime:1000, "
    assert caplog.messages == [
        f"{at}key:k, value:v\ufffd", f"{at}key:null value:", f"{at}key:, value:null",
        f"{at}key:null value:null", "key:k, value:v",
    ]  # fmt: skip


def test_older_names_of_formatters_are_deprecated(capsys: pytest.CaptureFixture[str]) -> None:
    make_formatter("org.apache.kafka.tools.consumer.NoOpMessageFormatter", {})
    assert capsys.readouterr().err == ""
    make_formatter("kafka.tools.NoOpMessageFormatter", {})
    assert capsys.readouterr().err == (
        "WARNING: kafka.tools.NoOpMessageFormatter is deprecated and will be removed in the next "
        "major release. Please use org.apache.kafka.tools.consumer.NoOpMessageFormatter instead\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--formatter", "com.example.Mine"], "com.example.Mine: kstore runs no Java classes"),
        (["--value-deserializer", "AvroDeserializer"], "kstore runs no Java classes"),
        (["--consumer-property", "fetch"], "a property reads name=value"),
        (["--consumer-property", "no.such=1"], "known are: auto.offset.reset"),
        (["--consumer-property", "auto.offset.reset=none"], "earliest or latest"),
        (["--consumer-property", "isolation.level=x"], "isolation.level is one of"),
        (["--group", "a", "--consumer-property", "group.id=b"], "do not match"),
        (["--from-beginning", "--consumer-property", "auto.offset.reset=latest"],
         "Can't simultaneously specify --from-beginning"),
        (["--partition", "0", "--consumer-property", "group.id=b"], "Options group and partition"),
        (["--command-config", "none"], "there is no file none"),
    ],
)  # fmt: skip
def test_wrong_use_is_explained(consume: Tool, words: list[str], text: str) -> None:
    status, lines, errors = consume(*words)
    assert (status, lines) == (1, [])
    assert text in "\n".join(errors[:2])


# --- settings of the consumer -------------------------------------------------------------------


def test_a_consumers_settings_come_from_file_and_options(consume: Tool, tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text("auto.offset.reset=earliest\ngroup.id=g\nssl.key.password=x\n")
    value = ("--value-deserializer", "LongDeserializer")
    config = ("--consumer.config", path, *value)
    words = (*config, "--consumer-property", "enable.auto.commit=false")
    status, lines, errors = consume(*words)
    assert (status, lines) == (0, ["1", "-2", "1099511627776"])
    assert errors[0] == "without effect, because there is no broker: ssl.key.password"
    assert consume(*config)[1] == lines  # the first run committed nothing
    assert consume(*config)[1] == []


def test_read_committed_by_a_setting(data: Path, consume: Tool) -> None:
    with kstore.open(data) as store, store.transactional_producer("t") as producer:
        producer.begin_transaction()
        producer.send("numbers", b"aborted")
        producer.abort_transaction()
    level = ("--consumer-property", "isolation.level=read_committed")
    assert len(consume("--from-beginning", *level)[1]) == 3


# --- console-producer ---------------------------------------------------------------------------


@pytest.fixture
def produce(data: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Tool:
    def run(*words: object) -> tuple[int, list[str], list[str]]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"k:v\n")))
        words = ("--topic", "numbers", *words)
        status = main(["console-producer", *map(str, words), "--log-dir", str(data)])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def test_a_line_is_read_by_a_file_of_properties(data: Path, produce: Tool, tmp_path: Path) -> None:
    path = tmp_path / "r.properties"
    path.write_text("parse.key=true\nkey.separator=:\n")
    reader = ("--line-reader", "org.apache.kafka.tools.LineMessageReader")
    assert produce("--reader-config", path, *reader) == (0, [], [])
    with kstore.open(data, "r") as store:
        record = store["numbers"][0][-1]
        assert (record.key, record.value) == (b"k", b"v")


def test_a_producers_settings_come_from_file_and_options(
    produce: Tool, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "p.properties"
    path.write_text("acks=1\nbootstrap.servers=a:1\nenable.idempotence=true\nmax.block.ms=5\n")
    seen = []

    def noted(arguments: Any) -> dict[str, Any]:
        seen.append(producer_options(arguments))
        return seen[-1]

    monkeypatch.setattr("kstore.cli.console_producer.producer_options", noted)
    words = ("--producer.config", path, "--producer-property", "acks=all")
    note = "without effect, because there is no broker: bootstrap.servers"
    assert produce(*words) == (0, [], [note])
    assert seen == [
        {"acks": "all", "linger_ms": 1000, "max_block_ms": 5, "enable_idempotence": True}
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--line-reader", "com.example.Mine"], "kstore runs no Java classes"),
        (["--request-timeout-ms", "x"], "Cannot parse argument 'x' of option request-timeout-ms"),
        (["--request-required-acks", "2"], "Invalid value 2 for configuration acks"),
        (["--key-serializer", "x"], "keys and values are the bytes of the line"),
        (["--producer-property", "no.such=1"], "known are: acks"),
    ],
)
def test_wrong_use_of_the_producer(produce: Tool, words: list[str], text: str) -> None:
    status, _, errors = produce(*words)
    assert status == 1
    assert text in "\n".join(errors[:2])
