"""Numbers on the command line: whatever is typed ends in a sentence, never in a traceback."""

import argparse
import io
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.arguments import number, parse_time, partition_numbers, whole_number
from kstore.cli import TOOLS, main
from kstore.cli.common import ToolParser
from kstore.config import LogConfig, parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import parse_float, parse_integer
from kstore.spark.jobs.command import topic_pattern

TYPED = {
    "5,000 digits": "9" * 5000,
    "negative": "-" + "9" * 5000,
    "4,000 digits": "9" * 4000,
    "2^63": str(2**63),
    "superscript": "²",
    "underscore": "1_0",
    "Arabic digits": "\u0667",
    "nan": "nan",
    "huge float": "1e999",
    "empty": "",
}
# What a tool needs beside the option that is tried, so that it ends by itself.
BESIDE = {
    "topics": ["--create", "--topic", "new"],
    "console-producer": ["--topic", "orders"],
    "consumer-groups": ["--reset-offsets", "--group", "g", "--topic", "orders", "--dry-run"],
    "console-consumer": ["--topic", "orders", "--timeout-ms", "0"],
    "log-dirs": ["--move", "orders-0", "--to", "DATA"],
    "mirror": ["--bootstrap-server", "127.0.0.1:1", "--topic", "orders"],
}
OF_PATHS = {"dump-log": ["--files", "none.log"]}
# No numbers; each a program of its own that begins to work at once.
NOT_TRIED = {"spark", "bench", "handover", "repair"}


def actions_of(name: str) -> Iterator[argparse.Action]:
    parser = ToolParser(prog=name)
    import_module(f"kstore.cli.{name.replace('-', '_')}").describe(parser)
    yield from parser._actions


def numeric(actions: Iterator[argparse.Action]) -> list[argparse.Action]:
    texts = (None, Path, topic_pattern)
    return [each for each in actions if each.option_strings and each.type not in texts]


TAKEN_AS_TEXT = [
    ("console-consumer", "--offset"),
    ("console-consumer", "--from-time"),
    ("console-producer", "--command-property=batch.size"),
    ("console-producer", "--command-property=buffer.memory"),
    ("console-producer", "--command-property=linger.ms"),
    ("console-producer", "--command-property=acks"),
    ("console-producer", "--request-required-acks"),
    ("consumer-groups", "--to-datetime"),
    ("consumer-groups", "--by-duration"),
    ("compact", "--partitions"),
    ("get-offsets", "--partitions"),
    ("get-offsets", "--time"),
    ("get-offsets", "--topic-partitions=orders:"),
    ("get-offsets", "--topic-partitions=orders:-"),
    ("log-dirs", "--move=orders-"),
    ("mirror", "--partitions"),
    ("mirror", "--partitions=0-"),
    ("topics", "--config=segment.bytes"),
]
TRIED = TAKEN_AS_TEXT + [
    (name, action.option_strings[0])
    for name in TOOLS
    if name not in NOT_TRIED
    for action in numeric(actions_of(name))
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    with kstore.open(path) as store:
        store.create_topic("orders").append(b"v")
    return path


@pytest.mark.parametrize(("name", "option"), TRIED, ids=lambda each: each)
@pytest.mark.parametrize("typed", TYPED)
def test_no_number_ends_in_a_traceback(
    name: str, option: str, typed: str, data: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that a tool can use is used; any other is a sentence and exit status 1."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    text = TYPED[typed]
    beside = [str(data) if word == "DATA" else word for word in BESIDE.get(name, [])]
    words = [*OF_PATHS[name]] if name in OF_PATHS else [*beside, "--log-dir", str(data)]
    if option == "--partition" and name == "verify":
        words += ["--topic", "orders"]
    if option == "--offset":
        words += ["--partition", "0"]
    flag, _, head = option.partition("=")
    value = f"{head}={text}" if flag in ("--command-property", "--config") else head + text
    status = main([name, *words, f"{flag}={value}"])
    output = "".join(capfd.readouterr())
    assert status in (0, 1)
    assert "Traceback" not in output
    assert len(output) < 5000, "a complaint does not repeat what is long"
    if typed in ("5,000 digits", "4,000 digits", "superscript"):
        assert status == 1
        assert output


def test_numeric_options_of_the_spark_jobs_refuse_other_text(capfd: Any) -> None:
    from kstore.spark.jobs import JOBS

    tried = 0
    for name in JOBS:
        parser = ToolParser(prog=name)
        import_module(f"kstore.spark.jobs.{name}").describe(parser)
        required = [word for each in parser._actions if each.required and each.option_strings
                    for word in (each.option_strings[0], (each.choices or ["x"])[0])]  # fmt: skip
        for action in numeric(iter(parser._actions)):
            for text in TYPED.values():
                if text.startswith("-"):
                    continue
                with pytest.raises(SystemExit):
                    parser.parse_args([*required, f"{action.option_strings[0]}={text}"])
                assert len(capfd.readouterr().err) < 5000
                tried += 1
    assert tried > 40


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("typed", ["5,000 digits", "4,000 digits", "2^63", "superscript"])
def test_a_time_of_the_export_is_a_time(option: str, typed: str) -> None:
    with pytest.raises(InvalidConfigError):
        parse_time(TYPED[typed], option)


def test_a_setting_accepts_an_integer_of_any_length() -> None:
    assert LogConfig.from_properties({"segment.bytes": " 1000 "}).segment_bytes == 1000
    for text in TYPED.values():
        with pytest.raises(InvalidConfigError, match=r"segment\.bytes must be a whole number"):
            LogConfig.from_properties({"segment.bytes": text})


@pytest.mark.parametrize("text", ["1_000", "_1", "1_", "\u0667", "\uff11", "", "+", "--1", "0x1"])
def test_a_number_has_ascii_digits_and_a_sign(text: str) -> None:
    for parse in (parse_whole_number, whole_number(), parse_integer, number(0, 1e9), parse_float):
        with pytest.raises((InvalidConfigError, argparse.ArgumentTypeError, ValueError)):
            parse(text)
    with pytest.raises(InvalidConfigError):
        LogConfig.from_properties({"retention.ms": text})
    with pytest.raises(InvalidConfigError):
        LogConfig.from_properties({"min.cleanable.dirty.ratio": text})


def test_a_sign_and_spaces_are_part_of_a_number() -> None:
    assert [parse_integer(each) for each in ("+7", "-7", " 007 ")] == [7, -7, 7]
    assert LogConfig.from_properties({"retention.ms": " +5 "}).retention_ms == 5


def test_settings_of_topics_and_counts_of_partitions_have_no_underscores(
    tmp_path: Path, capfd: Any
) -> None:
    path = ["--log-dir", str(tmp_path)]
    assert main(["topics", "--create", "--topic", "t", *path]) == 0
    for arguments in (
        ["configs", "--alter", "--topic", "t", "--add-config", "retention.ms=1_000"],
        ["topics", "--alter", "--topic", "t", "--config", "segment.bytes=1_000_0"],
        ["topics", "--create", "--topic", "u", "--config", "segment.bytes=1_000_0"],
        ["topics", "--create", "--topic", "u", "--partitions", "1_0"],
    ):
        assert main([*arguments, *path]) == 1, arguments
        assert "1_0" in "".join(capfd.readouterr())
    with kstore.open(tmp_path, "r") as store:
        assert list(store) == ["t"]
        assert store["t"].config.retention_ms == LogConfig().retention_ms


def test_an_error_shows_only_the_beginning_of_a_long_number() -> None:
    with pytest.raises(InvalidConfigError, match=r"x must be .* from 1 to 9, not '9{40}\.\.\. "):
        parse_whole_number("9" * 5000, 1, 9, name="x")
    assert parse_whole_number("9", 1, 9) == 9
    for wrong in ("0", "10", "", "1.0", "a"):
        with pytest.raises(InvalidConfigError):
            parse_whole_number(wrong, 1, 9)
    assert whole_number(-1)("-1") == -1
    assert number(0, 10)("2.5") == 2.5
    assert partition_numbers("0, 4,7") == [0, 4, 7]


@pytest.mark.parametrize(
    ("time", "offset", "warning"),
    [
        (
            "1780315200000000000",
            "",
            "no record is as late as 1780315200000000000 ms; these look like nanoseconds "
            "(2026-06-01): divide by 1,000,000",
        ),
        (
            "1780315200",
            "orders:0:0\n",
            "a time of ten digits looks like seconds, and is taken for milliseconds, a day in "
            "1970: pass an aware datetime, or multiply by 1000",
        ),
    ],
    ids=["nanoseconds", "seconds"],
)
def test_a_time_in_another_unit_gives_a_warning(
    data: Path, capfd: Any, time: str, offset: str, warning: str
) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        words = ["get-offsets", "--time", time, "--log-dir", str(data)]
        assert main(words) == 0
    printed, output = capfd.readouterr()
    assert (printed, output) == (offset, f"kstore get-offsets: {warning}\n")


# --- counts and times of the consumer ----------------------------------------------------------


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders")[0].extend([b"%d" % n for n in range(10)])
    return tmp_path


def consume(ten: Path, capfd: Any, *words: str) -> tuple[int, list[str]]:
    status = main(
        ["console-consumer", "--topic", "orders", "--from-beginning", *words, "--log-dir", str(ten)]
    )
    return status, capfd.readouterr().out.split()


@pytest.mark.parametrize(("most", "shown"), [("-1", 10), ("0", 0), ("3", 3), ("11", 10)])
def test_max_messages_of_minus_one_is_no_limit(
    ten: Path, capfd: Any, most: str, shown: int
) -> None:
    """As in Kafka, whose default it is."""
    status, lines = consume(ten, capfd, "--max-messages", most, "--timeout-ms", "1")
    assert (status, lines) == (0, [str(n) for n in range(shown)])


def test_timeout_of_minus_one_waits(ten: Path, capfd: Any, monkeypatch: Any) -> None:
    """As in Kafka: it waits for the records that end it, and does not end by itself."""
    from kstore.client.consumer import Consumer

    waits, batches = [], Consumer.batches

    def counted(self: Consumer, *, timeout: float | None = None) -> Any:
        waits.append(timeout)
        if len(waits) == 3:
            raise KeyboardInterrupt
        return batches(self, timeout=timeout)

    monkeypatch.setattr(Consumer, "batches", counted)
    status, lines = consume(ten, capfd, "--timeout-ms", "-1")
    assert status == 130
    assert len(lines) == 10
    assert waits == [0.2] * 3


@pytest.mark.parametrize("option", ["--max-messages", "--timeout-ms", "--partition"])
def test_another_negative_number_is_refused(ten: Path, capfd: Any, option: str) -> None:
    status, lines = consume(ten, capfd, option, "-2")
    assert (status, lines) == (1, [])
