"""What the tools share: options that read as Kafka's, output in blocks, stores and topics."""

import argparse
import re
import sys
from types import TracebackType
from typing import Any, NoReturn

_BLOCK = 1 << 18  # bytes that one write hands on


class ToolParser(argparse.ArgumentParser):
    """A parser whose complaints are Kafka's: the message, then the usage, exit status 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        missing = re.match(r"the following arguments are required: (\S+?),?(?: |/|$)", message)
        if missing:
            message = f'Missing required argument "[{missing[1].lstrip("-")}]"'
        sys.stderr.write(f"{message}\n\n")
        self.print_usage(sys.stderr)
        sys.stderr.write(f"'{self.prog} --help' tells what each option does.\n")
        raise SystemExit(1)


class Output:
    """Bytes to standard output, collected and written in blocks."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._to = sys.stdout.buffer
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size >= _BLOCK:
            self.flush()

    def line(self, text: str) -> None:
        self.write(text.encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held = []
        self._size = 0
        if data:
            self._to.write(data)
        self._to.flush()

    def __enter__(self) -> "Output":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, BrokenPipeError):
            self.flush()


def complain(text: str) -> None:
    """A line on standard error, after everything that was printed so far."""
    print(text, file=sys.stderr)
