"""Options that a user tries: versions, times, aliases, and those of Kafka's tools without use."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.arguments import parse_time
from kstore.cli import TOOLS, main
from kstore.cli.explain_lock import explain
from kstore.errors import InvalidConfigError
from kstore.files.lock_holders import LockHolder

# --- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-V", "--version"])
@pytest.mark.parametrize("words", [[], *([name] for name in TOOLS), ["spark", "verify"]], ids=str)
def test_every_tool_has_a_version(words: list[str], flag: str, capsys: Any) -> None:
    assert main([*words, flag]) == 0
    assert capsys.readouterr() == (f"kstore {kstore.__version__}\n", "")


# --- options as Kafka's tools take them ---------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("topics --delete --topic a --topic=b", "topic"),
        ("configs --alter --add-config a=1 --add-config b=2", "add-config"),
        ("console-consumer --include a --whitelist b", "whitelist"),
        ("serve --node-id x --node-id y", "node-id"),
    ],
)
def test_one_value_is_not_given_twice(line: str, option: str, capsys: Any) -> None:
    assert main([*line.split(), "--log-dir", "none"]) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"Found multiple arguments for option {option}, but you asked for only one"


def test_some_options_are_given_again(tmp_path: Path, capsys: Any) -> None:
    create = ["topics", "--create", "--topic", "a", "--log-dir", str(tmp_path / "data")]
    settings = ["--config", "retention.ms=1000", "--config", "segment.bytes=1048576"]
    assert main([*create, *settings]) == 0
    assert main(["topics", "--list", "--list", *create[-2:]]) == 0
    assert capsys.readouterr().out.endswith("a\n")


@pytest.mark.parametrize("action", ["--list", "--describe", "--delete"])
def test_an_empty_name_is_no_topic(tmp_path: Path, action: str, capsys: Any) -> None:
    data = ["--log-dir", str(tmp_path / "data")]
    assert main(["topics", "--create", "--topic", "a", *data]) == 0
    capsys.readouterr()
    assert main(["topics", action, "--topic", "", *data]) == (action != "--list")
    assert "Topic: a" not in capsys.readouterr().out
    assert main(["recompress", "--compression", "gzip", "--topic", "", *data]) == 1


def test_an_unknown_option_of_an_action_comes_before_a_missing_one(capsys: Any) -> None:
    assert main(["transactions", "describe", "--nope", "x"]) == 1
    assert capsys.readouterr().err.startswith("unrecognized arguments: '--nope'\n")
    assert main(["transactions", "nope", "--transactional-id", "x"]) == 1
    assert "invalid choice: 'nope'" in capsys.readouterr().err.splitlines()[0]


# --- points in time -----------------------------------------------------------------------------


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOON = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) * 1000
HOUR = 3_600_000


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        (str(NOON), NOON),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T12:00Z", NOON),
        ("2026-01-31 12:00:00.250Z", NOON + 250),
        ("2026-01-31T13:00:00+01:00", NOON),
        ("2026-01-31T07:00", NOON),  # local time
        ("2026-01-31", NOON - 7 * HOUR),  # midnight, local time
        ("2026-07-31", NOON - 8 * HOUR + 181 * 24 * HOUR),  # of a summer
    ],
)
def test_a_time_is_a_number_or_a_date(text: str, milliseconds: int) -> None:
    assert parse_time(text, "--time") == milliseconds


def test_a_time_without_an_offset_may_be_one_of_another_zone() -> None:
    assert parse_time("2026-01-31T12:00", "--time", UTC) == NOON
    zone = timezone(timedelta(hours=2))
    assert parse_time("2026-01-31T12:00", "--time", zone) == NOON - 2 * HOUR


@pytest.mark.parametrize("text", ["noon", "2026-13-01", "2026-01-31T25:00", "1969-12-31", "", "²"])
def test_an_invalid_time_is_an_error_that_names_the_option(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"^--time"):
        parse_time(text, "--time")


@pytest.mark.parametrize("tool", ["console-consumer", "get-offsets"])
def test_help_says_that_a_time_without_an_offset_is_local(tool: str, capsys: Any) -> None:
    assert main([tool, "--help"]) == 0
    assert "local time" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("job", ["export", "restore"])
def test_spark_jobs_take_dates_too(job: str, capsys: Any) -> None:
    assert main(["spark", job, "--since", "noon"]) == 1
    assert "milliseconds since 1970, or a date" in capsys.readouterr().err


# --- options that have another name, or no use --------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("orders")
    return path


@pytest.mark.parametrize("name", ["--path", "--log-dir"])
def test_the_directory_has_either_name(data: Path, name: str, capsys: Any) -> None:
    assert main(["topics", "--list", name, str(data)]) == 0
    assert main(["repair", name, str(data), "--dry-run"]) == 0
    assert "orders-0: ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["verify", "--dry-run"], "--dry-run: this tool changes nothing without --seal"),
        (["get-offsets", "--dry-run"], "--dry-run: this tool only reads; leave it out"),
        (["dump-log", "--log-dir", "data"], "takes files: --files data/orders-0/*.log"),
        (["topics", "--list", "--directory", "data"], "--directory: the option is --log-dir"),
        (
            ["topics", "--list", "--command-config=c", "--log-dir=."],
            "a directory has no connection to configure",
        ),
        (["repair", "--path", "x", "--execute", "--dry-run"], "not allowed with"),
        (["verify", "."], 'Missing required argument "[log-dir]"\ndid you mean --log-dir .?'),
        (["topics", "--describe", "a", "--path", "x"], "a topic follows its option: --topic a"),
        (["topics", "--list", "/", "--path", "x"], "a directory follows its option: --log-dir /"),
        (["get-offsets", "--group", "g"], "'kstore consumer-groups --describe' shows"),
        (["consumer-group"], "kstore has no tool 'consumer-group'; did you mean consumer-groups?"),
        (["kafka-topics.sh"], "kstore has no tool 'kafka-topics.sh'; did you mean topics?"),
        (["console_consume"], "; did you mean console-consumer?"),
        (["--log-dir", "x", "topics"], "; the tool comes first, as in: kstore topics --list"),
        (["create"], "kstore has no tool 'create'; did you mean kstore topics --create?"),
        (["ls", "data"], "kstore has no tool 'ls'; did you mean kstore topics --list?"),
        (["tail", "orders"], "did you mean kstore console-consumer?"),
        (["lag"], "did you mean kstore consumer-groups --describe --all-groups?"),
        (["xyz"], "kstore has no tool 'xyz'."),
        (
            ["verify", "--log-dir", "x", "--topics", "a"],
            "topics is not a recognized option\ndid you mean --topic?",
        ),
    ],
)
def test_an_option_that_a_tool_does_not_have_is_explained(
    words: list[str], text: str, capsys: Any
) -> None:
    assert main(words) == 1
    assert text in capsys.readouterr().err.partition("\n\n")[0]


# --- files that do not exist --------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["dump-log", "--files", "none.log"],
        ["dump-log", "--files", "none.index,none.snapshot"],
        ["dump-log", "--files", "none"],
        ["mirror", "--bootstrap-server", "a:1", "--topic", "t", "--log-dir", "x",
         "--command-config", "none.properties"],
    ],
)  # fmt: skip
def test_a_missing_file_is_reported_as_missing(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    output, complaint = capsys.readouterr()
    assert output == ""
    assert complaint.startswith(f"kstore {words[0]}: there is no file none")
    assert complaint.count("\n") == 1


def test_a_file_is_no_log_dir(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "a.log"
    path.touch()
    assert main(["verify", "--log-dir", str(path)]) == 1
    assert f"{path} is a file; --log-dir names the directory" in capsys.readouterr().err


# --- a locked directory -------------------------------------------------------------------------

HOLD = "import sys, kstore\nwith kstore.open(sys.argv[1]): print('open', flush=True); input()"


@pytest.fixture
def holder(data: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.communicate("\n")


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "--delete", "--topic", "orders"],
        ["console-producer", "--topic", "orders"],
        ["compact"],
        ["repair"],
    ],
)
def test_a_locked_store_says_who_holds_it(
    data: Path, holder: "subprocess.Popen[str]", words: list[str], capfd: Any
) -> None:
    assert main([*words, "--log-dir", str(data)]) == 1
    said = "".join(capfd.readouterr())
    assert f"process {holder.pid} ({sys.executable} -c import sys, kstore" in said
    assert f"has {data} open for writing" in said
    assert f"'kill {holder.pid}'" in said
    assert "mode='r'" not in said
    assert said.count("\n") == 1


def test_a_holder_that_the_system_does_not_show() -> None:
    text = explain("/data/.lock", None)
    assert text.startswith("another process has /data open for writing")
    assert "sudo fuser -v /data/.lock" in text
    assert explain("/data/.lock", LockHolder(7, "")).startswith("process 7 has /data open")
