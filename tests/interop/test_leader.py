"""What a leader makes of what clients send: Kafka's own log and ours, append by append."""

import base64
import itertools
import re
from pathlib import Path

import pytest

from interop.dump import dump_log
from interop.kafka_jars import ask_segments
from kstore.config import CODECS, LogConfig
from kstore.errors import KStoreError
from oracle.convert import unpacked
from support.client_batches import NOT_OLD, NOW, ODD, WRONG, rows, sent
from support.logs import log_bytes, open_log

T = NOW + 1000
# Where Kafka's broker stumbles (UNKNOWN_SERVER_ERROR, -1, to the client) kstore says what is wrong.
STUMBLES = {"IllegalArgumentException", "KafkaException"}
SAID = {
    f"error {code}"
    for code in (
        2,  # CORRUPT_MESSAGE
        32,  # INVALID_TIMESTAMP
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
    )
}


def inputs() -> dict[str, bytes]:
    found = {
        f"v{magic} codec {codec} of {count}": sent(magic, codec, rows(count))
        for magic, codec, count in itertools.product((0, 1, 2), range(4), (1, 7))
    }
    return found | ODD | {f"wrong: {n}": d for n, d in (WRONG | NOT_OLD).items()}


SETTINGS = {
    f"{version}, {codec}, {kind}": {
        "message_format_version": version,
        "compression_type": codec,
        "message_timestamp_type": kind,
    }
    for version, codec, kind in itertools.product(
        ("0.9.0", "0.10.2", "3.0"),
        ("producer", "uncompressed", "gzip", "lz4"),
        ("CreateTime", "LogAppendTime"),
    )
}
for _version in ("0.9.0", "0.10.2", "3.0"):
    _base = {"message_format_version": _version}
    SETTINGS |= {
        f"{_version}, compacted": _base | {"cleanup_policy": "compact"},
        f"{_version}, small": _base | {"max_message_bytes": 1200},
        f"{_version}, small segments": _base | {"segment_bytes": 1200},
        f"{_version}, strict": _base
        | {
            "message_timestamp_before_max_ms": 3_600_000,
            "message_timestamp_after_max_ms": 3_600_000,
            "cleanup_policy": "compact",
        },
    }
SETTINGS["zstd"] = {"message_format_version": "0.10.2", "compression_type": "zstd"}


def properties(settings: dict[str, object]) -> str:
    return ";".join(f"{name.replace('_', '.')}={value}" for name, value in settings.items())


def test_kafkas_leader_and_ours_agree_on_everything(tmp_path: Path) -> None:
    lines = []
    for n, settings in enumerate(SETTINGS.values()):
        lines.append(f"open {tmp_path}/kafka-{n}/t-0 {properties(settings)}")
        lines += [f"append {T} {base64.b64encode(data).decode()}" for data in inputs().values()]
    answers = iter(ask_segments("3.9.2", lines)[0])
    differences, refused, taken, stumbled = [], 0, 0, set()
    for n, (name, settings) in enumerate(SETTINGS.items()):
        assert next(answers) == "0;0;0", name
        log = open_log(tmp_path / f"ours-{n}" / "t-0", clock=lambda: T, **settings)
        end = 0
        for what, data in inputs().items():
            answer = next(answers)
            if answer.startswith("error:"):
                refused += 1
                _, code, why = answer.split(":")
                kafkas = {f"error {code}"}
                if code == "-1":
                    stumbled.add(why)
                    kafkas = SAID
            else:
                taken += 1
                end, before = int(answer.rsplit(";")[-1]), end
                kafkas = {f"{end - before} records"}
            try:
                info = log.append_as_leader(data)
                ours = f"{info.last_offset - info.first_offset + 1 if info.size else 0} records"
            except KStoreError as error:
                ours = f"error {error.code}"
            if ours not in kafkas:
                differences.append((name, what, answer, ours))
        log.close()
        kafkas_log = log_bytes(tmp_path / f"kafka-{n}" / "t-0")
        ours_log = log_bytes(tmp_path / f"ours-{n}" / "t-0")
        both = zip(unpacked(kafkas_log), unpacked(ours_log), strict=False)
        differences += [(name, "batch", k, o) for k, o in both if k != o][:1]
        if [b for b, _ in unpacked(kafkas_log)] != [b for b, _ in unpacked(ours_log)]:
            differences.append((name, "batches of the log"))
    assert not differences, "\n".join(" | ".join(map(str, each)) for each in differences)
    assert stumbled == STUMBLES
    assert refused > 500
    assert taken > 1000


@pytest.mark.parametrize("versions", [("0.9.0",), ("0.10.2",), ("0.9.0", "3.0", "0.10.2", "0.8.2")])
def test_kafka_dumps_our_old_formats(tmp_path: Path, kafka: str, versions: tuple[str, ...]) -> None:
    """Batches, indexes, time indexes: Kafka's tool has nothing to say against any of them."""
    log = open_log(tmp_path / "t-0", clock=lambda: T)
    for version, codec in itertools.product(versions, ("none", "gzip", "snappy", "lz4")):
        log.configure(
            LogConfig(
                message_format_version=version,
                batch_compression=codec,
                segment_bytes=4000,
                index_interval_bytes=100,
            )
        )
        log.extend([b"value %d" % n * 9 for n in range(20)], timestamp=T)
        for magic in (0, 1, 2):
            log.append_as_leader(sent(magic, CODECS.index(codec), rows(9)))
    end = log.end_offset
    log.close()
    logs = sorted((tmp_path / "t-0").glob("*.log"))
    dump = dump_log(kafka, logs, "--deep-iteration")
    said = [line for line in dump.complaints.splitlines() if "Non-consecutive" not in line]
    # What the tool says of every segment but the first, Kafka's own too.
    assert set(said) <= {f"  -1 is followed by {int(path.stem)}" for path in logs}
    assert "isvalid: false" not in str(dump).lower()
    offsets = [
        int(found)
        for file in dump.files.values()
        for line in file.lines
        for found in re.findall(r"^(?:\| )?offset: (\d+)", line)
    ] + [r.offset for file in dump.files.values() for r in file.records]
    assert set(offsets) >= set(range(end))
    indexes = sorted([*(tmp_path / "t-0").glob("*.index"), *(tmp_path / "t-0").glob("*.timeindex")])
    checked = dump_log(kafka, indexes, "--verify-index-only")
    assert not checked.complaints.strip()
