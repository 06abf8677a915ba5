"""A mirror of a topic that a broker does not list: not yet, or not any more."""

import pytest

from kstore import Store
from kstore.errors import SourceChangedError, UnknownTopicOrPartitionError
from kstore.mirror import Mirror
from kstore.mirror import copy as engine
from kstore.mirror.source_types import Fetched, TopicDescription
from unit.mirror.test_mirror import Leader, copied, fill, run
from unit.mirror.test_mirror import leader as leader
from unit.mirror.test_mirror import target as target


def test_a_broker_that_does_not_know_the_topic_yet_does_not_end_it(
    leader: Leader,
    target: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(engine, "_PAUSE", 0)
    fill(leader, 1)
    rounds: list[int] = []

    def restart() -> None:
        rounds.append(1)
        leader.topic = "t"
        fill(leader, 1)
        if len(rounds) in (3, 4, 5):
            leader.errors = [3, 3]
            leader.describe = unknown
        else:
            leader.describe = known

    def unknown() -> TopicDescription:
        raise UnknownTopicOrPartitionError("there is no topic 't' in the cluster")

    known = leader.describe
    leader.before_fetch = restart
    mirror = Mirror(target, leader, metadata_max_age=0)
    mirror.run(follow=True, stop=lambda: len(rounds) >= 9)
    assert copied(target) == copied(leader.store)
    texts = [each.getMessage() for each in caplog.records if "there is no topic" in each.message]
    assert len(texts) == 1, "it is reported, once"


def test_a_deletion_ends_it(leader: Leader, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PAUSE", 0)
    monkeypatch.setattr(engine, "_PATIENCE", 0)
    fill(leader, 1)

    def vanish() -> None:
        leader.topic = "gone"
        leader.errors = [3, 3]
        leader._answer = lambda *_: Fetched(100, -1, -1, b"")

    leader.before_fetch = vanish
    with pytest.raises(SourceChangedError, match="deleted in the cluster"):
        run(leader, target, partitions=[0])
