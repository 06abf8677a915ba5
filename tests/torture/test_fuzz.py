"""Every decoder on mutated bytes: records or a typed error, never anything else.

Mutations of valid inputs, from a seed: flips, cuts, copied and overwritten runs, and numbers
that decoders like least, in places where lengths stand. A short fixed run in the suite;
``KSTORE_FUZZ_SECONDS`` makes it long and random (``SEED=`` repeats one).
"""

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kstore._native.append.validate_batch import validate_leader
from kstore._native.broker import fetch_frame, produce_frame, transaction_frames
from kstore._native.broker.frame_cutter import FrameCutter, FrameError
from kstore._native.broker.produce_turn import ProduceTurn
from kstore._native.format.batch_scan import scan, walk_frames
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore._native.read.decode import Scanner
from kstore._native.read.segment_end import find_end, find_time
from kstore._native.read.segment_view import find_batch_reaching
from kstore._native.recovery.segment_scan import SegmentScan
from kstore.checkpoint import meta_properties, offset_checkpoint, partition_metadata, topics_file
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.coordinator.group import offset_records
from kstore.errors import KStoreError
from kstore.producer_state import snapshot
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import RequestHeader
from kstore.protocol.wire import Reader
from kstore.record import codec
from kstore.record.scan import scan_records
from kstore.segment import transaction_index
from oracle import codec as plain_codec
from oracle import writer as oracle
from oracle.crc import crc32, crc32c
from oracle.plain import PlainRecord
from support.random_messages import RECORDS, TABLE, encoded, message_class, random_message
from support.wire_client import encode, frame

SECONDS = float(os.environ.get("KSTORE_FUZZ_SECONDS", "0"))
SHORT_RUNS = 12_000
SEED = int(os.environ.get("SEED", str(time.time_ns() % 1_000_000 if SECONDS else 1)))
MESSAGES = [*TABLE.values(), *RECORDS]
NASTY = (0, 1, -1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 2**31 - 1, -(2**31), 2**30, 2**63 - 1)

ROWS = [PlainRecord(n, 1000 + n, b"key%d" % n, b"value " * n, (("h", b"x"),)) for n in range(5)]
BARE = [row._replace(headers=()) for row in ROWS]


def log_seeds() -> list[bytes]:
    seeds = [oracle.batch(ROWS, codec=number) for number in range(5)]
    for magic in (0, 1):
        row = ROWS[3]
        seeds.append(
            oracle.message(3, row.key, row.value, magic=magic, timestamp=5 if magic else -1)
        )
        seeds += [oracle.wrapper(BARE, magic=magic, codec=number) for number in (1, 2, 3)]
    seeds.append(oracle.marker(5, 1, timestamp=7, producer_id=9, producer_epoch=0))
    in_order = [
        oracle.batch([row._replace(offset=row.offset + 5 * n) for row in ROWS], codec=n)
        for n in range(3)
    ]
    return [*seeds, b"".join(in_order)]


def with_right_crc(data: bytes) -> bytes:
    """The first batch's checksum made right again, so that mutations get behind it."""
    out = bytearray(data)
    size = int.from_bytes(out[8:12], "big", signed=True)
    end = 12 + size
    if len(out) < 22 or not 18 <= end <= len(out):
        return data
    if out[16] == 2:
        out[17:21] = crc32c(bytes(out[21:end])).to_bytes(4, "big")
    else:
        out[12:16] = crc32(bytes(out[16:end])).to_bytes(4, "big")
    return bytes(out)


def mutate(random: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        kind = random.randrange(6)
        at = random.randrange(len(out)) if out else 0
        if kind == 0 and out:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1 and out:
            out[at] = random.randrange(256)
        elif kind == 2:
            size = random.choice((1, 2, 4, 8))
            number = random.choice(NASTY) & (1 << 8 * size) - 1
            out[at : at + size] = number.to_bytes(size, "big")
        elif kind == 3:
            del out[at : at + random.randrange(1, 20)]
        elif kind == 4:
            out[at:at] = out[: random.randrange(1, 40)]
        else:
            del out[random.randrange(len(out) + 1) :]
    return bytes(out)


def _records(data: bytes) -> None:
    for record in scan_records(data, control=True):
        assert record.value is None or len(record.value) <= codec.DECOMPRESSED_LIMIT


def _columns(data: bytes) -> None:
    for values_only in (False, True):
        scanner = Scanner(
            data, on_damage="skip", values_only=values_only, decompress=codec.decompress
        )
        while scanner.next_block() is not None:
            pass
        assert scanner.position <= len(data)


def _frames(data: bytes) -> None:
    table = scan(data)
    assert table.stop <= len(data)
    assert sum(table.size) <= len(data)
    assert list(memoryview(walk_frames(data))) == list(table.position)


def _recover(data: bytes) -> None:
    found = SegmentScan(0, len(data))
    found.feed(data)
    found.finish()
    assert 0 <= found.valid_size <= len(data)


def _locate(data: bytes) -> None:
    position, _, _, _ = find_end(data, 0, 0, True)
    assert 0 <= position <= len(data)
    at, size = find_batch_reaching(data, 0, 3)
    assert 0 <= at + size <= len(data)
    find_time(data, 0, 1002)


def _leader(data: bytes) -> None:
    report = validate_leader(data, now=1000)
    assert not report.ok or report.size <= len(data)


def _index(data: bytes) -> None:
    for kind, size in ((OffsetIndex, 8), (TimeIndex, 12)):
        index = kind(data[: len(data) // size * size], 100)
        assert index.count <= len(data) // size
        for target in (-1, 0, 100, 150, 2**40):
            index.lookup(target)
        index.find_fault()


def _codecs(data: bytes) -> None:
    number, magic = 1 + data[0] % 4 if data else 1, 2
    out = codec.decompress(number, magic, data[1:], limit=1 << 20)
    assert len(out) <= 1 << 20


def _checkpoints(data: bytes) -> None:
    for parse in (
        lambda: offset_checkpoint.parse_offsets(data, "f"),
        lambda: LeaderEpochs.parse(data, "f"),
        lambda: partition_metadata.parse_topic_id(data, "f"),
        lambda: meta_properties.parse_meta_properties(data, "f"),
        lambda: topics_file._topics_and_stamps(topics_file._FILE.parse(data, "f")),
        lambda: snapshot.parse(data),
        lambda: transaction_index.parse(data),
        lambda: offset_records.decode_offset_key(data),
        lambda: offset_records.decode_offset_value(data),
    ):
        try:
            parse()
        except KStoreError:
            continue


def text_seeds() -> list[bytes]:
    return [
        b"0\n2\na 0 5\nb 3 900\n",
        b"0\n2\n0 0\n3 700\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        b"#\nversion=1\nnode.id=1\ncluster.id=abc\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        b'{"version": 1, "topics": {"t": {"state": "live", "partitions": 3, "config": {}}}}',
        b"\x00\x01" + crc32c(b"\0\0\0\0").to_bytes(4, "big") + b"\0\0\0\0",
        b"\x00\x00" + b"\x00" * 32,
        offset_records.encode_offset_key(offset_records.OffsetKey("group", "topic", 3)),
    ]


class _Bytes:
    """A socket that gives what it has, at most 7,000 bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def recv(self, size: int) -> bytes:
        size = min(size, 7000)
        found, self._left = self._left[:size], self._left[size:]
        return found

    def recv_into(self, view: memoryview) -> int:
        found = self.recv(len(view))
        view[: len(found)] = found
        return len(found)


def _frame_cutter(data: bytes) -> None:
    cutter, connection = FrameCutter(1 << 20), _Bytes(data)
    came = cut = 0
    while count := cutter.receive(connection):
        came += count
        while True:
            try:
                key = cutter.next_api_key()
                frame = cutter.next_frame()
            except FrameError:
                return
            if frame is None:
                assert key in (None, -1)
                break
            assert key == (int.from_bytes(frame[:2], "big", signed=True) if len(frame) > 1 else -1)
            assert cut + 4 + len(frame) <= came
            assert bytes(frame) == data[cut + 4 : cut + 4 + len(frame)]
            cut += 4 + len(frame)
        assert cutter.buffered == came - cut


def _native_requests(data: bytes) -> None:
    frame = memoryview(data)
    produced = produce_frame.parse(frame)
    if produced is not None:
        *_, start, end = produced
        assert 0 <= start <= end <= len(data)
    fetch_frame.parse(frame, 1 << 20)
    for parse in (
        produce_frame.parse_request,
        transaction_frames.parse_add_partitions,
        transaction_frames.parse_end,
    ):
        parse(frame)


def _produce_turn(data: bytes) -> None:
    """No partition is hosted, so all received bytes must be left for the general handlers."""
    asked: list[tuple[str, int]] = []

    def find_target(topic: str, partition: int, image: object) -> None:
        asked.append((topic, partition))

    names = SimpleNamespace(get=lambda topic_id: topic_id.hex() if topic_id[0] else None)
    metadata = SimpleNamespace(image=SimpleNamespace(names_by_id=names))
    turn = ProduceTurn({}, {}, metadata, find_target, 1 << 16, 1 << 16)
    client, served = socket.socketpair()
    with client, served:
        client.setblocking(False)
        left = b""
        for at in range(0, min(len(data), 60_000), 7000):
            sent = data[at : at + 7000]
            client.sendall(sent)
            assert turn.receive(served.fileno(), left, 1 << 20) == len(sent)
            assert (turn.rest, turn.unsent, turn.handled) == (left + sent, b"", 0)
            left = turn.rest
    assert all(len(topic) <= 249 and topic.isascii() for topic, _ in asked)


def frame_seeds() -> list[bytes]:
    """Requests of Produce and Fetch as they come, and several behind each other."""
    found = []
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        message = TABLE[int(key), True]
        for version in range(message.versions.low, message.versions.high + 1):
            body = encoded(random_message(message, version, 1), version)
            found.append(frame(int(key), version, 7, body))
    for version in range(3, 14):
        partitions = [{"index": 0, "records": oracle.batch(ROWS)}]
        topic = {"name": "t", "topic_id": bytes(range(1, 17)), "partition_data": partitions}
        fields = {"acks": 1, "topic_data": [topic]}
        found.append(frame(0, version, 7, encode(0, version, fields)))
    for version in range(7, 12):
        wanted = {"partition": 0, "fetch_offset": 3, "partition_max_bytes": 1000}
        fields = {"min_bytes": 1, "topics": [{"topic": "t", "partitions": [wanted]}]}
        found.append(frame(1, version, 7, encode(1, version, fields)))
    return [*found, b"".join(found[:3]), b"".join(found), found[-1] + bytes(70_000)]


def body_seeds() -> list[bytes]:
    """The same, without the size before each."""
    return [each[4:] for each in frame_seeds()]


def _messages(data: bytes) -> None:
    """The first three bytes choose the message and its version."""
    message = MESSAGES[int.from_bytes(data[:2], "big") % len(MESSAGES)]
    low, high = message.versions.low, message.versions.high
    version = low + data[2] % (high - low + 1) if len(data) > 2 else low
    message_class(message).decode(Reader(data, min(3, len(data)), max_items=3000), version)


def message_seeds() -> list[bytes]:
    found = []
    for number, message in enumerate(MESSAGES):
        low, high = message.versions.low, message.versions.high
        for version in {low, (low + high) // 2, high}:
            head = number.to_bytes(2, "big") + bytes([version - low])
            found.append(head + encoded(random_message(message, version, 1), version))
    return found


def _header(data: bytes) -> None:
    RequestHeader.decode(Reader(data))


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "records": (_records, log_seeds),
    "columns": (_columns, log_seeds),
    "frames": (_frames, log_seeds),
    "recover": (_recover, log_seeds),
    "locate": (_locate, log_seeds),
    "leader": (_leader, log_seeds),
    "index": (_index, lambda: [bytes(range(96)), b"\0" * 48, b"\0\0\0\1\0\0\1\0" * 12]),
    "codecs": (
        _codecs,
        lambda: [
            bytes([n - 1]) + plain_codec.compress(n, b"some text " * 50, 2) for n in (1, 2, 3, 4)
        ],
    ),
    "small files": (_checkpoints, text_seeds),
    "frame cutter": (_frame_cutter, frame_seeds),
    "native requests": (_native_requests, body_seeds),
    "produce turn": (_produce_turn, frame_seeds),
    "request headers": (_header, body_seeds),
    "messages": (_messages, message_seeds),
}


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz(name: str, tmp_path: Path) -> None:
    target, seeds = TARGETS[name]
    inputs = seeds()
    for valid in inputs:
        target(valid)  # valid inputs raise nothing
    source = random.Random(f"{SEED} {name}")
    until = time.monotonic() + SECONDS
    runs = errors = 0
    while runs < SHORT_RUNS or time.monotonic() < until:
        data = mutate(source, source.choice(inputs))
        if source.random() < 0.7 and seeds is log_seeds:
            data = with_right_crc(data)
        runs += 1
        try:
            target(data)
        except KStoreError:
            errors += 1
        except BaseException:
            print(f"SEED={SEED} {name}, run {runs}: {data.hex()}")
            raise
    print(f"fuzz {name}: seed={SEED} tried={runs} refused={errors} violations=0")
    assert runs >= SHORT_RUNS
