"""The options of a load, and the error for each option or value that it does not have."""

import argparse
import logging
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from kstore.errors import InvalidConfigError
from kstore.spark.jobs import JOBS
from kstore.spark.sink.options import check_columns, parse_sink
from kstore.spark.source.metrics import offsets_behind_latest
from kstore.spark.source.offsets_json import (
    EARLIEST,
    LATEST,
    from_json,
    identities_from_json,
    parse_offsets,
    to_json,
)
from kstore.spark.source.options import SOURCE_OPTIONS, check_names, parse_source
from kstore.spark.source.schema import TYPES
from kstore.store.topic_identity import TopicIdentity

PLAIN = {"path": "/data", "subscribe": "orders"}


def parse(streaming: bool = False, **options: str):
    return parse_source({**PLAIN, **options}, streaming=streaming)


def test_defaults_are_the_connector_s() -> None:
    batch, stream = parse(), parse(streaming=True)
    assert batch.starting.common == EARLIEST
    assert batch.ending.common == LATEST
    assert stream.starting.common == LATEST
    assert batch.fail_on_data_loss
    assert batch.isolation == "read_uncommitted"
    assert batch.columns == tuple(name for name in TYPES if name != "headers")
    assert not batch.skips_damage


def test_names_are_compared_without_case_as_spark_hands_them_over() -> None:
    assert parse(minpartitions="7").min_partitions == 7
    assert parse(MINPARTITIONS="7").min_partitions == 7


def test_the_options_path_and_paths_name_log_directories() -> None:
    both = {"subscribe": "orders", "paths": '["/a", "/b c"]'}
    assert parse_source(both).paths == ("/a", "/b c")
    assert parse_source({"subscribe": "orders", "path": "file:///a"}).paths == ("/a",)
    with pytest.raises(InvalidConfigError, match="give the log directory"):
        parse_source({"subscribe": "orders"})


@pytest.mark.parametrize(
    "text",
    [
        "/a,/b",
        '"abc"',
        "[1, 2]",
        '{"a": 1}',
        "null",
        "5",
        '[["x"]]',
        '["a\\u0000b"]',
        "[" * 100_000,
    ],
)
def test_paths_that_are_no_list_of_names(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="path"):
        parse_source({"subscribe": "orders", "paths": text})


def test_a_sink_of_partitions_without_end() -> None:
    given = {"path": "/data", "topic": "orders"}
    assert parse_sink({**given, "numPartitions": "65536"}).num_partitions == 65_536
    with pytest.raises(InvalidConfigError, match="from 1 to 65536"):
        parse_sink({**given, "numPartitions": "1000000000000"})


def test_exactly_one_selection_of_topics_is_accepted() -> None:
    assert parse(subscribe="a, b,a").topics == ("a", "b")
    assigned = parse_source({"path": "/d", "assign": '{"b": [1, 0], "a": [3]}'})
    assert assigned.partitions == (("a", 3), ("b", 0), ("b", 1))
    with pytest.raises(InvalidConfigError, match=r"subscribe, subscribePattern, assign to select"):
        parse_source({"path": "/d"})
    with pytest.raises(InvalidConfigError, match="subscribe and assign"):
        parse(assign='{"b": [1]}')
    with pytest.raises(InvalidConfigError, match="subscribePattern"):
        parse_source({"path": "/d", "subscribePattern": "("})


def test_prefixes_of_options_are_compared_without_case(caplog: pytest.LogCaptureFixture) -> None:
    given = {"Kafka.bootstrap.servers": "b:9092", "KAFKA.isolation.LEVEL": "read_committed"}
    with caplog.at_level(logging.WARNING, "kstore"):
        check_names({**PLAIN, **given}, SOURCE_OPTIONS)
    assert "Kafka.bootstrap.servers" in caplog.text
    assert "isolation" not in caplog.text
    assert parse(**given).isolation == "read_committed"


@pytest.mark.parametrize("job", JOBS)
def test_path_is_another_name_of_log_dir(job: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(f"kstore.spark.jobs.{job}").describe(parser)
    (named,) = (line for line in parser.format_help().splitlines() if "  --log-dir" in line)
    assert ", --path" in named


@pytest.mark.parametrize("job", JOBS)
def test_a_wrong_pattern_of_topics_is_refused_before_a_job_begins(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    import_module(f"kstore.spark.jobs.{job}").describe(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--log-dir", "/data", "--topic", "orders,("])
    assert "'orders|(' is not a regular expression" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "columns", "warning"),
    [
        ("true", ("value", "headers"), None),
        ("false", ("value",), None),
        (None, ("value", "headers"), None),
        ("false", ("value", "headers"), "drop the column"),
        ("true", ("value",), "add the column"),
    ],
)
def test_a_sink_takes_include_headers_and_says_where_the_column_decides(
    option: str | None, columns: tuple[str, ...], warning: str | None, caplog: Any
) -> None:
    given = {"path": "/data", "topic": "orders"}
    options = parse_sink(given if option is None else {**given, "includeHeaders": option})
    types = {"value": "binary", "headers": "array<struct<key:string,value:binary>>"}
    fields = [
        SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda n=name: types[n]))
        for name in columns
    ]
    with caplog.at_level(logging.WARNING, "kstore"):
        check_columns(SimpleNamespace(fields=fields), options)
    assert (warning in caplog.text) if warning else not caplog.text
    with pytest.raises(InvalidConfigError, match="includeHeaders is one of true, false"):
        parse_sink({**given, "includeHeaders": "perhaps"})


def test_offsets_behind_latest_are_those_of_spark_s_kafka_source() -> None:
    source = {
        "endOffset": '{"orders": {"0": 90, "1": 40}, "orders@some-id": {}}',
        "latestOffset": '{"orders": {"0": 100, "1": 40, "2": 7}}',
    }
    expected = {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 10,
        "avgOffsetsBehindLatest": 17 / 3,
    }
    assert offsets_behind_latest(source) == expected
    assert offsets_behind_latest(SimpleNamespace(**source)) == expected
    assert offsets_behind_latest({"endOffset": "{}", "latestOffset": "{}"}) == {}
    with pytest.raises(InvalidConfigError, match="has no latestOffset"):
        offsets_behind_latest({"endOffset": "{}", "latestOffset": None})


def test_times_come_before_offsets() -> None:
    bound = parse(startingTimestamp="5", startingOffsets="earliest").starting
    assert bound.is_time
    assert bound.common == 5
    bound = parse(startingOffsetsByTimestamp='{"orders": {"0": 9}}').starting
    assert bound.is_time
    assert bound.offsets == {("orders", 0): 9}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "'earliest'"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "leaves nothing"),
        ({"endingOffsets": "earliest"}, "'latest'"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "is empty"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-2 is the earliest"),
        ({"startingOffsets": '{"orders": [0]}'}, "takes JSON such as"),
        ({"startingOffsets": "{oops"}, "takes JSON such as"),
        ({"startingOffsets": '{"orders": {"x": 1}}'}, "takes JSON such as"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"endingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "milliseconds since 1970"),
        ({"minPartitions": "0"}, "from 1 to 100000"),
        ({"failOnDataLoss": "maybe"}, "true, false"),
        ({"isolation": "serializable"}, "read_committed"),
        ({"columns": "offset,vlaue"}, "is 'value' meant"),
        ({"columns": "offset,offset"}, "twice"),
        ({"mode": "LAX"}, "FAILFAST"),
        ({"maxPartitionBytes": "many"}, "128m"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is above"),
        ({"startingOffsetsByTimestampStrategy": "ignore"}, "error, latest"),
        ({"startingOffsets": '{"x":' * 100_000}, "takes JSON such as"),
        ({"assign": "[" * 100_000, "subscribe": ""}, "set one of"),
        ({"minPartitions": "100001"}, "from 1 to 100000"),
        ({"minPartitions": "9" * 5000}, "from 1 to 100000"),
        ({"maxRecordsPerPartition": "0"}, "at least 1"),
        ({"maxOffsetsPerTrigger": "9" * 30}, "whole number"),
        ({"path": "/da\0ta"}, "NUL"),
        ({"badRecordsPath": "bad"}, "PERMISSIVE"),
        ({"badRecordsPath": "bad", "mode": "failfast"}, "PERMISSIVE"),
    ],
)
def test_errors_say_what_to_write(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        parse(**options)


def test_a_stream_has_other_bounds() -> None:
    assert parse(True, startingOffsets="latest").starting.common == LATEST
    with pytest.raises(InvalidConfigError, match="a stream has no end"):
        parse(True, endingOffsets="latest")
    assert parse(True, maxTriggerDelay="90s").max_trigger_delay_ms == 90_000


def test_kafka_options_are_ignored_but_for_isolation(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        **PLAIN,
        "kafka.bootstrap.servers": "b:9092",
        "kafka.isolation.level": "read_committed",
        "fetchoffset.numretries": "3",
    }
    with caplog.at_level(logging.WARNING):
        check_names(given, SOURCE_OPTIONS)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "fetchoffset.numretries, kafka.bootstrap.servers"
    ]
    assert parse_source(given).isolation == "read_committed"


def test_an_unknown_option_is_no_option() -> None:
    with pytest.raises(InvalidConfigError, match="is 'startingOffsets' meant"):
        check_names({**PLAIN, "startingoffset": "earliest"}, SOURCE_OPTIONS)


def test_offsets_as_kafka_s_json_in_one_order() -> None:
    offsets = parse_offsets('{"b": {"10": 5, "9": -1}, "a": {"0": -2}}', "x")
    assert offsets == {("b", 10): 5, ("b", 9): -1, ("a", 0): -2}
    assert str(to_json(offsets)) == "{'a': {'0': -2}, 'b': {'9': -1, '10': 5}}"
    assert from_json(to_json(offsets), "x") == offsets


def test_topic_identities_are_stored_beside_the_offsets() -> None:
    known = {"b": "B-_x", "a": None, "c": "C"}
    ids = {topic: TopicIdentity(identity) for topic, identity in known.items()}
    written = to_json({("b", 0): 5, ("a", 0): 7}, ids)
    assert str(written) == "{'a': {'0': 7}, 'b': {'0': 5}, 'a@': {}, 'b@B-_x': {}}"
    assert from_json(written, "x") == {("b", 0): 5, ("a", 0): 7}
    assert identities_from_json(written) == {"a": None, "b": "B-_x"}
    assert identities_from_json({"b": {"0": 5}}) == {}
