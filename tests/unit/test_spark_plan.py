"""Planning for Spark, without Spark: offsets to bytes of files to tasks."""

from pathlib import Path

import pytest

import kstore
from kstore.spark import plan


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    with kstore.open(path) as store:
        orders = store.create_topic("orders", 2)
        for n in range(1000):
            orders.append(b"value %d" % n, timestamp=1_700_000_000_000 + n, partition=n % 2)
    return path


def test_a_plan_tells_what_is_left_out(place: Path) -> None:
    whole = plan(place, topics="orders")
    late = plan(place, topics="orders", since=1_700_000_000_900)
    assert whole.offsets == 1000
    assert late.offsets == 100
    assert 0 < late.size < whole.size // 5
    assert late.all_bytes == whole.all_bytes == whole.size
