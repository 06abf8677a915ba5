"""A connection's bytes become frames, whatever the reads return."""

import random
import socket
import struct
import tracemalloc
from contextlib import ExitStack

import pytest

from kstore._native.broker.frame_cutter import READ_SIZE, FrameCutter, FrameError

LARGEST = 2**31 - 1  # an int32 holds no larger size
EDGES = [0, 1, 2, 3, 4, READ_SIZE - 5, READ_SIZE - 4, READ_SIZE - 3, READ_SIZE, READ_SIZE + 1]


class Chunks:
    """A socket that yields given chunks, cut to the size that is asked for."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)

    def recv(self, size: int, /) -> bytes:
        chunk = self.chunks.pop(0)
        if len(chunk) > size:
            self.chunks.insert(0, chunk[size:])
        return chunk[:size]

    def recv_into(self, view: memoryview, /) -> int:
        chunk = self.recv(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def key_of(body: bytes | memoryview) -> int:
    return -1 if len(body) < 2 else int.from_bytes(body[:2], "big", signed=True)


def split(stream: bytes, largest: int) -> tuple[list[bytes], bool]:
    """The complete frames of a stream, up to a size that is refused, and whether one is."""
    found: list[bytes] = []
    position = 0
    while position + 4 <= len(stream):
        size = int.from_bytes(stream[position : position + 4], "big", signed=True)
        if size < 0 or size > largest:
            return found, True
        if position + 4 + size > len(stream):
            break
        found.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return found, False


def cut_in_chunks(stream: bytes, largest: int, chance: random.Random) -> tuple[list[bytes], bool]:
    """The same by a FrameCutter whose reads return random numbers of bytes."""
    cutter, came, done, position = FrameCutter(largest), 0, 0, 0
    found: list[bytes] = []
    reach = chance.choice((1, 7, 1000, READ_SIZE, 4 * READ_SIZE)) if len(stream) < 5000 else 200_000
    while position < len(stream):
        chunk = stream[position : position + chance.randint(1, reach)]
        position += len(chunk)
        source = Chunks(chunk)
        while source.chunks:
            if chance.random() < 0.3 and not cutter.is_long:
                taken = cutter.take()
                assert taken == stream[done:came]
                assert cutter.buffered == 0
                cutter.put(taken)
            count = cutter.receive(source)
            came += count
            assert 0 < count <= READ_SIZE or cutter.is_long
            try:
                for body in iter(lambda: _next(cutter), None):
                    found.append(body)
                    done += 4 + len(body)
                    assert cutter.buffered == came - done
            except FrameError:
                return found, True
            assert cutter.buffered == came - done
            assert cutter.has_partial_frame == (came > done)
    return found, False


def _next(cutter: FrameCutter) -> bytes | None:
    """The next frame, if its key is the one that was announced."""
    try:
        key = cutter.next_api_key()
        frame = cutter.next_frame()
    except FrameError:
        assert key == -1
        raise
    assert key == (None if frame is None else key_of(frame))
    return None if frame is None else bytes(frame)


@pytest.mark.parametrize("seed", range(150))
def test_frames_are_those_of_their_sizes(seed: int) -> None:
    chance = random.Random(seed)
    small = [*range(6), 50, 300]
    sizes = chance.choices(small if seed % 3 else [*small, *EDGES, 100_000, 300_000], k=12)
    parts = [framed(chance.randbytes(size)) for size in sizes]
    largest = chance.choice((max(sizes), LARGEST))
    if chance.random() < 0.3:
        wrong = chance.choice((-1, -(2**31), min(largest + 1, LARGEST)))
        parts.insert(chance.randrange(len(parts)), struct.pack(">i", wrong))
    stream = b"".join(parts)
    stream = stream[: len(stream) - chance.choice((0, 0, 1, 5))]
    assert cut_in_chunks(stream, largest, chance) == split(stream, largest)


@pytest.mark.parametrize("step", [1, 3, 1000, 65_535, 65_536, 65_537, 1 << 20])
def test_frames_of_all_sizes_in_chunks_of_all_sizes(step: int) -> None:
    sizes = [0, 1, 5, 1000, 65_532, 65_533, 65_536, 200_000, 3, 0, 100_000]
    if step < 1000:
        sizes = [0, 1, 5, 70, 0, 300]
    bodies = [bytes(number + 1 for _ in range(size)) for number, size in enumerate(sizes)]
    data = b"".join(map(framed, bodies))
    source = Chunks(*(data[at : at + step] for at in range(0, len(data), step)))
    cutter = FrameCutter(1 << 20)
    found: list[memoryview] = []
    came = 0
    while source.chunks:
        came += cutter.receive(source)
        while (key := cutter.next_api_key()) is not None or cutter.buffered:
            cut = cutter.next_frame()
            if cut is None:
                assert key is None
                break
            assert key == key_of(cut)
            found.append(cut)
        assert came == sum(len(each) + 4 for each in found) + cutter.buffered
    assert [bytes(each) for each in found] == bodies


def test_small_frames_are_slices_of_one_read() -> None:
    data = framed(b"first") + framed(b"second")
    cutter = FrameCutter(100)
    cutter.receive(Chunks(data))
    frames = [cutter.next_frame(), cutter.next_frame()]
    assert all(frame is not None and frame.obj is data for frame in frames)
    assert cutter.next_frame() is None


@pytest.mark.parametrize("claimed", [1 << 30, LARGEST])
def test_a_buffer_grows_only_with_the_bytes_that_arrive(claimed: int) -> None:
    cutter = FrameCutter(LARGEST)
    source = Chunks(struct.pack(">i", claimed) + bytes(100), bytes(50_000), b"")
    tracemalloc.start()
    try:
        for _ in range(2):
            cutter.receive(source)
            assert cutter.next_api_key() is None
            assert cutter.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cutter.is_long
    assert peak <= 4 * READ_SIZE


def test_a_long_buffer_doubles() -> None:
    asked: list[int] = []

    class Noting(Chunks):
        def recv_into(self, view: memoryview, /) -> int:
            asked.append(len(view))
            return super().recv_into(view)

    cutter = FrameCutter(LARGEST)
    source = Noting(framed(bytes(1 << 20)))
    while source.chunks:
        cutter.receive(source)
        frame = cutter.next_frame()
    assert frame is not None
    assert len(frame) == 1 << 20
    assert asked == [READ_SIZE << n for n in range(4)] + [4]


@pytest.mark.parametrize("size", [-5, -(2**31), 101, LARGEST])
def test_a_wrong_size_is_refused_before_the_body_arrives(size: int) -> None:
    cutter = FrameCutter(100)
    cutter.receive(Chunks(struct.pack(">i", size)))
    assert cutter.next_api_key() == -1
    for _ in range(2):
        with pytest.raises(FrameError, match=rf"^a request of {size} bytes; .* is 100$"):
            cutter.next_frame()


def test_a_limit_holds_for_the_next_frame() -> None:
    cutter = FrameCutter(LARGEST)
    cutter.receive(Chunks(framed(bytes(10)) * 3))
    assert _next(cutter) == bytes(10)
    cutter.allow(9)
    with pytest.raises(FrameError):
        cutter.next_frame()
    cutter.allow(10)
    assert _next(cutter) == bytes(10)


@pytest.mark.parametrize("body", [b"short", bytes(100_000)], ids=["small", "long"])
def test_errors_of_a_socket_lose_no_bytes(body: bytes) -> None:
    with ExitStack() as stack:
        client, served = map(stack.enter_context, socket.socketpair())
        served.setblocking(False)
        cutter, sent = FrameCutter(LARGEST), framed(body)
        client.sendall(sent[:-1])
        while cutter.buffered < len(sent) - 1:
            cutter.receive(served)
            assert cutter.next_frame() is None
        assert cutter.is_long == (len(body) > READ_SIZE)
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                cutter.receive(served)
        assert cutter.buffered == len(sent) - 1
        client.sendall(sent[-1:])
        assert cutter.receive(served) == 1
        assert _next(cutter) == body
        client.close()
        assert cutter.receive(served) == 0
        served.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            cutter.receive(served)


def test_a_lost_connection_is_the_error_of_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        served = stack.enter_context(server.accept()[0])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionResetError):
            FrameCutter(100).receive(served)


@pytest.mark.parametrize("count", [-1, READ_SIZE + 1, 2**62])
def test_a_transport_that_returns_a_wrong_count_is_an_error(count: int) -> None:
    class Lying(Chunks):
        def recv_into(self, view: memoryview, /) -> int:
            return count

    cutter, source = FrameCutter(LARGEST), Lying(framed(bytes(READ_SIZE * 2)))
    cutter.receive(source)
    assert cutter.next_frame() is None
    with pytest.raises(ValueError, match=f"a transport returned {count} bytes"):
        cutter.receive(source)
    assert cutter.buffered == READ_SIZE


def test_put_begins_at_its_first_byte() -> None:
    cutter = FrameCutter(100)
    cutter.receive(Chunks(framed(b"one") * 2))
    cutter.next_frame()
    cutter.put(framed(b"x"))
    assert cutter.buffered == 5
    assert _next(cutter) == b"x"
    assert (cutter.buffered, cutter.next_frame(), cutter.take()) == (0, None, b"")
