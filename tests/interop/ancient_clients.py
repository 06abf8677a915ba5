"""java/OldClients.java: the producers and the consumer of 0.8.2, in one process."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Protocol

from interop.kafka_jars import ToolError, compiled, java_command
from interop.old_node import OldNode
from kafka_files.data_sets import ExpectedPartition, expected_partition

VERSION = "0.8.2.2"


class BrokerOfOldClients(Protocol):
    """What they need of a broker: its port on this machine, and the end of its log for errors."""

    @property
    def port(self) -> int: ...

    def said(self) -> str: ...


class AncientClients:
    """java/OldClients.java: the producers and the consumer of 0.8.2."""

    def __init__(self, node: BrokerOfOldClients, root: Path) -> None:
        self._node = node
        self._path = root / "ancient.json"
        classes = compiled(VERSION, "OldClients")
        # Their logging: nothing, since none is configured for this process.
        command = java_command(VERSION, "OldClients", classes=classes)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _ask(self, *words: object) -> str:
        self._send(*words)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode()
        if not answer.startswith("ok"):
            raise ToolError(f"the clients of 0.8.2: {answer} {self._node.said()}")
        return answer[3:]

    def _send(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(("\t".join(map(str, words)) + "\n").encode())

    def commit(self, group: str, topic: str, offset: int) -> str:
        """Errors of commits in versions 0 and 1, then what is committed in both."""
        return self._ask("commit", "127.0.0.1", self._node.port, group, topic, offset)

    def send(
        self, kind: str, topic: str, codec: str, pairs: list[tuple[bytes | None, bytes | None]]
    ) -> None:
        for pair in pairs:
            shown = ("-" if each is None else base64.b64encode(each).decode() for each in pair)
            self._send("send", topic, *shown)
        self._ask(kind, "127.0.0.1", self._node.port, codec)

    def look(self, topics: list[str]) -> dict[str, ExpectedPartition]:
        for attempt in (1, 2, 3):
            try:
                self._ask("dump", "127.0.0.1", self._node.port, self._path, *topics)
                break
            except ToolError as error:  # its controller sometimes misses that it is alive
                node = self._node
                if attempt == 3 or "has no leader" not in str(error):
                    raise
                if not isinstance(node, OldNode):
                    raise
                node.stop()
                node.start()
        stored = json.loads(self._path.read_text())["partitions"]
        return {name: expected_partition(name, stored[name]) for name in stored}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
