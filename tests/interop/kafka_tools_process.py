"""Kafka's command-line tools in one Java process, which stays warm from one to the next."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from interop.kafka_jars import ToolError, compiled, java_command
from interop.node import die_with_parent


class Printed(NamedTuple):
    """How a tool ended, and what it printed on standard output and standard error."""

    status: int
    out: str
    err: str


class KafkaToolsProcess:
    """Runs tools by their main classes, one at a time."""

    def __init__(self, version: str) -> None:
        command = java_command(version, "Tools", classes=compiled(version, "Tools"))
        self._process = subprocess.Popen(
            [command[0], "-Djava.security.manager=allow", *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,
        )

    def run(self, main: str, *words: object, text: str = "") -> Printed:
        """What a tool prints, given text as its standard input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"main": main, "words": [*map(str, words)], "input": text}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ToolError(f"Tools.java ended while it ran {main} {words}")
        found = json.loads(answer)
        return Printed(found["status"], found["out"], found["err"])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def kafka_tools(version: str) -> Iterator[KafkaToolsProcess]:
    """A process that is killed at the end."""
    running = KafkaToolsProcess(version)
    try:
        yield running
    finally:
        running.close()
