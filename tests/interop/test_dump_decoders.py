"""Kafka's DumpLogSegments and kstore's dump-log decode keys and values alike."""

import re
import struct
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

from interop.kafka_jars import ToolError, compiled, java_command, run
from support.segments import write_pairs

_MAIN = {"3": "kafka.tools.DumpLogSegments", "4": "org.apache.kafka.tools.DumpLogSegments"}
API = "org.apache.kafka.tools.api"


def both(kafka: str, path: Path, *options: str) -> tuple[str, str]:
    """What Kafka's tool and kstore's print on standard output."""
    words = ("--files", str(path), *options)
    theirs = run(kafka, _MAIN[kafka[0]], *words).stdout
    ours = subprocess.run(
        [sys.executable, "-m", "kstore", "dump-log", *words],
        capture_output=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    return theirs.decode(), ours.decode()


def test_decoder_classes(kafka: str, tmp_path: Path) -> None:
    path = write_pairs(
        tmp_path,
        [
            (struct.pack(">i", -5), struct.pack(">q", 7)),
            (None, None),
            (b"12345", b"x" * 9),
            (struct.pack(">i", 2**31 - 1), None),
        ],
    )
    packages = [API, "kafka.serializer"] if kafka[0] == "3" else [API]
    for package in packages:
        numbers = ("--key-decoder-class", f"{package}.IntegerDecoder")
        numbers = (*numbers, "--value-decoder-class", f"{package}.LongDecoder")
        for options in (
            numbers,
            numbers[:2],
            ("--print-data-log", *numbers[2:], "--skip-record-metadata"),
            ("--key-decoder-class", f"{package}.StringDecoder"),
        ):
            theirs, ours = both(kafka, path, *options)
            assert ours == theirs, options
    theirs, ours = both(kafka, path, "--key-decoder-class", "--value-decoder-class")
    assert ours == theirs
    theirs, ours = both(kafka, path, "--value-decoder-class", f"{API}.DefaultDecoder")
    assert re.sub(r"(?m)payload: [0-9a-f]+$", "payload: BYTES", ours) == re.sub(
        r"(?m)payload: \[B@[0-9a-f]+$", "payload: BYTES", theirs
    )


def test_remote_log_metadata(kafka: str, tmp_path: Path) -> None:
    program = "RemoteMetadata"
    done = subprocess.run(
        java_command(kafka, program, classes=compiled(kafka, program)),
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    if done.returncode:
        raise ToolError(done.stderr[-3000:])
    values = [b64decode(line) for line in done.stdout.split()]
    assert {value[1] for value in values} == {0, 1, 2, 3}, "of each kind"
    path = write_pairs(tmp_path, [(None, value) for value in values])
    theirs, ours = both(kafka, path, "--remote-log-metadata-decoder")
    if kafka[0] == "3":  # the field is of Kafka 4
        ours = ours.replace(", txnIdxEmpty=false", "")
    else:
        assert theirs.count("txnIdxEmpty=true") == 8
    assert ours == theirs
    assert theirs.count("payload: Remote") == len(values) == 19
