"""Drivers that die before, in and behind a commit; then the same again, and each row shows once.

A death takes the JVM, the driver's Python and the process that commits (but for "machine", where
that one continues). What shows between death and restart is asked by readers of both isolations.
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


def visible(log_dir: Path, topic: str) -> list[int]:
    """Numbers that readers see, of either isolation, newly opened."""
    found = []
    for isolation in ("read_uncommitted", "read_committed"):
        with kstore.open(log_dir, mode="r") as store:
            found.append(
                sorted(
                    int(record.value)
                    for log in store[topic]
                    for record in log.view(isolation=isolation)
                )
            )
    assert found[0] == found[1]
    return found[0]


def append(log_dir: Path, first: int) -> None:
    with kstore.open(log_dir) as store, store.producer("from") as producer:
        for n in range(first, first + STEP):
            producer.send(b"%d" % n, key=b"%d" % n, timestamp=OLD + n)


def expire_producers(log_dir: Path) -> None:
    """As if the store had stood still for long: no producer is known any more."""
    config = kstore.StoreConfig(log=kstore.LogConfig(producer_id_expiration_ms=1))
    with kstore.open(log_dir, config=config) as store:
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
def test_each_record_shows_once(java: None, tmp_path: Path, deaths: list[tuple[str, str]]) -> None:
    """Each driver runs again what the one before died in, then dies in work of its own."""
    log_dir = tmp_path / "store"
    with kstore.open(log_dir) as store:
        for topic in ("from", "stream", "batch"):
            store.create_topic(topic, PARTITIONS)
    stream = {"path": log_dir, "source": "from", "topic": "stream", "batchSize": 512,
              "checkpoint": tmp_path / "checkpoint", "most": 10 * STEP}  # fmt: skip
    jobs: list[dict[str, object]] = []
    published = {"stream": 0, "batch": 0}
    for number, (kind, point) in enumerate([*deaths, ("", "")]):
        with Driver("local[2]", tmp_path / f"driver-{number}") as driver:
            driver.call("stream", **stream)
            for job in jobs:
                driver.call("write", **job)
            for topic, count in published.items():
                assert visible(log_dir, topic) == list(range(count)), (topic, number)
            if not kind:
                break
            expire_producers(log_dir)
            if kind == "stream":
                append(log_dir, published["stream"])
                driver.send("stream", **stream, deadly=point)
            else:
                jobs.append({"path": log_dir, "topic": "batch", "count": STEP, "batchSize": 512,
                             "first": published["batch"], "writeId": f"job {number}"})  # fmt: skip
                driver.send("write", **jobs[-1], deadly=point)
            with pytest.raises(DriverDiedError):
                driver.answer()
        now, before = visible(log_dir, kind), published[kind]
        published[kind] += STEP
        if point != "machine":  # there the commit may still be in progress
            assert now == list(range(published[kind] if point in SHOWN else before)), (kind, point)
        assert len(now) in (before, published[kind])
    with kstore.open(log_dir) as store:
        assert all(log.verify().ok for topic in store.values() for log in topic)
    left = {path.name.split(".")[1] for path in log_dir.rglob("kstore.*")}
    assert not left & {"publishing", "fence"}
