"""Every contest against Kafka's log layer runs, and all contestants agree."""

from importlib import import_module

import pytest

from interop.kafka_jars import prepare, unavailable
from peers.kafka import VERSION
from peers.provide_kafka import MissingError as MissingError  # registers Kafka

SUITES = ("checksum", "index", "log_append", "log_read", "log_open", "log_stream", "compaction")


@pytest.mark.interop
@pytest.mark.parametrize("suite", SUITES)
def test_contests(suite, monkeypatch):
    reason = prepare(VERSION)[1]
    if reason:
        unavailable(reason)
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.005")
    names = []
    for contest in import_module(f"engine.contests.{suite}").contests():
        contest.check()
        assert {ours for ours, _, _ in contest.bars}  # each compares something
        names.append(contest.name)
    assert len(names) == len(set(names)) > 0
