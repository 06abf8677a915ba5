"""Opening a cleanly closed partition makes few calls to the disk: a store may have thousands."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kstore.checkpoint import topics_file
from kstore.config import StoreConfig
from kstore.files.files import Files
from kstore.store.store import Store

QUIET = StoreConfig(background=False)


class Counting(Files):
    """Counts the calls by the suffix of the file, or the name of the call."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    def open(self, path: Any, flags: int = 0) -> int:
        self.opened[Path(path).suffix or Path(path).name] += 1
        return super().open(path, flags)

    def kind(self, path: Any) -> str | None:
        self.asked["kind"] += 1
        return super().kind(path)

    def listdir(self, path: Any) -> list[str]:
        self.asked["listdir"] += 1
        return super().listdir(path)

    def about(self, path: Any) -> Any:
        self.asked["about"] += 1
        return super().about(path)


def make_clean(path: Path) -> None:
    with Store(path, config=QUIET) as store:
        for log in store.create_topic("t", partitions=3):
            log.extend([b"value"] * 3)


def test_a_clean_partition_is_listed_once_and_read_little(tmp_path: Path) -> None:
    make_clean(tmp_path)
    files = Counting()
    with Store(tmp_path, config=QUIET, files=files) as store:
        assert store["t"][0].end_offset == 3
        files.opened.clear()
        files.asked.clear()
        assert store["t"][1].end_offset == 3
        assert files.asked["listdir"] == 1
        assert files.asked["kind"] <= 6
        assert files.asked["about"] <= 1
        assert files.opened == {
            ".log": 3,  # its size, its end, its largest timestamp
            ".index": 2,  # checked, then loaded
            ".timeindex": 2,
            ".snapshot": 1,
            "leader-epoch-checkpoint": 1,
        }


def test_the_settings_of_a_topic_are_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_clean(tmp_path)
    parsed: list[str] = []
    parse = topics_file._entry

    def note(topic: str, body: object, path: str) -> topics_file.TopicEntry:
        parsed.append(topic)
        return parse(topic, body, path)

    monkeypatch.setattr(topics_file, "_entry", note)
    with Store(tmp_path, config=QUIET) as store:
        logs = list(store["t"])
        assert parsed == ["t"]
        store.alter_topic("t", {"retention.ms": 1000})
        assert all(log.config.retention_ms == 1000 for log in logs)
        assert store.topic("t").config.retention_ms == 1000
