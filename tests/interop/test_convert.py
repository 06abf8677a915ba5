"""Conversions between message formats against Kafka's own, on Kafka's files and on ours."""

import gzip
import subprocess

import cramjam
import pytest

from interop.dump import dump_log
from interop.kafka_jars import ToolError, compiled, java_command
from kafka_files.data_sets import BROKER_SETS, BrokerSet, unpack
from kstore.record.format_conversion import convert, down_convert, rebuild
from oracle import writer
from oracle.convert import unpacked
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainRecord
from oracle.reader import read_log

T = 1_700_000_000_000
OLD_SETS = [name for name in BROKER_SETS if name.startswith("zk-")]


def ask(version, program, lines):
    """Give one of the Java programs its commands; its answers, one a command."""
    done = subprocess.run(
        java_command(version, program, classes=compiled(version, program)),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=150,
    )
    if done.returncode:
        raise ToolError(f"{program}: {done.stderr[-3000:]}")
    answers = done.stdout.split()
    assert len(answers) == len(lines), done.stderr[-3000:]
    return answers


def records(first=100, step=1, count=9, headers=True):
    return [
        PlainRecord(
            first + n * step,
            T + (n * 7) % 5,
            (None, b"", b"key")[n % 3],
            (b"value" * n, None, b"")[n % 3],
            (("h", b"1"), ("none", None)) if headers and n % 2 else (),
        )
        for n in range(count)
    ]


def batches_v2():
    """Batches of every kind, one after another."""
    batches = []
    for codec in range(4):
        for kind, when in ((CREATE_TIME, None), (LOG_APPEND_TIME, T + 77)):
            batches.append(
                writer.batch(records(), codec=codec, timestamp_type=kind, max_timestamp=when)
            )
    batches += [
        writer.batch(records(200, 3), codec=1, base_offset=190, last_offset=300, leader_epoch=4),
        writer.batch(records(200, 3), base_offset=190, last_offset=300, leader_epoch=4),
        writer.batch(records(), producer_id=9, producer_epoch=1, base_sequence=5),
        writer.batch(
            records(),
            codec=2,
            producer_id=9,
            producer_epoch=1,
            base_sequence=5,
            transactional=True,
        ),
        writer.marker(110, 1, timestamp=T, producer_id=9, producer_epoch=1),
        writer.batch([], base_offset=400, last_offset=409, max_timestamp=T),
        writer.batch(records(), base_timestamp=T + 86_401_000, delete_horizon=True),
        writer.batch([PlainRecord(7, -1, None, b"no time")]),
        writer.batch([PlainRecord(7, -1, None, b"no time")], codec=3),
    ]
    return batches


def batches_legacy():
    batches = []
    for magic in (0, 1):
        for kind in (CREATE_TIME, LOG_APPEND_TIME)[: 1 + magic]:
            plain = records(headers=False)
            if kind == LOG_APPEND_TIME:
                plain = [record._replace(timestamp=T + 77) for record in plain]
            batches.append(
                b"".join(
                    writer.message(
                        r.offset,
                        r.key,
                        r.value,
                        magic=magic,
                        timestamp=r.timestamp,
                        timestamp_type=kind,
                    )
                    for r in plain
                )
            )
            for codec in (1, 2, 3):
                for first in (100, 0):
                    wrapped = records(first, 2, headers=False)
                    batches.append(
                        writer.wrapper(
                            wrapped,
                            magic=magic,
                            codec=codec,
                            timestamp_type=kind,
                            timestamp=T + 77 if kind == LOG_APPEND_TIME else None,
                        )
                    )
        batches.append(
            writer.wrapper(records(50, headers=False), magic=magic, codec=1, first_relative=6)
        )
    return batches


def batches_mixed():
    """KAFKA-4298: messages of another magic inside; and snappy without any framing."""
    batches = []
    for magic, inner, kind in ((1, 0, CREATE_TIME), (1, 0, LOG_APPEND_TIME), (0, 1, CREATE_TIME)):
        first = 100 if magic == 0 else 0
        data = b"".join(
            writer.message(first + n, b"k", b"v", magic=inner, timestamp=T + n) for n in range(3)
        )
        for codec, packed in ((1, gzip.compress(data)), (2, cramjam.snappy.compress_raw(data))):
            batches.append(
                writer.message(
                    102,
                    None,
                    bytes(packed),
                    magic=magic,
                    timestamp=T + 9,
                    timestamp_type=kind,
                    codec=codec,
                )
            )
    return batches


def segments(tmp_path, names):
    """The log files of the made sets, by a name of their own."""
    for name in names:
        broker_set = BrokerSet(name, unpack(f"made-{name}", tmp_path / name))
        for path in sorted(broker_set.log_dir.glob("*/*.log")):
            if path.stat().st_size:
                yield f"{name}-{path.parent.name}-{path.stem}", path.read_bytes()


def assert_same(ours, kafkas, name):
    """Byte for byte, but for what depends on the compressor."""
    assert list(unpacked(ours)) == list(unpacked(kafkas)), name


def inputs(tmp_path):
    found = [(f"v2-{n}", data) for n, data in enumerate(batches_v2())]
    found += [(f"legacy-{n}", data) for n, data in enumerate(batches_legacy())]
    found += [(f"mixed-{n}", data) for n, data in enumerate(batches_mixed())]
    found.append(("all", b"".join(data for _, data in found)))
    return found + list(segments(tmp_path, [*OLD_SETS, "kraft-3.9.2-clean"]))


def test_down_conversion(tmp_path):
    jobs, lines = [], []
    for n, (name, data) in enumerate(inputs(tmp_path)):
        source = tmp_path / f"in-{n}"
        source.write_bytes(data)
        for magic in (0, 1):
            for first_offset in (0, 104):
                target = tmp_path / f"out-{n}-{magic}-{first_offset}"
                lines.append(f"down {magic} {first_offset} {source} {target}")
                jobs.append((name, data, magic, first_offset, target))
    assert len(jobs) > 400
    converted = refused = 0
    for answer, (name, data, magic, first_offset, target) in zip(
        ask("3.9.2", "DownConvert", lines), jobs, strict=True
    ):
        if answer == "ok":
            ours = down_convert(data, magic, first_offset=first_offset)
            assert_same(ours, target.read_bytes(), name)
            converted += 1
        else:
            assert answer == "UnsupportedCompressionTypeException", name
            with pytest.raises(ValueError, match="zstd"):
                down_convert(data, magic, first_offset=first_offset)
            refused += 1
    assert refused > 0
    assert converted > 20 * refused


def test_up_conversion(tmp_path):
    jobs, lines = [], []
    for n, (name, log_bytes) in enumerate(inputs(tmp_path)):
        # v2 is cleaned there as well, which is not what is compared here.
        data = b"".join(
            log_bytes[batch.position : batch.position + batch.size]
            for batch in read_log(log_bytes, decode=False).batches
            if batch.magic < 2
        )
        source, target = tmp_path / f"in-{n}", tmp_path / f"out-{n}"
        source.write_bytes(data)
        lines.append(f"{source} {target}")
        jobs.append((name, data, target))
    compared = 0
    for answer, (name, data, target) in zip(ask("4.3.0", "UpConvert", lines), jobs, strict=True):
        assert answer == "ok", name
        ours, kafkas = list(unpacked(convert(data, 2))), list(unpacked(target.read_bytes()))
        for n, (batch, _) in enumerate(kafkas):
            if batch.delete_horizon is not None:
                # The cleaner notes in a batch with a tombstone when that may go: not our work.
                base = ours[n][0].base_timestamp
                batch = batch._replace(attributes=batch.attributes & ~0x40, base_timestamp=base)
                kafkas[n] = (batch, ours[n][1])
        assert ours == kafkas, name
        compared += len(kafkas)
    assert compared > 1500


def test_rebuilding_as_a_leader(tmp_path):
    sources = [("v2", writer.batch(records(0, headers=False), producer_id=-1))]
    sources += [
        (f"v2-headers-{codec}", writer.batch(records(0), codec=codec)) for codec in range(3)
    ]
    sources.append(
        (
            "v2-idempotent",
            writer.batch(
                records(0, headers=False), producer_id=9, producer_epoch=0, base_sequence=3
            ),
        )
    )
    sources.append(
        (
            "v2-transaction",
            writer.batch(
                records(0, headers=False),
                producer_id=9,
                producer_epoch=0,
                base_sequence=3,
                transactional=True,
            ),
        )
    )
    sources += [
        (f"legacy-{n}", data)
        for n, data in enumerate(batches_legacy())
        # LogAppendTime is not a client's to say: a leader refuses it
        if read_log(data).batches[0].timestamp_type != LOG_APPEND_TIME
    ]
    jobs, lines = [], []
    for n, (name, data) in enumerate(sources):
        source = tmp_path / f"in-{n}"
        source.write_bytes(data)
        for magic in (0, 1, 2):
            for compression in ("none", "gzip", "lz4"):
                for append_time in (-1, T + 1234):
                    target = tmp_path / f"out-{len(jobs)}"
                    lines.append(
                        f"rebuild {magic} 5000 {compression} {append_time} 8 {source} {target}"
                    )
                    jobs.append((name, data, magic, compression, append_time, target))
    counts = {}
    for answer, (name, data, magic, compression, append_time, target) in zip(
        ask("3.9.2", "DownConvert", lines), jobs, strict=True
    ):
        counts[answer] = counts.get(answer, 0) + 1

        def ours(data=data, magic=magic, compression=compression, append_time=append_time):
            return rebuild(
                data,
                magic,
                base_offset=5000,
                compression=compression,
                log_append_time=None if append_time < 0 else append_time,
                leader_epoch=8,
            )

        if answer == "ok":
            theirs = target.read_bytes()
            if magic < 2 or compression != "none" or data[16] != 2:
                assert_same(ours(), theirs, name)
        else:
            with pytest.raises(ValueError, match="cannot"):
                ours()
    assert counts["ok"] > 100
    assert set(counts) <= {"ok", "UnsupportedForMessageFormatException", "IllegalArgumentException"}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_kafka_dumps_what_was_converted(tmp_path, kafka, magic):
    data = b"".join(
        writer.batch(
            records(9 * n),
            codec=n % 4,
            timestamp_type=LOG_APPEND_TIME if n > 3 else CREATE_TIME,
            max_timestamp=T + 77,
        )
        for n in range(8)
    )
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(convert(data, magic))
    dump = dump_log(kafka, [path], "--deep-iteration")
    (found,) = dump.files.values()
    assert not dump.complaints.strip()
    assert [record.offset for record in found.records] == list(range(72))
    if magic == 2:
        assert len(found.batches) == 8
        assert all(batch.valid for batch in found.batches)
    else:
        tops = [line for line in found.lines if f" magic: {magic} " in line]
        assert len(tops) == 2 * 9 + 6
        assert all(" isvalid: true " in line + " " for line in tops)
