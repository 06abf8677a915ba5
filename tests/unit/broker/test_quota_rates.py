"""Rates and buckets of quotas, at times that the tests choose."""

import pytest

from kstore.broker.quota_rates import TokenBucket, WindowedRate


def test_a_rate_within_its_limit_does_not_throttle() -> None:
    rate = WindowedRate(11)
    for second in range(100):
        rate.record(1000, float(second))
        assert rate.throttle_seconds(1200, float(second)) == 0.0


def test_the_first_seconds_count_as_ten() -> None:
    """Kafka's Rate.windowSize: 10 full windows at least, so that a burst is allowed."""
    rate = WindowedRate(11)
    rate.record(10_000, 5.0)
    assert rate.throttle_seconds(1000, 5.0) == 0.0
    rate.record(10_000, 5.0)
    assert rate.throttle_seconds(1000, 5.0) == pytest.approx(10.0)  # of 2,000 a second over 10 s
    assert rate.throttle_seconds(1000, 5.5) == pytest.approx(9.5)


def test_after_the_wait_the_rate_is_the_limit() -> None:
    rate = WindowedRate(11)
    rate.record(20_000, 0.0)
    wait = rate.throttle_seconds(2000, 0.0)
    assert wait == 0.0
    rate.record(1000, 0.5)
    wait = rate.throttle_seconds(2000, 0.5)
    assert rate.throttle_seconds(2000, 0.5 + wait) == pytest.approx(0.0, abs=0.51)


def test_old_windows_are_forgotten() -> None:
    rate = WindowedRate(11)
    rate.record(1_000_000, 0.0)
    assert not rate.is_idle(10.9)
    assert rate.throttle_seconds(1, 10.9) > 0
    assert rate.is_idle(11.0)
    assert rate.throttle_seconds(1, 11.0) == 0.0


def test_tokens_are_taken_and_come_back() -> None:
    bucket = TokenBucket(2.0, 11, 0.0)
    bucket.take(22, 2.0, 0.0)
    assert bucket.throttle_seconds(2.0, 0.0) == 0.0
    bucket.take(10, 2.0, 0.0)
    assert bucket.throttle_seconds(2.0, 0.0) == 5.0
    assert bucket.throttle_seconds(2.0, 3.0) == 2.0
    assert bucket.throttle_seconds(2.0, 5.0) == 0.0
    assert not bucket.is_full(15.9)
    assert bucket.is_full(16.0)
    bucket.take(22, 2.0, 1000.0)  # never more than the burst
    bucket.take(2, 2.0, 1000.0)
    assert bucket.throttle_seconds(2.0, 1000.0) == 1.0
