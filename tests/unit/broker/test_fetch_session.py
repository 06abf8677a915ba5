"""Fetch sessions: what a request means, what an answer has, who is evicted (KIP-227)."""

import pytest

from kstore.broker.fetch_session import (
    EVICTION_SECONDS,
    FetchSessions,
    SessionCache,
    next_epoch,
)
from kstore.cluster.image import ClusterImage
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from support.clock import Clock

IMAGE = ClusterImage("c", 0, {}, {}, {b"i" * 16: "t"})
PartitionAnswer = FetchResponse.Responses.Partitions


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return FetchSessions(10, clock)


def request(number=0, epoch=-1, *, wanted=(), forgotten=(), topic="t", topic_id=bytes(16)):
    partitions = [FetchRequest.Topics.Partitions(partition=n, fetch_offset=o) for n, o in wanted]
    forget = FetchRequest.ForgottenTopicsData(topic, topic_id, list(forgotten))
    return FetchRequest(
        session_id=number,
        session_epoch=epoch,
        topics=[FetchRequest.Topics(topic, topic_id, partitions)] if wanted else [],
        forgotten_topics_data=[forget] if forgotten else [],
    )


def ask(sessions, message, results=None, version=11):
    """Open a context and answer it; results are the records of partitions."""
    context = sessions.open(message, version, IMAGE, is_follower=False)
    answers = [
        (each, PartitionAnswer(each.number, 0, 5, 5, 0, records=(results or {}).get(each.number)))
        for each in context.partitions
    ]
    return sessions.answer(context, answers)


def numbers(response):
    return [each.partition_index for topic in response.responses for each in topic.partitions]


def test_epochs_wrap_to_1():
    assert [next_epoch(n) for n in (0, 1, 0x7FFFFFFF, -1)] == [1, 2, 1, -1]


def test_a_fetch_without_a_session_creates_none(sessions):
    response = ask(sessions, request(0, -1, wanted=[(0, 0), (1, 0)]))
    assert (response.session_id, numbers(response), len(sessions.cache)) == (0, [0, 1], 0)


def test_incremental_answers_have_only_what_is_new(sessions):
    first = ask(sessions, request(0, 0, wanted=[(0, 0), (1, 0), (2, 0)]))
    assert (first.session_id > 0, numbers(first)) == (True, [0, 1, 2])
    number = first.session_id
    assert numbers(ask(sessions, request(number, 1))) == []
    assert numbers(ask(sessions, request(number, 2), {1: b"x"})) == [1]
    # Partition 1 had records: it is read last now.
    assert numbers(ask(sessions, request(number, 3), {0: b"x", 1: b"x", 2: b"x"})) == [0, 2, 1]
    assert ask(sessions, request(number, 4)).session_id == number


def test_changed_offsets_and_errors_are_new(sessions):
    number = ask(sessions, request(0, 0, wanted=[(0, 0), (1, 0)])).session_id

    def news(epoch, **changed):
        context = sessions.open(request(number, epoch), 11, IMAGE, is_follower=False)
        fields = {"high_watermark": 5, "log_start_offset": 0}
        return numbers(
            sessions.answer(
                context,
                [
                    (each, PartitionAnswer(each.number, **(fields | changed)))
                    for each in context.partitions[:1]
                ],
            )
        )

    assert news(1) == []
    assert news(2, high_watermark=6) == [0]
    assert news(3, high_watermark=6) == []
    assert news(4, high_watermark=6, log_start_offset=1) == [0]
    assert news(5, error_code=6, high_watermark=6, log_start_offset=1) == [0]
    assert news(6, error_code=6, high_watermark=6, log_start_offset=1) == [0]
    assert news(7, high_watermark=6, log_start_offset=1) == [0]  # the error is over
    assert news(8, high_watermark=6, log_start_offset=1) == []
    diverging = PartitionAnswer.DivergingEpoch(1, 2)
    assert news(9, high_watermark=6, log_start_offset=1, diverging_epoch=diverging) == [0]
    assert news(10, high_watermark=6, log_start_offset=1, preferred_read_replica=2) == [0]


def test_partitions_are_added_updated_and_forgotten(sessions):
    number = ask(sessions, request(0, 0, wanted=[(0, 0), (1, 0)])).session_id
    message = request(number, 1, wanted=[(2, 7), (1, 9)], forgotten=[0])
    context = sessions.open(message, 11, IMAGE, is_follower=False)
    assert [(each.number, each.fetch_offset) for each in context.partitions] == [(1, 9), (2, 7)]
    sessions.answer(context, [])
    response = ask(sessions, request(number, 2, forgotten=[1, 2]))
    assert (response.session_id, len(sessions.cache)) == (0, 0)
    assert ask(sessions, request(number, 3)).error_code == 70


def test_wrong_session_ids_and_epochs_get_their_errors(sessions):
    number = ask(sessions, request(0, 0, wanted=[(0, 0)])).session_id
    assert ask(sessions, request(number + 1, 1)).error_code == 70
    for epoch in (2, 7, -5):
        response = ask(sessions, request(number, epoch))
        assert (response.error_code, response.session_id, response.responses) == (71, 0, [])
    assert ask(sessions, request(number, 1)).error_code == 0
    assert ask(sessions, request(number, 1)).error_code == 71


def test_ids_and_names_do_not_mix(sessions):
    number = ask(sessions, request(0, 0, wanted=[(0, 0)])).session_id
    assert ask(sessions, request(number, 1), version=13).error_code == 106
    by_id = request(0, 0, wanted=[(0, 0)], topic="", topic_id=b"i" * 16)
    number = ask(sessions, by_id, version=13).session_id
    assert ask(sessions, request(number, 1), version=12).error_code == 106
    assert ask(sessions, request(number, 1), version=13).error_code == 0


def test_an_unknown_id_is_resolved_when_the_topic_exists(sessions):
    message = request(0, 0, wanted=[(0, 0)], topic="", topic_id=b"n" * 16)
    context = sessions.open(message, 13, IMAGE, is_follower=False)
    assert [each.topic for each in context.partitions] == [None]
    answers = [(each, PartitionAnswer(0, 100)) for each in context.partitions]
    number = sessions.answer(context, answers).session_id
    image = ClusterImage("c", 0, {}, {}, {b"n" * 16: "new"})
    context = sessions.open(request(number, 1), 13, image, is_follower=False)
    assert [each.topic for each in context.partitions] == ["new"]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_closes_its_old_session(sessions, epoch):
    number = ask(sessions, request(0, 0, wanted=[(0, 0)])).session_id
    response = ask(sessions, request(number, epoch, wanted=[(0, 0)]))
    assert response.session_id != number
    assert ask(sessions, request(number, 1)).error_code == 70


def test_a_request_that_came_meanwhile_makes_the_answer_71(sessions):
    number = ask(sessions, request(0, 0, wanted=[(0, 0)])).session_id
    parked = sessions.open(request(number, 1), 11, IMAGE, is_follower=False)
    assert ask(sessions, request(number, 2)).error_code == 0
    assert sessions.answer(parked, []).error_code == 71


def create(cache, size, *, privileged=False):
    session = cache.create(dict.fromkeys(range(size)), privileged=privileged, uses_topic_ids=True)
    return None if session is None else session.id


def test_a_full_cache_gives_no_session(clock):
    cache = SessionCache(2, clock)
    assert create(cache, 5)
    assert create(cache, 5)
    assert create(cache, 500) is None  # both are young
    assert create(SessionCache(0, clock), 1) is None


def test_the_partitions_of_all_sessions_are_bounded(clock):
    cache = SessionCache(3, clock)
    assert create(cache, 3_001) is None
    first = create(cache, 2_000)
    assert create(cache, 1_001) is None
    assert create(cache, 1_000)
    clock.now += EVICTION_SECONDS + 1
    assert create(cache, 1_500)
    assert cache.get(first) is None
    assert cache.partitions == 2_500


def test_a_session_that_grows_beyond_the_bound_ends(clock):
    sessions = FetchSessions(1, clock)
    number = ask(sessions, request(0, 0, wanted=[(0, 0)])).session_id
    more = request(number, 1, wanted=[(each, 0) for each in range(1, 1_001)])
    assert ask(sessions, more).error_code == 70
    assert len(sessions.cache) == 0


def test_an_idle_session_is_evicted_first(clock):
    cache = SessionCache(2, clock)
    idle, used = create(cache, 9), create(cache, 1)
    clock.now += EVICTION_SECONDS + 1
    cache.touch(cache.get(used))
    new = create(cache, 1)
    assert [each.id for each in cache] == [used, new]
    assert idle not in (used, new)


def test_a_smaller_old_session_is_evicted(clock):
    cache = SessionCache(2, clock)
    small, large = create(cache, 3), create(cache, 9)
    clock.now += EVICTION_SECONDS + 1
    for each in (small, large):
        cache.touch(cache.get(each))
    assert create(cache, 2) is None
    assert create(cache, 4) is not None
    assert next(each.id for each in cache) == large


def test_followers_evict_young_consumers_only(clock):
    cache = SessionCache(1, clock)
    consumer = create(cache, 9)
    follower = create(cache, 1, privileged=True)
    assert follower is not None
    assert cache.get(consumer) is None
    assert create(cache, 99, privileged=True) is None  # the follower's is young
    assert create(cache, 99) is None
