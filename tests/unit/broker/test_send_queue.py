"""How much one turn sends, and in how many calls."""

from typing import Any

from kstore.broker.send_queue import SEND_LIMIT, SendQueue


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
