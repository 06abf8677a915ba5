"""The complete command line: tools, help, wrong options, exit statuses, closed pipes."""

import subprocess
import sys

import pytest

import kstore
from kstore.cli import TOOLS, main


def kstore_process(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "kstore", *words], **options)


def test_no_tool_prints_the_list_and_fails(capsys):
    assert main([]) == 1
    output, complaint = capsys.readouterr()
    assert output == ""
    assert all(name in complaint for name in TOOLS)


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_prints_the_list(word, capsys):
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("usage: kstore TOOL")


def test_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kstore {kstore.__version__}\n"


def test_unknown_tool_is_named(capsys):
    assert main(["frobnicate"]) == 1
    assert "kstore has no tool 'frobnicate'" in capsys.readouterr().err


@pytest.mark.parametrize("name", TOOLS)
def test_help_of_every_tool_has_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    output = capsys.readouterr().out
    assert f"usage: kstore {name}" in output
    assert f"  kstore {name} " in output.partition("examples:")[2]


def test_wrong_options_are_named_before_the_usage_as_in_kafka(capsys):
    assert main(["dump-log"]) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[files]"\n\nusage:')
    assert main(["dump-log", "--no-such-flag"]) == 1  # before what is missing, as in Kafka
    complaint = capsys.readouterr().err
    assert complaint.startswith("no-such-flag is not a recognized option\n\nusage:")
    assert main(["topics", "--partitions", "x"]) == 1
    sentence, hint, *_ = capsys.readouterr().err.splitlines()
    assert sentence == "Cannot parse argument 'x' of option partitions"
    assert hint.startswith("--partitions: a whole number from ")
    assert main(["topics", "--create", "--topic"]) == 1
    assert capsys.readouterr().err.startswith("Option topic requires an argument\n")
    assert main(["transactions", "--bootstrap-server", "x:1", "describe"]) == 1
    assert capsys.readouterr().err.startswith("argument --transactional-id is required\n")


def test_a_tool_loads_only_itself():
    code = "import sys, kstore.cli; print('kstore.cli.dump_log' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_closed_pipe_ends_quietly(tmp_path):
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(b"".join(bytes(7) + n.to_bytes(5) for n in range(1, 200_000)))
    path.with_suffix(".log").write_bytes(b"")
    process = kstore_process(
        "dump-log", "--files", str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == f"Dumping {path}\n".encode()
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_missing_file_is_one_sentence(tmp_path, capsys):
    assert main(["dump-log", "--files", str(tmp_path / "00000000000000000000.log")]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("kstore dump-log: ")
    assert str(tmp_path) in complaint
    assert complaint.count("\n") == 1
