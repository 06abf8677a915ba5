"""A signal ends a tool: input already read is appended, the store is closed cleanly."""

import fcntl
import io
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from importlib import import_module
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kstore
from kstore.cli import TOOLS, main
from kstore.signals import StopRequest, Terminated, raising_terminated

ENDINGS = [signal.SIGTERM, signal.SIGHUP]
TWO_KINDS = list(permutations([*ENDINGS, signal.SIGINT], 2))


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """Each signal has its default effect when a test begins, and its handler again afterwards."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDINGS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("orders")
    return path


def values(data: Path) -> list[bytes | None]:
    """All records of a store that was closed cleanly."""
    with kstore.open(data) as store:
        assert not store.recovery.unclean
        return [record.value for record in store["orders"][0]]


def wait_until_read(pipe: Any) -> None:
    """Return when the process at the other end has taken everything out of the pipe."""
    left = 1
    while left:
        (left,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))


def start(*words: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "kstore", *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ,
    )  # fmt: skip


# --- console-producer ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [*ENDINGS, signal.SIGINT])
def test_lines_that_were_read_are_appended_when_a_signal_ends_the_producer(
    data: Path, number: int
) -> None:
    """They wait for their batch, an hour each; the line without an end is skipped, and named."""
    waiting = ["--timeout", 3_600_000]
    process = start("console-producer", "--topic", "orders", *waiting, "--log-dir", data)
    assert process.stdin is not None
    try:
        process.stdin.write(b"one\ntwo\r\nthree\nunfinished")
        process.stdin.flush()
        wait_until_read(process.stdin)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert errors == b"the unfinished last line was not appended\n"
    assert values(data) == [b"one", b"two", b"three"]


class SignalAt:
    """Sends a signal to this process when a line is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: bytes, number: int) -> None:
        from kstore.client.producer import Producer

        send = Producer.send

        def signalled(producer: Producer, value: bytes | None, **options: Any) -> Any:
            if value == line:
                os.kill(os.getpid(), number)
            return send(producer, value, **options)

        monkeypatch.setattr(Producer, "send", signalled)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Standard input is a file with these bytes."""
    opened = []

    def type_in(text: bytes) -> None:
        path = tmp_path / "input"
        path.write_bytes(text)
        opened.append(path.open())
        monkeypatch.setattr(sys, "stdin", opened[-1])

    yield type_in
    for each in opened:
        each.close()


@pytest.mark.parametrize("number", [*ENDINGS, signal.SIGINT])
def test_lines_after_the_one_being_sent_are_appended_too(
    data: Path, typed: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    typed(b"".join(b"%d\n" % n for n in range(1000)))
    SignalAt(monkeypatch, b"500", number)
    status = main(["console-producer", "--topic", "orders", "--log-dir", str(data)])
    assert status == 128 + number
    assert values(data) == [b"%d" % n for n in range(1000)]


def test_unread_input_is_not_consumed_after_a_signal(
    data: Path, typed: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Of a file of 40 chunks only the chunk is taken that was read when the signal came."""
    typed(b"".join(b"%019d\n" % n for n in range(131_072)))
    SignalAt(monkeypatch, b"%019d" % 5000, signal.SIGTERM)
    status = main(["console-producer", "--topic", "orders", "--log-dir", str(data)])
    assert status == 143
    found = values(data)
    assert found == [b"%019d" % n for n in range(len(found))]
    assert len(found) == 2 * 65536 // 20


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\r\nb\r", b"\n\n", b"x" * 200_000 + b"\ny\n"]
)
def test_lines_are_those_of_the_input(data: Path, typed: Any, text: bytes) -> None:
    typed(text)
    assert main(["console-producer", "--topic", "orders", "--log-dir", str(data)]) == 0
    lines = [line.removesuffix(b"\n").removesuffix(b"\r") for line in io.BytesIO(text)]
    assert values(data) == lines


def test_a_closed_input_is_named(data: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["console-producer", "--topic", "orders", "--log-dir", str(data)]) == 1
    assert "standard input is closed" in capfd.readouterr().err
    assert values(data) == []


# --- the other tools ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [*ENDINGS, signal.SIGINT])
@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_closes_what_it_has_open(
    name: str, number: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = import_module(f"kstore.cli.{name.replace('-', '_')}")

    def run(arguments: Any) -> int:
        with kstore.open(data) as store:
            store["orders"].append(b"v")
            os.kill(os.getpid(), number)
        raise AssertionError("the signal ended nothing")

    monkeypatch.setattr(tool, "describe", lambda parser: None)
    monkeypatch.setattr(tool, "run", run)
    assert main([name]) == 128 + number
    assert [signal.getsignal(each) for each in ENDINGS] == [signal.SIG_DFL] * 2
    assert values(data) == [b"v"]


@pytest.mark.parametrize(("first", "second"), TWO_KINDS)
@pytest.mark.parametrize("name", ["topics", "console-producer"])
def test_a_signal_of_another_kind_does_not_interrupt_the_close(
    name: str, first: int, second: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd sends SIGTERM and SIGHUP, a wrapper that passes Ctrl-C on SIGINT and SIGTERM."""
    close = kstore.Store.close

    def signalled(store: kstore.Store) -> None:
        os.kill(os.getpid(), second)
        close(store)

    def named(store: kstore.Store, name: str) -> None:
        store["orders"].append(b"v")
        monkeypatch.setattr(kstore.Store, "close", signalled)
        os.kill(os.getpid(), first)

    monkeypatch.setattr("kstore.cli.console_producer.named_topic", named)
    monkeypatch.setattr("kstore.cli.topics.run", run_with(data, named))
    words = {"topics": ["topics", "--list"], "console-producer": [name, "--topic", "orders"]}
    assert main([*words[name], "--log-dir", str(data)]) == 128 + first
    monkeypatch.undo()
    assert [signal.getsignal(each) for each in ENDINGS] == [signal.SIG_DFL] * 2
    assert values(data) == [b"v"]


def run_with(data: Path, work: Any) -> Any:
    """A tool that does this work with an open store."""

    def run(arguments: Any) -> int:
        with kstore.open(data) as store:
            work(store, "orders")
        raise AssertionError("the signal ended nothing")

    return run


@pytest.mark.parametrize(("first", "second"), TWO_KINDS)
def test_nested_raising_terminated_raises_once(first: int, second: int) -> None:
    """``bench`` has one within that of the tool."""

    def run() -> None:
        with raising_terminated():
            try:
                with raising_terminated():
                    os.kill(os.getpid(), first)
            finally:
                os.kill(os.getpid(), second)

    with pytest.raises(KeyboardInterrupt) as raised:
        run()
    assert getattr(raised.value, "number", signal.SIGINT) == first


def test_a_second_signal_of_the_same_kind_has_its_default_effect() -> None:
    for number, default in (
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
    ):
        with raising_terminated():
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            assert signal.getsignal(number) is default


@pytest.mark.parametrize(("follow", "status"), [(True, 0), (False, 143)])
def test_a_mirror_that_follows_is_ended_by_a_signal(
    data: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, follow: bool, status: int
) -> None:
    import kstore.mirror
    from kstore.mirror import source

    class Source:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> "Source":
            return self

        def __exit__(self, *_: object) -> None: ...

    class Mirror:
        def __init__(self, store: kstore.Store, *_: object, **__: object) -> None:
            self.store = store

        def run(self, *, follow: bool) -> None:
            self.store["orders"].append(b"copied")
            os.kill(os.getpid(), signal.SIGTERM)

        def report(self) -> Any:
            return SimpleNamespace(ok=True)

    monkeypatch.setattr(source, "KafkaSource", Source)
    monkeypatch.setattr(kstore.mirror, "Mirror", Mirror)
    words = ["mirror", "--bootstrap-server", "b:1", "--topic", "orders", "--log-dir", str(data)]
    monkeypatch.setattr("kstore.cli.mirror.print_report", lambda report: print("report"))
    assert main([*words, *["--follow"] * follow]) == status
    assert capfd.readouterr().out == "report\n"
    assert values(data) == [b"copied"]


@pytest.mark.parametrize("number", [*ENDINGS, signal.SIGINT])
def test_a_consumer_that_follows_says_what_it_printed(data: Path, number: int) -> None:
    with kstore.open(data) as store:
        store["orders"].append(b"v")
    words = ("--topic", "orders", "--from-beginning", "--enable-systest-events", "--log-dir", data)
    process = start("console-consumer", *words)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"v\n"
        process.send_signal(number)
        rest, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert rest == b"shutdown_complete\n"
    assert errors == b"Processed a total of 1 messages\n"


def test_a_group_commits_what_was_written(data: Path, capfd: Any) -> None:
    """The reader of the output goes away before the first write: nothing is committed."""
    with kstore.open(data) as store:
        store["orders"].append(b"v")
    words = ["console-consumer", "--topic", "orders", "--group", "g", "--from-beginning",
             "--timeout-ms", "1", "--log-dir", str(data)]  # fmt: skip

    process = start(*words)
    assert process.stdout is not None
    process.stdout.close()
    process.communicate(timeout=120)
    assert process.returncode == 141
    assert main(words) == 0
    assert capfd.readouterr().out == "v\n"
    assert main(words) == 0
    assert capfd.readouterr().out == ""


# --- requests -----------------------------------------------------------------------------------


def test_a_signal_before_a_loop_begins_raises(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store is opened, which may take long; it is closed cleanly."""

    def named(store: kstore.Store, name: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("kstore.cli.console_producer.named_topic", named)
    assert main(["console-producer", "--topic", "orders", "--log-dir", str(data)]) == 143
    assert values(data) == []


def test_a_second_signal_is_not_deferred() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        stop.defer()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt) as raised:
            os.kill(os.getpid(), signal.SIGINT)
        assert not isinstance(raised.value, Terminated)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("first", "second"), TWO_KINDS)
def test_the_first_request_gives_the_status(first: int, second: int) -> None:
    with StopRequest() as stop:
        stop.defer()
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), second)
        assert stop.number == first


@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_that_is_ignored_stays_ignored(number: int) -> None:
    """As ``nohup`` has it."""
    signal.signal(number, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        assert stop.number == 0
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_tool_runs_outside_the_main_thread(data: Path) -> None:
    """Where no handler can be set."""
    words = ["topics", "--list", "--log-dir", str(data)]
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(main(words)))
    thread.start()
    thread.join()
    assert statuses == [0]


def test_a_signal_that_another_thread_receives_ends_a_wait() -> None:
    """The main thread's system call is not interrupted then, and no handler in Python runs."""
    main_thread = Path(f"/proc/self/task/{threading.get_native_id()}")

    def is_waiting() -> bool:  # but not for the interpreter, which is a futex
        is_asleep = main_thread.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "S"
        return is_asleep and not main_thread.joinpath("wchan").read_text().startswith("futex")

    def receive_it() -> None:
        while not is_waiting():
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with StopRequest() as stop:
        stop.defer()
        thread = threading.Thread(target=receive_it)
        thread.start()
        assert select.select([stop], [], [], 60)[0]
        thread.join()
        assert stop.number == signal.SIGTERM


def test_a_signal_that_ends_nothing_does_not_end_a_wait() -> None:
    usual = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with StopRequest() as stop:
            stop.defer()
            signal.raise_signal(signal.SIGUSR1)
            assert select.select([stop], [], [], 0)[0]
            assert not stop.wait(0)
            assert not select.select([stop], [], [], 0)[0]
    finally:
        signal.signal(signal.SIGUSR1, usual)


def test_the_wakeup_descriptor_of_the_program_is_restored() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with StopRequest():
        pass
    assert signal.set_wakeup_fd(before) == before
