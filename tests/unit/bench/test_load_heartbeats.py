"""``python -m load.heartbeats``: one group of each protocol, whose every answer is compared."""

import re
import resource
from collections.abc import Iterator
from dataclasses import replace

import pytest

from load import group_members, heartbeats
from load.brokers import Broker
from load.group_members import GROUP, Beat

SECONDS, PERIOD = 0.5, 0.25
EXPECTED = round(GROUP * SECONDS / PERIOD)  # heartbeats


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heartbeats, "PERIOD", PERIOD)
    # Classic members join together while the broker waits for more of them, 3 s by default.
    monkeypatch.setitem(heartbeats.SETTINGS, "group.initial.rebalance.delay.ms", 500)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)  # the program raises it


def run(protocol: str) -> None:
    assert heartbeats.main([str(SECONDS), str(GROUP), "--protocol", protocol]) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_either_protocol_send_heartbeats(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(protocol)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"{GROUP} {protocol} members on {count} connections" for count in (50, GROUP)
    ]
    for line in lines:
        assert f"all {EXPECTED} answered without an error" in line
        assert re.search(r"\d\.\d{3} of a core .*; wanted with 10,000: 0\.3\)$", line)


def test_an_error_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_stranger(broker: Broker, members: int) -> list[Beat]:
        beats = group_members.consumer_members(broker, members)
        name = f"member-{members - 1:015}".encode()
        assert name in beats[-1].frame
        beats[-1] = replace(beats[-1], frame=beats[-1].frame.replace(name, name[::-1]))
        return beats

    monkeypatch.setattr(heartbeats, "PROTOCOLS", {"consumer": with_a_stranger})
    with pytest.raises(AssertionError, match="is not a member of group"):
        run("consumer")


def test_members_have_to_fill_their_groups() -> None:
    with pytest.raises(AssertionError, match="groups have 100 members"):
        heartbeats.main(["1", "150"])
