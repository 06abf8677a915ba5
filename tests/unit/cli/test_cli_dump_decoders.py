"""dump-log with Kafka's decoder classes, and the records of __remote_log_metadata."""

import struct
from pathlib import Path

import pytest

from kstore.cli import main
from support.segments import write_pairs

API = "org.apache.kafka.tools.api"
STRING = f"{API}.StringDecoder"
UUID = bytes(range(16))
UUID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def records(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    pairs: list[tuple[bytes | None, bytes | None]],
    *options: str,
) -> list[str]:
    """The lines that dump-log prints after those of the batch."""
    path = write_pairs(tmp_path, pairs)
    assert main(["dump-log", "--files", str(path), *options]) == 0
    return capfdbinary.readouterr().out.decode().splitlines()[1:]


def test_numbers(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pairs = [(struct.pack(">i", -5), struct.pack(">q", 7)), (None, None), (b"123", b"123456789")]
    options = ("--key-decoder-class", f"{API}.IntegerDecoder", "--value-decoder-class")
    lines = records(tmp_path, capfdbinary, pairs, *options, "LongDecoder")
    assert [line.partition("headerKeys: []")[2] for line in lines[2:]] == [
        " key: -5 payload: 7", "",
        " key: Error at offset 2, skipping. 3 bytes are fewer than 4. payload: 3544952156018063160",
    ]  # fmt: skip
    lines = records(tmp_path, capfdbinary, pairs[:2], *options, STRING, "--skip-record-metadata")
    assert lines[2:] == ["| key: -5 payload: \0\0\0\0\0\0\0\7", ""]


def test_the_older_package(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    options = ("--value-decoder-class", "kafka.serializer.DefaultDecoder", "--key-decoder-class")
    lines = records(tmp_path, capfdbinary, [(b"k\xff", b"\0\xff")], *options)
    assert lines[:2] == [
        f"kafka.serializer.DefaultDecoder is deprecated. Please use {API}.DefaultDecoder instead",
        "Log starting offset: 0",
    ]
    assert lines[3].endswith(" key: k\ufffd payload: 00ff")


def test_decoders_of_topics_take_precedence(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    options = ("--offsets-decoder", "--value-decoder-class", "kafka.serializer.LongDecoder")
    lines = records(tmp_path, capfdbinary, [(b"\0\x7f", b"")], *options)
    assert lines[0] == "Log starting offset: 0"
    assert lines[2].endswith(" key: Unknown record type 127 at offset 0, skipping.")


@pytest.mark.parametrize("name", ["com.example.StringDecoder", "FloatDecoder", f"{API}.", "x"])
def test_other_classes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"")
    assert main(["dump-log", "--files", str(path), "--key-decoder-class", name]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{name}: kstore runs no Java classes; of {API} it has its own String")


def test_remote_log_metadata(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    partition = b"\2t" + UUID + struct.pack(">i", 3) + b"\0"
    segment = partition + UUID + b"\0"
    epochs = b"\3" + struct.pack(">iq", 2, 20) + b"\0" + struct.pack(">iq", 1, 10) + b"\0"
    numbers = struct.pack(">qqiqq", 10, 99, 1, 1000, 2000)
    tail = epochs + struct.pack(">i", 512)
    values = [
        b"\1\0\0" + segment + numbers + tail + b"\0\0\0",
        b"\1\0\0" + segment + numbers + tail + b"\4abc\3" + b"\1\0\1\1",
        b"\1\1\0" + segment + struct.pack(">iq", 1, 2000) + b"\0\1\0",
        b"\1\2\0" + partition + struct.pack(">iq", 1, 2000) + b"\2\0",
        b"\1\3\0" + UUID + numbers + tail + b"\0\2\0",
        b"\1\2\0" + partition + struct.pack(">iq", 1, 2000) + b"\3\0",
        b"\1\7\0",
        b"\1\2\0",
    ]
    pairs: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
    lines = records(tmp_path, capfdbinary, [*pairs, (None, None)], "--remote-log-metadata-decoder")
    shown_partition = f"{UUID_TEXT}:t-3"
    shown_segment = f"RemoteLogSegmentId{{topicIdPartition={shown_partition}, id={UUID_TEXT}}}"
    of_segment = "segmentLeaderEpochs={1=10, 2=20}, segmentSizeInBytes=512"
    begins = f"RemoteLogSegmentMetadata{{remoteLogSegmentId={shown_segment}, startOffset=10, "
    begins += f"endOffset=99, brokerId=1, maxTimestampMs=1000, eventTimestampMs=2000, {of_segment}"
    shown = [line.partition("headerKeys: [] payload: ")[2] for line in lines[2:]]
    assert shown[:5] == [
        f"{begins}, customMetadata=Optional.empty, state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}}",
        f"{begins}, customMetadata=Optional[CustomMetadata{{3 bytes}}], "
        "state=DELETE_SEGMENT_FINISHED, txnIdxEmpty=true}",
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={shown_segment}, "
        "customMetadata=Optional.empty, state=COPY_SEGMENT_FINISHED, eventTimestampMs=2000, "
        "brokerId=1}",
        f"RemotePartitionDeleteMetadata{{topicPartition={shown_partition}, "
        "state=DELETE_PARTITION_FINISHED, eventTimestampMs=2000, brokerId=1}",
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={UUID_TEXT}, startOffset=10, endOffset=99, "
        f"maxTimestampMs=1000, {of_segment}, customMetadata=Optional.empty, "
        "state=DELETE_SEGMENT_STARTED, txnIdxEmpty=false}",
    ]
    assert [text.partition(". ")[0] for text in shown[5:]] == [
        f"Error at offset {offset}, skipping" for offset in range(5, 9)
    ]
