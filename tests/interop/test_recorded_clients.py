"""Clients that are recorded again send the requests that are kept in tests/data.

`make interop-all` runs these: their brokers and clients are old.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from interop.kafka_jars import libs
from interop.recorded.brokers import kraft, zookeeper
from interop.recorded.recording import recorded
from interop.recorded.session import Session, exchanges
from kstore.protocol.api_keys import ApiKey

pytestmark = pytest.mark.all_versions

Recorder = Callable[[Path, Sequence[str]], Iterator[Session]]


def requests(session: Session) -> set[tuple[ApiKey, int]]:
    """APIs and versions; how often a client polls differs from run to run."""
    return {each.pair for each in exchanges(session)}


@pytest.mark.parametrize(
    ("recorder", "name", "versions"),
    [
        (kraft, "0.10.2.2 lz4", ("3.9.2", "clients-0.10.2.2")),
        (zookeeper, "0.8.2.2 at 2.8.2", ("2.8.2", "0.8.2.2")),
    ],
)
def test_a_client_that_is_recorded_again_sends_the_same_requests(
    recorder: Recorder, name: str, versions: tuple[str, ...], tmp_path: Path
) -> None:
    for version in versions:
        libs(version)
    (kept,) = [each for each in recorded() if each.name == name]
    (session,) = recorder(tmp_path, [name])
    assert requests(session) == requests(kept)
    assert session.topics == kept.topics
