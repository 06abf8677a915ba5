"""Inputs of the engine's contests: as many different ones as a service has."""

import kstore
from engine.contests import log_append, log_stream, producer, records
from engine.data import fresh
from kstore.log.writable_log import WritableLog


def test_lists_share_no_value_and_no_memory():
    lists = fresh.value_lists(5)
    assert [len(values) for values in lists] == [1000] * 5
    values = [value for some in lists for value in some]
    assert len(set(values)) == len({id(value) for value in values}) == 5000
    assert {len(value) for value in values} == {100}


def test_more_inputs_than_a_cache_holds_are_used_in_turn(monkeypatch):
    monkeypatch.setattr(fresh, "POOL", 1000)
    made = fresh.copies(bytes(250), 10)
    assert len({id(batch) for batch in made}) == 4
    assert [id(batch) for batch in made[:4]] * 2 == [id(batch) for batch in made[:8]]
    assert len(made) == 10


def given(monkeypatch, name):
    """The arguments of a log's appends, by identity."""
    seen = []
    real = getattr(WritableLog, name)

    def note(self, some, *more, **named):
        seen.append(id(some))
        return real(self, some, *more, **named)

    monkeypatch.setattr(WritableLog, name, note)
    return seen


def test_extend_gets_another_list_at_each_call(monkeypatch, tmp_path):
    seen = given(monkeypatch, "extend")
    log_append.extend_thousands(tmp_path, 5)
    assert len(set(seen[1:])) == 5
    seen.clear()
    log_append.extend_thousands(tmp_path, 5, is_hot=True)
    assert len(set(seen)) == 1


def test_a_stream_gets_another_list_at_each_call(monkeypatch, tmp_path):
    seen = given(monkeypatch, "extend")
    log_stream.stream(tmp_path, 6000, reader=False)
    assert len(set(seen)) == 6


def test_a_leader_gets_another_batch_at_each_call(monkeypatch, tmp_path):
    seen = given(monkeypatch, "append_as_leader")
    batches = fresh.copies(log_append.client_batch(10), 8)
    log_append.append_batches(tmp_path, batches, 10, "leader")
    assert len(set(seen)) == 8


def test_a_producer_sends_another_value_each_time(monkeypatch, tmp_path):
    seen = []
    real = kstore.Producer.send

    def note(self, value, *more, **named):
        seen.append(id(value))
        return real(self, value, *more, **named)

    monkeypatch.setattr(kstore.Producer, "send", note)
    producer.send(tmp_path, 2500, 1, idempotent=False)
    assert len(set(seen)) == 2500


def test_encoders_get_another_list_at_each_call(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.01")
    seen = []
    real = records.Encoding.put_values
    monkeypatch.setattr(
        records.Encoding, "put_values", lambda self, some: seen.append(id(some)) or real(self, some)
    )
    contest = records.encoding()
    seen.clear()
    for _ in range(4):
        contest.calls["kstore"]()
    assert len(set(seen)) == 4
