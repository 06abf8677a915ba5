"""Drivers that die before, in and behind a commit; then the same again, and each row is there once.

A death takes the JVM, the driver's Python and the process that commits (but for "machine", where
that one goes on). What shows between death and restart is asked by readers of both isolations.
"""

from pathlib import Path

import pytest

import kstore
from spark.driver import Driver, DriverDiedError
from spark.scenarios import OLD

pytestmark = pytest.mark.timeout(1500)
PARTITIONS = 3
STEP = 300  # records that each batch brings
SHOWN = ("shown", "after")
QUICK = [("stream", "between"), ("batch", "shown")]


def both(point: str) -> list[tuple[str, str]]:
    return [("stream", point), ("batch", point)]


def visible(place: Path, topic: str) -> list[int]:
    """Numbers that readers see, of either isolation, newly opened."""
    found = []
    for isolation in ("read_uncommitted", "read_committed"):
        with kstore.open(place, mode="r") as store:
            found.append(
                sorted(
                    int(record.value)
                    for log in store[topic]
                    for record in log.view(isolation=isolation)
                )
            )
    assert found[0] == found[1]
    return found[0]


def append(place: Path, first: int) -> None:
    with kstore.open(place) as store, store.producer("from") as producer:
        for n in range(first, first + STEP):
            producer.send(b"%d" % n, key=b"%d" % n, timestamp=OLD + n)


def expire_producers(place: Path) -> None:
    """As if the store had stood still for long: no producer is known any more."""
    config = kstore.StoreConfig(log=kstore.LogConfig(producer_id_expiration_ms=1))
    with kstore.open(place, config=config) as store:
        for topic in store.values():
            for log in topic:
                log.flush()


@pytest.mark.parametrize(
    "deaths",
    [
        QUICK,
        pytest.param([*both("before"), *both("machine")], marks=pytest.mark.cluster),
        pytest.param([*both("unshown"), ("batch", "between")], marks=pytest.mark.cluster),
        pytest.param([*both("after"), ("stream", "shown")], marks=pytest.mark.cluster),
    ],
    ids=["quick", "before", "unshown", "after"],
)
def test_each_record_is_there_once(
    java: None, tmp_path: Path, deaths: list[tuple[str, str]]
) -> None:
    """Each driver runs again what the one before died in, then dies in work of its own."""
    place = tmp_path / "store"
    with kstore.open(place) as store:
        for topic in ("from", "stream", "batch"):
            store.create_topic(topic, PARTITIONS)
    stream = {"path": place, "source": "from", "topic": "stream", "batchSize": 512,
              "checkpoint": tmp_path / "checkpoint", "most": 10 * STEP}  # fmt: skip
    jobs: list[dict[str, object]] = []
    whole = {"stream": 0, "batch": 0}
    for number, (kind, point) in enumerate([*deaths, ("", "")]):
        with Driver("local[2]", tmp_path / f"driver-{number}") as driver:
            driver.call("stream", **stream)
            for job in jobs:
                driver.call("write", **job)
            for topic, count in whole.items():
                assert visible(place, topic) == list(range(count)), (topic, number)
            if not kind:
                break
            expire_producers(place)
            if kind == "stream":
                append(place, whole["stream"])
                driver.tell("stream", **stream, deadly=point)
            else:
                jobs.append({"path": place, "topic": "batch", "count": STEP, "batchSize": 512,
                             "first": whole["batch"], "writeId": f"job {number}"})  # fmt: skip
                driver.tell("write", **jobs[-1], deadly=point)
            with pytest.raises(DriverDiedError):
                driver.answer()
        now, before = visible(place, kind), whole[kind]
        whole[kind] += STEP
        if point != "machine":  # there the commit may still be under way
            assert now == list(range(whole[kind] if point in SHOWN else before)), (kind, point)
        assert len(now) in (before, whole[kind])
    with kstore.open(place) as store:
        assert all(log.verify().ok for topic in store.values() for log in topic)
    left = {path.name.split(".")[1] for path in place.rglob("kstore.*")}
    assert not left & {"publishing", "fence"}
