"""How much one turn sends, and in how many calls."""

import mmap
import os
import socket
from typing import Any

import pytest

from kstore.broker.send_queue import (
    SEND_LIMIT,
    CopyingSendQueue,
    SendQueue,
    is_local,
    send_queue_for,
    shown_address,
)


class FileSlice:
    """A slice of a segment that a socket takes completely; it notes each sendfile."""

    path = "0.log"

    def __init__(self, size: int, resident: int | None = None) -> None:
        self.size = size
        self.resident = size if resident is None else resident
        self.sent: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.size

    def send_to(self, fd: int, start: int, count: int) -> int:
        self.sent.append((start, count))
        return count

    def is_resident(self, start: int, count: int) -> bool:
        return start + count <= self.resident


class Wire:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.flags: list[int] = []

    def fileno(self) -> int:
        return 5

    def send(self, data: bytes, flags: int = 0) -> int:
        self.flags.append(flags)
        return len(data)

    def sendmsg(self, buffers: list[bytes], _: tuple[()], flags: int) -> int:
        self.flags.append(flags)
        return sum(map(len, buffers))


WIRE: Any = Wire()


def queue_of(*chunks: Any) -> SendQueue:
    queue = SendQueue()
    queue.add(chunks, sum(map(len, chunks)))
    return queue


def test_the_head_of_an_answer_does_not_count_against_the_limit_of_files() -> None:
    records = FileSlice(SEND_LIMIT)
    queue = queue_of(b"h" * 81, records)
    assert queue.send(WIRE) == 81 + SEND_LIMIT
    assert records.sent == [(0, SEND_LIMIT)]
    assert queue.size == 0


def test_a_turn_sends_at_most_the_limit_from_files() -> None:
    first, second = FileSlice(SEND_LIMIT - 10), FileSlice(SEND_LIMIT)
    queue = queue_of(b"head", first, b"between", second)
    assert queue.send(WIRE) == 11 + SEND_LIMIT
    assert second.sent == [(0, 10)]
    assert queue.send(WIRE) == SEND_LIMIT - 10
    assert queue.size == 0


def test_a_later_turn_leaves_pages_that_are_not_in_memory_to_another_thread() -> None:
    records = FileSlice(3 * SEND_LIMIT, resident=2 * SEND_LIMIT)
    queue = queue_of(b"head", records)
    for turn in range(2):
        queue.send(WIRE)
        assert records.sent[turn:] == [(turn * SEND_LIMIT, SEND_LIMIT)]
    assert queue.send(WIRE) == 0
    assert queue.cold == (records, 2 * SEND_LIMIT, SEND_LIMIT)


def test_a_turn_sends_about_the_limit_from_memory() -> None:
    queue = queue_of(*[bytes(1000)] * 4000)
    sent = queue.send(WIRE)
    assert SEND_LIMIT <= sent <= SEND_LIMIT + 256 * 1000  # buffers of one sendmsg


# --- to clients on this machine -----------------------------------------------------------------


class MappedSlice(mmap.mmap):
    """A slice of a segment whose bytes are in memory up to ``resident``."""

    path = "0.log"
    resident = 1 << 40

    def send_to(self, fd: int, start: int, count: int) -> int:
        raise AssertionError("no sendfile to this machine")

    def is_resident(self, start: int, count: int) -> bool:
        return start + count <= self.resident


def mapped(size: int, resident: int = 1 << 40) -> MappedSlice:
    found = MappedSlice(-1, size)
    found.resident = resident
    return found


def copying_queue_of(*chunks: Any) -> CopyingSendQueue:
    queue = CopyingSendQueue()
    queue.add(chunks, sum(map(len, chunks)))
    return queue


def test_an_answer_to_this_machine_leaves_by_one_call() -> None:
    wire: Any = CountingWire()
    queue = copying_queue_of(b"h" * 81, mapped(SEND_LIMIT), b"end")
    assert queue.send(wire) == 84 + SEND_LIMIT
    assert wire.calls == [[81, SEND_LIMIT, 3]]
    assert (queue.size, queue.cold) == (0, None)


def test_a_full_socket_does_not_cut_the_end_of_an_answer() -> None:
    """The head counts as memory in the first of two calls, too."""
    wire: Any = CountingWire()
    wire.room = [SEND_LIMIT - 900]
    queue = copying_queue_of(b"h" * 81, mapped(SEND_LIMIT), b"end")
    assert queue.send(wire) == 84 + SEND_LIMIT
    assert wire.calls == [[81, SEND_LIMIT, 3], [981, 3]]


def test_a_turn_copies_at_most_the_limit_from_files() -> None:
    wire: Any = CountingWire()
    queue = copying_queue_of(b"head", mapped(SEND_LIMIT - 10), b"between", mapped(SEND_LIMIT))
    assert queue.send(wire) == 11 + SEND_LIMIT
    assert queue.send(wire) == SEND_LIMIT - 10
    assert wire.calls == [[4, SEND_LIMIT - 10, 7, 10], [SEND_LIMIT - 10]]
    assert queue.size == 0


def test_a_later_turn_does_not_copy_pages_that_are_not_in_memory() -> None:
    wire: Any = CountingWire()
    records = mapped(3 * SEND_LIMIT, resident=2 * SEND_LIMIT)
    queue = copying_queue_of(b"head", records)
    assert [queue.send(wire) for _ in range(3)] == [4 + SEND_LIMIT, SEND_LIMIT, 0]
    assert queue.cold == (records, 2 * SEND_LIMIT, SEND_LIMIT)
    queue.is_fresh = True  # loaded
    assert queue.send(wire) == SEND_LIMIT
    assert (queue.size, queue.cold) == (0, None)


def test_what_precedes_cold_pages_is_sent() -> None:
    wire: Any = CountingWire()
    queue = copying_queue_of(mapped(SEND_LIMIT + 1))
    cold = mapped(10, resident=0)
    queue.add([b"head", cold], 14)
    assert queue.send(wire) == SEND_LIMIT
    assert queue.send(wire) == 5
    assert queue.cold == (cold, 0, 10)


def test_bytes_arrive_in_order_at_a_socket_that_takes_part_of_them() -> None:
    contents = os.urandom(3_000_000)
    records = mapped(len(contents))
    records[:] = contents
    queue = copying_queue_of(b"head", records, b"end")
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.setblocking(False)
        found = bytearray()
        while len(found) < len(contents) + 7:
            queue.send(sender)
            found += receiver.recv(1 << 20)
    assert found == b"head" + contents + b"end"


def test_only_a_client_on_this_machine_gets_copies() -> None:
    with (
        socket.create_server(("127.0.0.9", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        accepted, peer = server.accept()
        with accepted:
            assert type(send_queue_for(accepted, peer[0])) is CopyingSendQueue
            assert type(send_queue_for(accepted, "::1")) is CopyingSendQueue
            assert type(send_queue_for(accepted, "192.0.2.7")) is SendQueue


def test_a_socket_of_both_protocols_knows_a_client_on_this_machine() -> None:
    class Accepted(socket.socket):
        def getsockname(self) -> tuple[str, int, int, int]:
            return "::ffff:192.0.2.7", 9092, 0, 0

    with Accepted() as accepted:
        assert is_local(accepted, "192.0.2.7")
        assert not is_local(accepted, "192.0.2.8")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("::ffff:0:102:304", "::ffff:0:102:304"),
        ("64:ff9b::192.0.2.7", "64:ff9b::192.0.2.7"),
    ],
)
def test_only_mapped_addresses_are_shown_as_ipv4(address: str, shown: str) -> None:
    assert shown_address(address) == shown


class CountingWire(Wire):
    """A socket that notes the sizes of the buffers of each call; takes all but for ``room``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[int]] = []
        self.room: list[int] = []  # what the first calls take

    def send(self, data: bytes, flags: int = 0) -> int:
        self.calls.append([len(data)])
        return len(data)

    def sendmsg(self, buffers: list[bytes], *_: Any) -> int:
        self.calls.append([len(each) for each in buffers])
        return self.room.pop(0) if self.room else sum(self.calls[-1])


class PartialWire(Wire):
    """A socket that takes three bytes of a call, then nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = b""

    def send(self, data: bytes, flags: int = 0) -> int:
        if self.taken:
            raise BlockingIOError
        self.taken = bytes(data[:3])
        return 3


@pytest.mark.parametrize("kind", [SendQueue, CopyingSendQueue])
def test_the_rest_of_a_short_answer_stays_in_the_queue(kind: type[SendQueue]) -> None:
    queue = kind()
    wire: Any = PartialWire()
    queue.add_frame(b"abcdefgh")
    assert (queue.send(wire), queue.size) == (3, 5)
    assert (queue.send(wire), queue.size) == (0, 5)
    wire.taken = b""
    assert (queue.send(wire), queue.size) == (3, 2)
    assert wire.taken == b"def"


@pytest.mark.parametrize("kind", [SendQueue, CopyingSendQueue])
def test_a_short_answer_that_a_socket_does_not_take_stays(kind: type[SendQueue]) -> None:
    queue = kind()
    wire: Any = PartialWire()
    wire.taken = b"x"
    queue.add_frame(b"abcdefgh")
    assert (queue.send(wire), queue.size) == (0, 8)
